"""Hold what recurrent layers keep: one state of a fixed size for each sequence that runs, however long it is.

A sequence has a place among those that run, and its states lie there in every layer's tensor. Attention's blocks can be
written twice with the same numbers; a state can only go forward. So each place knows how many tokens its states stand
for, and a step that does not go on from there is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor


class StateKey(NamedTuple):
    """Which state of which layer; `conv`: the last inputs of a short convolution."""

    layer: int
    kind: Literal["conv", "recurrent"]
    number: int = 0


@dataclass(frozen=True, slots=True)
class StateShape:
    """What one layer keeps of a sequence."""

    key: StateKey
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def nbytes(self) -> int:
        return torch.Size(self.shape).numel() * self.dtype.itemsize


def state_bytes(shapes: Iterable[StateShape]) -> int:
    """Return the bytes of a sequence's states."""
    return sum(shape.nbytes for shape in shapes)


class StatesElsewhere(Exception):
    """A step does not begin where a sequence's states are."""


class StatePool:
    """`places` rows of every state. Memory is untouched, so not resident, until a place is used."""

    def __init__(self, shapes: Seq[StateShape], places: int, device: torch.device) -> None:
        self._tensors = {one.key: torch.zeros(places, *one.shape, dtype=one.dtype, device=device) for one in shapes}
        self._reached = [0] * places
        """How many tokens the states of a place stand for."""

    def __contains__(self, key: StateKey) -> bool:
        return key in self._tensors

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self._tensors.values())

    def check(self, place: int, start: int) -> None:
        """Raise `StatesElsewhere` where the states of `place` are not those before position `start`."""
        if start and self._reached[place] != start:
            raise StatesElsewhere(
                f"the states of place {place} stand for {self._reached[place]} tokens, and the step begins at {start}"
            )

    def read(self, key: StateKey, places: Tensor, fresh: Tensor) -> Tensor:
        """Return copies [n, ...] of the states at `places` [n]; zeros where `fresh` [n] bool: a sequence begins."""
        found = self._tensors[key].index_select(0, places)
        return found.masked_fill_(fresh.view(-1, *[1] * (found.dim() - 1)), 0)

    def write(self, key: StateKey, places: Tensor, states: Tensor) -> None:
        """Store `states` [n, ...] at `places` [n]."""
        self._tensors[key].index_copy_(0, places, states)

    def reach(self, place: int, end: int) -> None:
        """Note that the states of `place` now stand for its first `end` tokens."""
        self._reached[place] = end

    def copy(self, source: int, target: int) -> None:
        """Let the states of place `target` be those of `source`."""
        for tensor in self._tensors.values():
            tensor[target].copy_(tensor[source])
        self._reached[target] = self._reached[source]

    def give_up(self) -> None:
        """Free the memory; the pool cannot be used any more."""
        self._tensors.clear()
