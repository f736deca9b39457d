"""Mask and draw on a CUDA device: masks are filled in memory the device copies from, sent by one copy, and applied by
one kernel; a step's draws come back by one copy (`TorchDraws.choose`)."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import triton
from torch import Tensor

from sluicegate.engine.cuda.kernels.draw import draw_rows
from sluicegate.engine.cuda.kernels.mask import refuse_tokens
from sluicegate.engine.cuda.staging import Staging
from sluicegate.engine.sampling.bitmasks import Bitmask
from sluicegate.engine.sampling.rng import uniform
from sluicegate.engine.sampling.rows import LogitsRow
from sluicegate.engine.sampling.torch_draws import TorchDraws

_COLUMNS = 1024
_WIDE = 4096
"""Columns that the threads of a row read at a time."""
_BEST = 1024
"""Sorted logits among which the bounds of top-k and top-p are searched."""


class CudaDraws(TorchDraws):
    """Draws on a CUDA device, masking by one copy and one kernel. Call `refuse` before the next `room`, which reuses
    its memory."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._staging = Staging(torch.int32, device)
        self._numbers = Staging(torch.float64, device)
        self._filled: npt.NDArray[Any] = np.zeros((0, 1), np.int32)

    def decide(self, logits: Tensor, rows: Seq[LogitsRow]) -> Tensor:
        """Choose as `TorchDraws.decide` does, for `logits` [R, V] float32, by one copy of numbers and one kernel. Ties
        at the end of top-k and top-p are kept together, and what is kept is drawn from in the order of the
        vocabulary."""
        room = self._numbers.room(5 * len(rows)).reshape(len(rows), 5)
        for numbers, row in zip(room, rows, strict=True):
            numbers[:4] = row.rule.numbers
            numbers[4] = 0.0 if row.rule.greedy else uniform(row.seed, row.position)
        vocab = logits.shape[1]
        wide, count = min(_WIDE, triton.next_power_of_2(vocab)), 1
        best = logits  # not looked at where no row is cut
        if ((room[:, 0] > 0) & ((room[:, 1] > 0) | (room[:, 2] < 1))).any():
            count = min(_BEST, 1 << (vocab.bit_length() - 1))
            best = logits.topk(count).values
        out = torch.empty(len(rows), 2, dtype=torch.float64, device=logits.device)
        sent = self._numbers.send(room.size)
        draw_rows[(len(rows),)](
            logits, best, sent, out, logits.stride(0), vocab,
            COLUMNS=wide, NARROW=min(512, wide), BEST=count, num_warps=32 if wide == _WIDE else 8,
        )  # fmt: skip
        return out.T

    def room(self, rows: int, words: int) -> Bitmask:
        """Return masks [rows, words] int32 to fill, once earlier copies are done. Each mask lies after its row's
        number, so that one copy sends both."""
        self._filled = self._staging.room(rows * (1 + words)).reshape(rows, 1 + words)
        self._filled[:] = 0
        return self._filled[:, 1:]

    def refuse(self, logits: Tensor, rows: list[int], bitmask: Bitmask) -> None:
        """Set refused logits [R, V] to -inf; `bitmask` is the beginning of the last `room`, or lies elsewhere and is
        copied."""
        count, words = bitmask.shape
        if not np.shares_memory(bitmask, self._filled):
            self.room(count, words)[:] = bitmask
        self._filled[:count, 0] = rows
        masks = self._staging.send(count * (1 + words))
        vocab = logits.shape[1]
        refuse_tokens[(count, triton.cdiv(vocab, _COLUMNS))](
            logits, masks, logits.stride(0), words, vocab, COLUMNS=_COLUMNS, num_warps=4
        )
