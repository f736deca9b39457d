"""Change token bitmasks of constrained rows, and apply them to logits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sluicegate.engine.cuda.staging import to_device
from sluicegate.plugins import Mask

Bitmask = npt.NDArray[np.int32]


def words_for(vocab_size: int) -> int:
    return -(-vocab_size // 32)


def forbid(row: Mask, token_ids: tuple[int, ...]) -> None:
    """Clear the bits of `token_ids` in `row` int32 [words], unless no other bit is set: then the row stays
    unchanged."""
    reduced = row.copy()
    words = reduced.view(np.uint32)
    for token in token_ids:
        words[token // 32] &= np.uint32(0xFFFFFFFF ^ (1 << (token % 32)))
    if reduced.any():
        row[:] = reduced


def permit(row: Mask, token_ids: tuple[int, ...]) -> None:
    """Set the bits of `token_ids` in `row` int32 [words]."""
    words = row.view(np.uint32)
    for token in token_ids:
        words[token // 32] |= np.uint32(1 << (token % 32))


def apply_bitmask(logits: Tensor, rows: list[int], bitmask: Bitmask) -> None:
    """Set refused logits to -inf, in place. `logits` [R, V] float32, `bitmask` [len(rows), ceil(V/32)] int32.

    for r, row in enumerate(rows):
        for t in range(V):
            if not bitmask[r, t // 32] >> (t % 32) & 1:
                logits[row, t] = -inf
    """
    bits = np.unpackbits(bitmask.view(np.uint8), axis=1, count=logits.shape[1], bitorder="little")
    refused = to_device(torch.from_numpy(bits), logits.device) == 0
    if len(rows) == logits.shape[0]:
        logits.masked_fill_(refused, float("-inf"))
    else:
        where = to_device(torch.tensor(rows), logits.device)
        logits[where] = logits[where].masked_fill_(refused, float("-inf"))
