"""Define a row of logits as sampling sees it."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import Generic, Protocol, TypeVar

from sluicegate.engine.sampling.params import DrawRule


class HasSequence(Protocol):
    @property
    def sequence(self) -> object:
        """Return the row's sequence; only compared for identity."""


class LogitsRow(HasSequence, Protocol):
    """One row of logits, from which the next token of a sequence is drawn."""

    @property
    def rule(self) -> DrawRule: ...
    @property
    def seed(self) -> int: ...
    @property
    def position(self) -> int:
        """Return the index of the drawn token in the output."""

    @property
    def tokens(self) -> list[int]:
        """Return all tokens before the drawn one: prompt, output and draft."""

    @property
    def history(self) -> list[int]:
        """Return `tokens` without the draft: a list that only grows."""

    @property
    def guessed(self) -> list[int]:
        """Return the draft tokens before the drawn one."""

    @property
    def prompt_length(self) -> int: ...
    @property
    def is_constrained(self) -> bool:
        """Return whether a grammar masks this row."""

    @property
    def is_explained(self) -> bool:
        """Return whether logprobs are recorded for the row's timeline."""


Row = TypeVar("Row", bound=HasSequence)
Made = TypeVar("Made")


class SequencesCache(Generic[Row, Made]):
    """Caches a value computed from a step's rows for as long as later steps have rows of the same sequences."""

    def __init__(self, make: Callable[[Seq[Row]], Made]) -> None:
        """Cache the results of `make`, which must depend on the rows' sequences alone."""
        self._make = make
        self._rows: Seq[Row] | None = None
        self._sequences: list[object] | None = None
        self._made: Made | None = None

    def of(self, rows: Seq[Row]) -> Made:
        """Return the value for `rows`, recomputed if their sequences have changed. `rows` must not be modified
        afterwards."""
        if self._made is not None and rows is self._rows:
            return self._made
        sequences = [row.sequence for row in rows]
        if self._made is None or sequences != self._sequences:
            self._sequences, self._made = sequences, self._make(rows)
        self._rows = rows
        return self._made

    def forget(self) -> None:
        self._rows = self._sequences = self._made = None
