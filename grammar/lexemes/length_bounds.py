"""Which states of a pattern can still reach its end within bounds on the length."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.automata import CharDfa
from sluicegate.grammar.automata.byte_level.character_ends import character_ends
from sluicegate.grammar.automata.lengths import lengths_of
from sluicegate.grammar.lexemes.base import DfaLexeme

LONGEST = 256
"""More characters than a token of common vocabularies has; larger counts work too, more slowly."""


class CountedState(NamedTuple):
    inner: int
    """State of the pattern's automaton."""
    char: int
    """State of the automaton of all strings: between characters, or inside one."""
    size: int
    """Number of whole characters so far; -1 once closed."""


class LengthBounds:
    """Bounds of the pattern `dfa`, whose strings `inner` reads with the quote: its state k between characters is state
    k of `dfa`."""

    def __init__(self, dfa: CharDfa, inner: DfaLexeme, low: int, high: int | None) -> None:
        self.dfa = dfa
        self.lengths = lengths_of(dfa)
        self.inner, self.low, self.high = inner, low, high
        self._free: dict[int, int] = {}
        self._known: dict[int, int] = {}
        self._characters_end: npt.NDArray[np.uint64] | None = None

    def _fitting(self, size: int) -> int:
        """Return the states of the pattern, as a bit set, that are alive after `size` characters."""
        if self.high is not None and size > self.high:
            return 0
        return self.lengths.within(max(self.low - size, 0), None if self.high is None else self.high - size)

    def alive(self, inner: int, size: int) -> bool:
        """Return whether some text fits from `inner` on, where `size` whole characters were read; inside of one, some
        way to complete it must be alive."""
        if inner < self.dfa.state_count:
            return bool(self._fitting(size) >> inner & 1)
        return bool(self._fitting(size + 1) & self.ends(inner))

    def ends(self, inner: int) -> int:
        """Return the states of the pattern, as a bit set, after the character that is begun."""
        known = self._known.get(inner)
        if known is None:
            known = self._known[inner] = int.from_bytes(self._ends[inner].astype("<u8").tobytes(), "little")
        return known

    @property
    def _ends(self) -> npt.NDArray[np.uint64]:
        if self._characters_end is None:
            self._characters_end = character_ends(self.inner.table, self.dfa.state_count)
        return self._characters_end

    def free(self, size: int) -> int:
        """Return how many more characters keep every state alive, whichever they are; -1 if not even none."""
        known = self._free.get(size)
        if known is None:
            known = -1
            while known < LONGEST and self._fitting(size + known + 1) == self.lengths.every:
                known += 1
            self._free[size] = known
        return known

    def alive_after(self, size: int) -> npt.NDArray[np.bool_]:
        """Return bool[states of `inner`, `LONGEST` + 1]: some text is alive there when n more than `size` characters
        were read."""
        ends, chars = self._ends, self.dfa.state_count
        numbers: dict[int, int] = {}
        which = np.array([numbers.setdefault(self._fitting(size + n), len(numbers)) for n in range(LONGEST + 2)])
        words = [np.frombuffer(each.to_bytes(8 * ends.shape[1], "little"), "<u8") for each in numbers]
        some = np.stack([(ends & each).any(axis=1) for each in words])
        alive = np.empty((ends.shape[0], LONGEST + 1), np.bool_)
        alive[:chars] = some[which[:-1], :chars].T
        alive[chars:] = some[which[1:], chars:].T
        return alive
