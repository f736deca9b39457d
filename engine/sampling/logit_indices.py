"""Index single logits of a step's rows on their device, to bias or refuse them in all rows at once."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import NamedTuple

import torch
from torch import Tensor

from sluicegate.engine.cuda.staging import to_device
from sluicegate.engine.sampling.rows import LogitsRow

_FORBIDDEN = float("-inf")
Pair = tuple[int, int]
"""(row of the logits, column)."""


class LogitIndices(NamedTuple):
    """Distinct (row, column) indices, int64 [K] each, on the device of the logits."""

    rows: Tensor
    columns: Tensor

    @classmethod
    def of(cls, pairs: Seq[Pair], device: torch.device) -> LogitIndices | None:
        """Copy indices to the device without waiting; None if there are none."""
        if not pairs:
            return None
        sent = to_device(torch.tensor(list(dict.fromkeys(pairs)), dtype=torch.int64).T.contiguous(), device)
        return cls(sent[0], sent[1])

    def refuse(self, logits: Tensor) -> None:
        """Set the indexed logits to -inf in `logits` [R, V]."""
        logits[self.rows, self.columns] = _FORBIDDEN


class BiasIndices(NamedTuple):
    """The logit biases of a step's rows."""

    indices: LogitIndices
    values: Tensor
    """float32 [K]."""

    @classmethod
    def of(cls, rows: Seq[LogitsRow], device: torch.device) -> BiasIndices | None:
        """Collect the biases of all rows; None if no row has one."""
        found = [(at, row.rule.bias) for at, row in enumerate(rows) if row.rule.bias is not None]
        indices = LogitIndices.of([(at, column) for at, bias in found for column in bias.columns.tolist()], device)
        if indices is None:
            return None
        return cls(indices, to_device(torch.cat([bias.values for _, bias in found]), device))

    def add(self, logits: Tensor) -> None:
        """Add the biases to `logits` [R, V] float32, in place."""
        logits[self.indices.rows, self.indices.columns] += self.values


class ForbiddenEnds:
    """End tokens of rows that may not end yet; copied to the device only when they change."""

    def __init__(self, eos: Seq[int], device: torch.device) -> None:
        self._eos = list(eos)
        self._device = device
        self._pairs: list[Pair] = []
        self._indices: LogitIndices | None = None

    def refuse(self, logits: Tensor, unending: Seq[int], barred: dict[int, list[int]]) -> None:
        """Set end tokens to -inf in `logits` [R, V]: the model's own in the rows `unending`, and those that `barred`
        lists by row."""
        if not unending and not barred:
            return
        pairs = [(row, token) for row in unending for token in self._eos]
        pairs += [(row, token) for row, tokens in barred.items() for token in tokens]
        if pairs != self._pairs:
            self._pairs, self._indices = pairs, LogitIndices.of(pairs, self._device)
        if self._indices is not None:
            self._indices.refuse(logits)
