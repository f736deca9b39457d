"""Cut a text into the units to judge: sentences or lines of limited length.

Where a unit ends depends on the text alone, never on how it came in pieces: at the first end of a sentence or line
after `least` characters, else at the last white space before `most` characters, else at `most`. White space between two
units belongs to the second, as tokenizers have it.

Not covered: abbreviations (`Dr. Ito` may be cut). That costs one judgement and hides nothing, since judges read the
text before a unit as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sluicegate.plugins.contract.sentence_ends import SENTENCE_END, WIDEST_END


@dataclass(frozen=True, slots=True)
class Unit:
    """Characters [start, end) of a text."""

    start: int
    end: int
    text: str


class UnitCutter:
    """Cuts one text. Mutable; stores only the text that is not cut yet."""

    def __init__(self, least: int, most: int) -> None:
        """Cut units of `least` to `most` characters, `least` < `most`; the last one of a text may be shorter."""
        self._least = least
        self._most = most
        self._rest = ""
        self._start = 0
        self._looked = 0  # characters of the rest in which no end was found

    def feed(self, text: str) -> Iterator[Unit]:
        """Yield the units that became complete."""
        self._rest += text
        while (size := self._whole()) > 0:
            yield self._cut(size)

    def hold(self, text: str) -> bool:
        """Take `text` if it surely completes no unit; else take nothing and return False: `feed` it then."""
        rest = self._rest + text
        if len(rest) > self._least:
            if len(rest) > self._most or SENTENCE_END.search(rest, max(0, max(self._least, self._looked) - WIDEST_END)):
                return False
            self._looked = len(rest) - WIDEST_END
        self._rest = rest
        return True

    def close(self) -> Iterator[Unit]:
        """Yield the rest as the last unit."""
        if self._rest:
            yield self._cut(len(self._rest))

    def _cut(self, size: int) -> Unit:
        unit = Unit(self._start, self._start + size, self._rest[:size])
        self._rest, self._start, self._looked = self._rest[size:], unit.end, 0
        return unit

    def _whole(self) -> int:
        """Return the length of the first unit; 0 if it is not complete yet."""
        if len(self._rest) <= self._least:
            return 0
        for match in SENTENCE_END.finditer(self._rest, max(0, max(self._least, self._looked) - WIDEST_END)):
            if self._least <= match.end() < min(self._most, len(self._rest)):
                return match.end()
        if len(self._rest) > self._most:
            return self._at_most()
        self._looked = len(self._rest) - WIDEST_END
        return 0

    def _at_most(self) -> int:
        """Cut before the last white space of the allowed length, or in the middle of a word."""
        for at in range(self._most, self._least - 1, -1):
            if self._rest[at].isspace():
                return at
        return self._most
