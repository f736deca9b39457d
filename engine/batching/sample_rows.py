"""The draws of a step: which rows of logits there will be, and whether any of them needs more than a token's text."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import NamedTuple

from sluicegate.engine.batching.scheduler import Row
from sluicegate.engine.sequences.sequence import DrawRow, Kept


class Lineup(NamedTuple):
    draws: list[DrawRow]
    """One for each row of logits."""
    is_plain: bool
    """Each draws one token, whose text goes straight to whoever reads it; see `Sequence.is_plain`."""
    is_constrained: bool
    """Some have a grammar."""


class Lineups:
    """Of step after step. Without guesses they depend on the sequences alone, and those are mostly the last step's."""

    def __init__(self) -> None:
        self._same: Kept[Row, Lineup] = Kept(_line_up)

    def of(self, rows: Seq[Row]) -> Lineup:
        return _line_up(rows) if any(row.drafted for row in rows) else self._same.of(rows)

    def release(self) -> None:
        """Nothing runs any more: hold on to no sequence."""
        self._same.forget()


def _line_up(rows: Seq[Row]) -> Lineup:
    draws = [DrawRow(row.sequence, ahead) for row in rows for ahead in range(row.drafted + 1)]
    is_plain = len(draws) == len(rows) and all(row.sequence.is_plain for row in rows)
    return Lineup(draws, is_plain, any(row.sequence.matcher is not None for row in rows))
