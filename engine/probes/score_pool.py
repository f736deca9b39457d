"""Store the probes' scores of tokens beside their keys and values, so that nothing is copied in a step.

The pass that computes a token writes its scores at the token's slot. They are valid as long as its keys and values are,
and read when text is delivered, some tokens at a time.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

import torch
from torch import Tensor

Scores = dict[str, float]
"""Log-odds of one token, by label."""


class ScorePool:
    """`tensor` [num_blocks * block_size, P] float32: log-odds of P probes by slot; NaN where no token was computed.

    Used by the engine thread alone.
    """

    def __init__(self, num_blocks: int, block_size: int, labels: Seq[str], device: torch.device) -> None:
        self.labels = tuple(labels)
        self._size = block_size
        self.tensor = torch.full((num_blocks * block_size, len(self.labels)), torch.nan, device=device)
        blocks = self.tensor.view(num_blocks, block_size, len(self.labels))
        self._blocks = blocks[..., 0] if len(self.labels) == 1 else blocks
        self._array = self._blocks.numpy() if device.type == "cpu" else None

    def write(self, slots: Tensor, scores: Tensor) -> None:
        """Store `scores` [T, P] of the tokens at `slots` [T] int64."""
        self.tensor.index_copy_(0, slots, scores)

    def read(self, blocks: Seq[int], start: int, end: int) -> list[Scores]:
        """Return the scores of tokens [start, end) of a sequence whose tokens are in `blocks`. Waits for the device."""
        if end - start == 1 and self._array is not None and len(self.labels) == 1:  # a piece of one token
            return [{self.labels[0]: self._array.item(blocks[start // self._size], start % self._size)}]
        if end <= start:
            return []
        first = start // self._size
        needed = blocks[first : (end - 1) // self._size + 1]
        rows: list[Any] = self._rows(needed)[start - first * self._size : end - first * self._size]
        if len(self.labels) == 1:
            label = self.labels[0]
            return [{label: value} for value in rows]
        return [dict(zip(self.labels, values, strict=True)) for values in rows]

    def _rows(self, blocks: Seq[int]) -> list[Any]:
        """Return the numbers of all slots of `blocks`, in lists where there are several probes."""
        if self._array is not None:
            return [row for block in blocks for row in self._array[block].tolist()]
        found: list[Any] = self._blocks[torch.tensor(blocks, device=self.tensor.device)].flatten(0, 1).tolist()
        return found
