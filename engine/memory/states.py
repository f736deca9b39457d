"""Hold the states of recurrent layers: of a fixed size for each running sequence, however long it is.

A sequence has a place in the batch, which is its row in every state tensor. Attention can write the same keys and
values twice; a state can only advance. So each place records how many tokens its states have read, and a step that does
not start there is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor


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
    """One tensor per state, with `places` rows. Memory is not resident until a place is used."""

    def __init__(self, shapes: Seq[StateShape], places: int, device: torch.device) -> None:
        self._tensors = {one.key: torch.zeros(places, *one.shape, dtype=one.dtype, device=device) for one in shapes}
        self._reached = [0] * places
        """For each place, how many tokens its states cover."""

    def __contains__(self, key: StateKey) -> bool:
        return key in self._tensors

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self._tensors.values())

    def check(self, place: int, start: int) -> None:
        """Raise `StatePositionError` unless the states of `place` have reached position `start`, or `start` is 0."""
        if start and self._reached[place] != start:
            raise StatePositionError(
                f"the states of place {place} stand for {self._reached[place]} tokens, and the step begins at {start}"
            )

    def read(self, key: StateKey, places: Tensor, fresh: Tensor) -> Tensor:
        """Return copies [n, ...] of the states at `places` [n] int64; zeros where `fresh` [n] bool marks a new
        sequence."""
        found = self._tensors[key].index_select(0, places)
        return found.masked_fill_(fresh.view(-1, *[1] * (found.dim() - 1)), 0)

    def write(self, key: StateKey, places: Tensor, states: Tensor) -> None:
        """Store `states` [n, ...] at `places` [n]."""
        self._tensors[key].index_copy_(0, places, states)

    def reach(self, place: int, end: int) -> None:
        """Record that the states of `place` have read its first `end` tokens."""
        self._reached[place] = end

    def copy(self, source: int, target: int) -> None:
        """Copy the states of place `source` to place `target`."""
        for tensor in self._tensors.values():
            tensor[target].copy_(tensor[source])
        self._reached[target] = self._reached[source]

    def give_up(self) -> None:
        """Free the memory; the pool is unusable afterwards."""
        self._tensors.clear()
