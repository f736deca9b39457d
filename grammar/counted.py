"""Strings of bounded length: a counter beside the automaton, never a state per character."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from grammar import kernels
from grammar.classify import RootClass, at_root, keep
from grammar.lexemes import QUOTE, DfaLexeme
from grammar.seams import Ending
from grammar.trie import I32
from grammar.vocabulary import Vocabulary

_LONGEST = 256
"""No token of the vocabularies we know has more characters; counts beyond are told apart all the same, only slower."""


class Count(NamedTuple):
    inner: int
    """State of the pattern's automaton."""
    char: int
    """State of the automaton of all strings: between characters, or inside one."""
    size: int
    """Whole characters so far; -1 once closed."""


class Counted:
    """`inner` (a quoted lexeme) cut down to `low` to `high` characters. `every`: the lexeme of all strings."""

    is_string = True
    is_blank = False
    general = False

    def __init__(self, inner: DfaLexeme, every: DfaLexeme, low: int, high: int | None) -> None:
        self.inner = inner
        self.every = every
        self.low = low
        self.high = high
        self.branches: dict[Any, Any] | None = {}
        self.start = Count(inner.start, every.start, 0)

    @property
    def heads(self) -> frozenset[int]:
        return frozenset(self.next_bytes(self.start))

    def next(self, state: Count, byte: int) -> Count | None:
        every = self.every
        char = every.next(state.char, byte)
        if char is None:
            return None
        inner = char if self.inner is every else self.inner.next(state.inner, byte)
        if inner is None:
            return None
        between = state.char == every.start
        if between and byte == QUOTE:
            fits = self.low <= state.size and (self.high is None or state.size <= self.high)
            return Count(inner, char, -1) if fits else None
        if between and self.high is not None and state.size >= self.high:
            return None
        return Count(inner, char, state.size + (char == every.start))

    def outcome(self, state: Count) -> int | None:
        return 0 if state.size < 0 else None

    def grows(self, state: Count) -> bool:
        return state.size >= 0

    def run(self, state: Count, text: bytes) -> Count | None:
        at: Count | None = state
        for byte in text:
            assert at is not None
            at = self.next(at, byte)
            if at is None or at.size < 0:
                return None
        return at

    def next_bytes(self, state: Count) -> set[int]:
        return {byte for byte in range(256) if self.next(state, byte) is not None}

    def room(self, state: Count) -> tuple[int, int]:
        """Characters still wanted, and still allowed; both cut off where no token can tell."""
        wanted = min(max(self.low - state.size, 0), _LONGEST)
        room = _LONGEST if self.high is None else min(self.high - state.size, _LONGEST)
        return wanted, room

    def key(self, state: Count) -> Hashable:
        if state.size < 0:
            return b"closed"
        return (self.inner.key(state.inner), self.every.key(state.char), *self.room(state))

    def classify(self, vocabulary: Vocabulary, state: Count) -> RootClass:
        wanted, room = self.room(state)
        if not wanted and room == _LONGEST:
            return at_root(vocabulary, self.inner, state.inner)
        key = self.key(state)
        known = vocabulary.classes.get(key)
        if known is None:
            return keep(vocabulary, key, self._classify(vocabulary, state, wanted, room))
        return known  # type: ignore[no-any-return]

    def _classify(self, vocabulary: Vocabulary, state: Count, wanted: int, room: int) -> RootClass:
        base = at_root(vocabulary, self.inner, state.inner)
        chars = _characters(vocabulary, self.every, state.char)
        endings = []
        for ending in base.endings:
            closers = _between(ending.closers, chars, wanted, room)
            fits = _fits(chars[ending.tokens], wanted, room)
            endings.append(Ending(ending.outcome, closers, ending.numbers[fits], ending.tokens[fits]))
        ids = _between(base.ids, chars, 0, room)
        row = base.row
        if row is not None and room < _LONGEST:
            row = row & _short_enough(vocabulary, self.every, state.char, room)
        return RootClass(row, ids, tuple(endings))


def _fits(sizes: I32, wanted: int, room: int) -> np.ndarray:
    return (sizes >= wanted) & (sizes <= room)


def _between(ids: I32, chars: I32, wanted: int, room: int) -> I32:
    return ids[_fits(chars[ids], wanted, room)] if ids.size else ids


def _characters(vocabulary: Vocabulary, every: DfaLexeme, char: int) -> I32:
    """int32[V]: characters by which each token lengthens a string whose automaton is in state `char`."""
    key = ("characters", every.key(char))
    known: I32 | None = vocabulary.classes.get(key)
    if known is None:
        known = np.full(vocabulary.row_words * 32, -1, np.int32)
        trie = vocabulary.trie
        kernels.walk_lengths(
            trie.byte, trie.depth, trie.skip, trie.first, trie.exact, trie.ids,
            every.table, char, every.start, every.final, known,
        )  # fmt: skip
        vocabulary.classes.put(key, known, known.nbytes)
    return known


def _short_enough(vocabulary: Vocabulary, every: DfaLexeme, char: int, room: int) -> I32:
    """Bitmask of the tokens that lengthen the string by at most `room` characters."""
    key = ("short", every.key(char), room)
    known: I32 | None = vocabulary.classes.get(key)
    if known is None:
        chars = _characters(vocabulary, every, char)
        bits = np.packbits((chars >= 0) & (chars <= room), bitorder="little")
        known = bits.view(np.int32)
        vocabulary.classes.put(key, known, known.nbytes)
    return known
