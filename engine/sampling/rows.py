"""The rows of a step's logits, as sampling sees them."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import Generic, Protocol, TypeVar

from sluicegate.engine.sampling.params import DrawRule


class OfSequence(Protocol):
    @property
    def sequence(self) -> object:
        """Return whose row it is; compared, never looked into."""


class LogitsRow(OfSequence, Protocol):
    """One row of logits, from which the next token of a sequence is drawn."""

    @property
    def rule(self) -> DrawRule: ...
    @property
    def seed(self) -> int: ...
    @property
    def position(self) -> int:
        """Place of the drawn token in the output."""

    @property
    def tokens(self) -> list[int]:
        """Return prompt and output before the drawn token."""

    @property
    def history(self) -> list[int]:
        """Return the same without what is `guessed`: a list that is only ever appended to."""

    @property
    def guessed(self) -> list[int]:
        """Return the tokens of a draft that come before the drawn one."""

    @property
    def prompt_length(self) -> int: ...
    @property
    def is_constrained(self) -> bool:
        """Return whether a grammar masks this row."""

    @property
    def is_explained(self) -> bool:
        """Return whether logprobs are reported for the row's timeline."""


Row = TypeVar("Row", bound=OfSequence)
Made = TypeVar("Made")


class PerSequences(Generic[Row, Made]):
    """Keep what was made for a step's rows while the following steps have rows of the same sequences."""

    def __init__(self, make: Callable[[Seq[Row]], Made]) -> None:
        """Keep what `make` returns, which must depend on the rows' sequences alone."""
        self._make = make
        self._rows: Seq[Row] | None = None
        self._sequences: list[object] | None = None
        self._made: Made | None = None

    def of(self, rows: Seq[Row]) -> Made:
        """Return what was made of the rows' sequences, made anew where they have changed. `rows` must not change after
        they were given once."""
        if self._made is not None and rows is self._rows:
            return self._made
        sequences = [row.sequence for row in rows]
        if self._made is None or sequences != self._sequences:
            self._sequences, self._made = sequences, self._make(rows)
        self._rows = rows
        return self._made

    def forget(self) -> None:
        self._rows = self._sequences = self._made = None
