"""Masks and draws on a CUDA device: masks are filled where the device copies from, sent by one copy, and applied by one
kernel; a step's draws come back by one copy (`engine.draws.TorchDraws.choose`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import triton
from torch import Tensor

from engine.cuda.mask_kernels import refuse_tokens
from engine.cuda.staging import Staging
from engine.draws import TorchDraws
from engine.masks import Bitmask

_COLUMNS = 1024


class CudaDraws(TorchDraws):
    """`TorchDraws` with masks of its own. Between a `room` and its `refuse` there may be no other `room`."""

    def __init__(self, device: torch.device) -> None:
        self._staging = Staging(torch.int32, device)
        self._filled: npt.NDArray[Any] = np.zeros((0, 1), np.int32)

    def room(self, rows: int, words: int) -> Bitmask:
        """Waits until the masks before were copied. A mask lies behind the number of its row: both go by one copy."""
        self._filled = self._staging.room(rows * (1 + words)).reshape(rows, 1 + words)
        self._filled[:] = 0
        return self._filled[:, 1:]

    def refuse(self, logits: Tensor, rows: list[int], bitmask: Bitmask) -> None:
        """`logits` [R, V] float32; `bitmask` is the beginning of the last `room`, or lies elsewhere and is copied."""
        count, words = bitmask.shape
        if not np.shares_memory(bitmask, self._filled):
            self.room(count, words)[:] = bitmask
        self._filled[:count, 0] = rows
        masks = self._staging.send(count * (1 + words))
        vocab = logits.shape[1]
        refuse_tokens[(count, triton.cdiv(vocab, _COLUMNS))](
            logits, masks, logits.stride(0), words, vocab, COLUMNS=_COLUMNS, num_warps=4
        )
