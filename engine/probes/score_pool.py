"""Store the probes' scores of tokens beside their keys and values, so that nothing is copied in a step.

The pass that computes a token writes its scores at the token's slot. They are valid as long as its keys and values are,
and read when text is delivered, many tokens at a time, in a column for each probe.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

import torch
from torch import Tensor

Columns = list[list[float]]
"""For each probe, the log-odds of some tokens."""


class ScorePool:
    """`tensor` [num_blocks * block_size, P] float32: log-odds of P probes by slot; NaN where no token was computed.

    Used by the engine thread alone.
    """

    def __init__(self, num_blocks: int, block_size: int, labels: Seq[str], device: torch.device) -> None:
        self.labels = tuple(labels)
        self._size = block_size
        self.tensor = torch.full((num_blocks * block_size, len(self.labels)), torch.nan, device=device)
        self._blocks = self.tensor.view(num_blocks, block_size, len(self.labels))
        on_host = device.type == "cpu"
        self._arrays = [self._blocks[..., at].numpy() for at in range(len(self.labels))] if on_host else None

    def write(self, slots: Tensor, scores: Tensor) -> None:
        """Store `scores` [T, P] of the tokens at `slots` [T] int64."""
        self.tensor.index_copy_(0, slots, scores)

    def read(self, blocks: Seq[int], start: int, end: int) -> Columns:
        """Return the scores of tokens [start, end) of a sequence whose tokens are in `blocks`. Waits for the device."""
        if end <= start:
            return [[] for _ in self.labels]
        first = start // self._size
        if self._arrays is not None and end - start == 1:  # a piece of one token
            return [[array.item(blocks[first], start % self._size)] for array in self._arrays]
        needed, begin = blocks[first : (end - 1) // self._size + 1], first * self._size
        if self._arrays is not None:
            return [array[needed].ravel()[start - begin : end - begin].tolist() for array in self._arrays]
        found = self._blocks[torch.tensor(needed, device=self.tensor.device)].flatten(0, 1)  # [tokens, P]
        columns: Columns = found[start - begin : end - begin].T.tolist()
        return columns
