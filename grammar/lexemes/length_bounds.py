"""Which states of a pattern can still reach its end within bounds on the length."""

from __future__ import annotations

import json
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.automata import CharDfa
from sluicegate.grammar.automata.lengths import LengthSets
from sluicegate.grammar.lexemes.base import DfaLexeme

LONGEST = 256
"""More characters than a token of the usual vocabularies has; larger counts are handled too, more slowly."""


class CountedState(NamedTuple):
    inner: int
    """State of the pattern's automaton."""
    char: int
    """State of the automaton of all strings: between characters, or inside one."""
    size: int
    """Whole characters so far; -1 once closed."""


class LengthBounds:
    """Bounds of the pattern `dfa`, whose strings `inner` reads with the quote; `every`: the lexeme of all strings."""

    def __init__(self, dfa: CharDfa, inner: DfaLexeme, every: DfaLexeme, low: int, high: int | None) -> None:
        self.lengths = _lengths(dfa)
        self.inner, self.every, self.low, self.high = inner, every, low, high
        self.number = _numbers(dfa, inner)
        self._ends: dict[tuple[int, int], tuple[int, ...]] = {}
        self._free: dict[int, int] = {}

    def _fitting(self, size: int) -> int:
        """Return the states of the pattern, as a bit set, that are alive after `size` characters."""
        if self.high is not None and size > self.high:
            return 0
        return self.lengths.within(max(self.low - size, 0), None if self.high is None else self.high - size)

    def alive(self, inner: int, char: int, size: int) -> bool:
        """Return whether some way to complete the text is alive after `size` whole characters, also inside another one
        that has begun."""
        if char == self.every.start:
            return bool(self._fitting(size) >> self.number[inner] & 1)
        fitting = self._fitting(size + 1)
        return any(fitting >> end & 1 for end in self.ends(inner, char))

    def ends(self, inner: int, char: int) -> tuple[int, ...]:
        """Return the states of the pattern after the character that is begun."""
        known = self._ends.get((inner, char))
        if known is None:
            found: set[int] = set()
            after = self.every.row(char)
            for byte, target in enumerate(self.inner.row(inner)):
                if target < 0:
                    continue
                if after[byte] == self.every.start:
                    found.add(self.number[target])
                else:
                    found.update(self.ends(target, after[byte]))
            known = self._ends[inner, char] = tuple(found)
        return known

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
        """Return bool[states of `inner`, `LONGEST` + 1]: whether some text is alive there when n more than `size`
        characters were read."""
        columns = LONGEST + 1
        alive = np.zeros((self.inner.table.shape[0], columns), np.bool_)
        sets = np.array([_members(self._fitting(size + n), len(self.number)) for n in range(columns + 1)])
        for inner, char in self._reached:
            numbers = [self.number[inner]] if char == self.every.start else list(self.ends(inner, char))
            offset = 0 if char == self.every.start else 1
            alive[inner] = sets[offset : offset + columns, numbers].any(axis=1)
        return alive

    @cached_property
    def _reached(self) -> list[tuple[int, int]]:
        """Return the states of `inner`, each with the state of `every` that it goes with."""
        pending = [(self.inner.start, self.every.start)]
        seen = set(pending)
        while pending:
            inner, char = pending.pop()
            after = self.every.row(char)
            for byte, target in enumerate(self.inner.row(inner)):
                if target < 0 or target == self.inner.final:
                    continue
                pair = (target, after[byte])
                if pair not in seen:
                    seen.add(pair)
                    pending.append(pair)
        return list(seen)


@lru_cache(maxsize=500)
def _lengths(dfa: CharDfa) -> LengthSets:
    return LengthSets(dfa)


def _numbers(dfa: CharDfa, inner: DfaLexeme) -> dict[int, int]:
    """Return the states of `dfa` by the states of `inner` that stand between characters."""
    table = dfa.table
    spelled = {c: _spelled(chr(start)) for start, c in zip(table.starts, table.classes, strict=True) if c >= 0}
    numbers = {inner.start: 0}
    pending = [(0, inner.start)]
    while pending:
        number, state = pending.pop()
        for letters, target in table.rows[number].items():
            after = state
            for byte in spelled[letters]:
                after = inner.row(after)[byte]
            if after not in numbers:
                numbers[after] = target
                pending.append((target, after))
    return numbers


def _spelled(char: str) -> bytes:
    return json.dumps(char, ensure_ascii=False)[1:-1].encode()


def _members(states: int, count: int) -> npt.NDArray[np.bool_]:
    packed = np.frombuffer(states.to_bytes((count + 7) // 8, "little"), np.uint8)
    return np.unpackbits(packed, bitorder="little")[:count].astype(np.bool_)
