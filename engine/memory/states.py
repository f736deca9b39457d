"""Hold the states of recurrent layers: of a fixed size for each running sequence, however long it is.

A running sequence has a slot, which is its row in every state tensor. Attention can write the same keys and
values twice; a state can only advance. So each slot records how many tokens its states have read, and a step that does
not start there is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from sluicegate.engine.memory.fresh import fresh_zeros


class StateKey(NamedTuple):
    """Identifies one state of one layer. `conv`: the last inputs of a short convolution."""

    layer: int
    kind: Literal["conv", "recurrent"]
    number: int = 0


@dataclass(frozen=True, slots=True)
class StateShape:
    """Shape and dtype of one state of one sequence."""

    key: StateKey
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def nbytes(self) -> int:
        return torch.Size(self.shape).numel() * self.dtype.itemsize


def state_bytes(shapes: Iterable[StateShape]) -> int:
    """Return the bytes of one sequence's states."""
    return sum(shape.nbytes for shape in shapes)


class StatePositionError(Exception):
    """Raised when a step does not start at the position its sequence's states have reached."""


class StatePool:
    """One tensor per state, with `slots` rows. Memory is not resident until a slot is used."""

    def __init__(self, shapes: Seq[StateShape], slots: int, device: torch.device) -> None:
        self._tensors = {one.key: fresh_zeros((slots, *one.shape), one.dtype, device) for one in shapes}
        self._reached = [0] * slots
        """For each slot, how many tokens its states cover."""

    def __contains__(self, key: StateKey) -> bool:
        return key in self._tensors

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self._tensors.values())

    def check(self, slot: int, start: int) -> None:
        """Raise `StatePositionError` unless the states of `slot` have reached position `start`, or `start` is 0."""
        if start and self._reached[slot] != start:
            raise StatePositionError(
                f"the states of slot {slot} cover {self._reached[slot]} tokens, and the step begins at {start}"
            )

    def read(self, key: StateKey, slots: Tensor, fresh: Tensor) -> Tensor:
        """Return copies [n, ...] of the states at `slots` [n] int64; zeros where `fresh` [n] bool marks a new
        sequence."""
        found = self._tensors[key].index_select(0, slots)
        return found.masked_fill_(fresh.view(-1, *[1] * (found.dim() - 1)), 0)

    def write(self, key: StateKey, slots: Tensor, states: Tensor) -> None:
        """Store `states` [n, ...] at `slots` [n]."""
        self._tensors[key].index_copy_(0, slots, states)

    def reach(self, slot: int, end: int) -> None:
        """Record that the states of `slot` have read its first `end` tokens."""
        self._reached[slot] = end

    def copy(self, source: int, target: int) -> None:
        """Copy the states of slot `source` to slot `target`."""
        for tensor in self._tensors.values():
            tensor[target].copy_(tensor[source])
        self._reached[target] = self._reached[source]

    def give_up(self) -> None:
        """Free the memory; the pool is unusable afterwards."""
        self._tensors.clear()
