"""Strings of bounded length: a counter beside the automaton, never a state per character."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from sluicegate.grammar.automata import CharDfa
from sluicegate.grammar.classification.classify import RootClass, at_root, keep
from sluicegate.grammar.lexemes.base import QUOTE, DfaLexeme
from sluicegate.grammar.lexemes.length_bounds import LONGEST, CountedState, LengthBounds
from sluicegate.grammar.reading.mask_builder import join
from sluicegate.grammar.vocabulary import kernels
from sluicegate.grammar.vocabulary.boundary import Ending
from sluicegate.grammar.vocabulary.trie import I32
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_NONE = np.empty(0, np.int32)
_ONE_BY_ONE = 200


class Counted:
    """`inner` (a quoted lexeme) cut down to `low` to `high` characters. `every`: the lexeme of all strings.

    `dfa`: the characters of `inner`, where that is not all strings. No state is entered from which no text of a
    fitting length leads to the end.
    """

    is_string = True
    is_blank = False
    is_list = False
    general = False

    def __init__(
        self, inner: DfaLexeme, every: DfaLexeme, low: int, high: int | None, dfa: CharDfa | None = None
    ) -> None:
        self.inner = inner
        self.every = every
        self.low = low
        self.high = high
        self.bounds = None if dfa is None else LengthBounds(dfa, inner, every, low, high)
        self.branches: dict[Any, Any] | None = {}
        self.start = CountedState(inner.start, every.start, 0)

    @property
    def heads(self) -> frozenset[int]:
        return frozenset(self.next_bytes(self.start))

    def next(self, state: CountedState, byte: int) -> CountedState | None:
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
            return CountedState(inner, char, -1) if fits else None
        if between and self.high is not None and state.size >= self.high:
            return None
        size = state.size + (char == every.start)
        if self.bounds is not None and not self.bounds.alive(inner, char, size):
            return None
        return CountedState(inner, char, size)

    def outcome(self, state: CountedState) -> int | None:
        return 0 if state.size < 0 else None

    def grows(self, state: CountedState) -> bool:
        return state.size >= 0

    def run(self, state: CountedState, text: bytes) -> CountedState | None:
        at: CountedState | None = state
        for byte in text:
            assert at is not None
            at = self.next(at, byte)
            if at is None or at.size < 0:
                return None
        return at

    def next_bytes(self, state: CountedState) -> set[int]:
        return {byte for byte in range(256) if self.next(state, byte) is not None}

    def room(self, state: CountedState) -> tuple[int, int]:
        """Characters still wanted, and still allowed; both cut off where no token can tell."""
        wanted = min(max(self.low - state.size, 0), LONGEST)
        room = LONGEST if self.high is None else min(self.high - state.size, LONGEST)
        return wanted, room

    def key(self, state: CountedState) -> Hashable:
        if state.size < 0:
            return b"closed"
        key = (self.inner.key(state.inner), self.every.key(state.char), *self.room(state))
        if self.bounds is None or self.bounds.free(state.size) >= LONGEST:
            return key
        return (*key, self.low - state.size, None if self.high is None else self.high - state.size)

    def uncounted(self, chars: int) -> tuple[DfaLexeme, bool] | None:
        """What reads the same from the beginning on for as long as no more than `chars` characters have begun, and
        whether the string may end by then; None where the count can be felt."""
        free = LONGEST if self.bounds is None else self.bounds.free(0)
        if free < chars or (self.high is not None and self.high < chars) or 0 < self.low <= chars:
            return None
        return self.inner, not self.low

    def classify(self, vocabulary: Vocabulary, state: CountedState) -> RootClass:
        wanted, room = self.room(state)
        free = LONGEST if self.bounds is None else self.bounds.free(state.size)
        if not wanted and room == free == LONGEST:
            return at_root(vocabulary, self.inner, state.inner)
        key = self.key(state)
        known = vocabulary.classes.get(key)
        if known is not None:
            return known  # type: ignore[no-any-return]
        found = self._classify(vocabulary, state, wanted, min(room, free))
        if free < room:
            found = self._with_longer(vocabulary, state, found, free, (wanted, room))
        return keep(vocabulary, key, found)

    def _with_longer(
        self, vocabulary: Vocabulary, state: CountedState, found: RootClass, free: int, fitting: tuple[int, int]
    ) -> RootClass:
        """Add the tokens of more than `free` characters, one by one if they are few, else by a walk of their own."""
        endings = self._classify(vocabulary, state, *fitting).endings
        longer = self._longer(vocabulary, state, free, fitting[1])
        if longer.size > _ONE_BY_ONE:
            assert self.bounds is not None
            ids = self.bounds.walk(vocabulary, state)
            if found.row is None:
                return RootClass(None, ids, endings)
            return RootClass(_row(vocabulary, ids), _NONE, endings)
        ids = np.array([t for t in longer.tolist() if self.run(state, vocabulary.words[t]) is not None], np.int32)
        if found.row is None:
            return RootClass(None, join([found.ids, ids]), endings)
        row = found.row.copy()
        kernels.set_bits(row, ids)
        return RootClass(row, found.ids, endings)

    def _longer(self, vocabulary: Vocabulary, state: CountedState, free: int, room: int) -> I32:
        """Tokens of more than `free` characters, and no more than `room`, that the pattern takes."""
        sizes, order = _by_characters(vocabulary, self.every, state.char)
        longer = order[np.searchsorted(sizes, free, "right") : np.searchsorted(sizes, room, "right")]
        base = at_root(vocabulary, self.inner, state.inner)
        if base.row is None:
            return np.intersect1d(longer, base.ids)
        taken: I32 = longer[(base.row[longer >> 5] >> (longer & 31)) & 1 == 1]
        return taken

    def _classify(self, vocabulary: Vocabulary, state: CountedState, wanted: int, room: int) -> RootClass:
        base = at_root(vocabulary, self.inner, state.inner)
        chars = _characters(vocabulary, self.every, state.char)
        endings = []
        for ending in base.endings:
            closers = _between(ending.closers, chars, wanted, room)
            fits = _fits(chars[ending.tokens], wanted, room)
            endings.append(Ending(ending.outcome, closers, ending.numbers[fits], ending.tokens[fits]))
        ids = _between(base.ids, chars, 0, room)
        row = base.row
        if row is not None and room < LONGEST:
            row = row & _short_enough(vocabulary, self.every, state.char, room)
        return RootClass(row, ids, tuple(endings))


def _row(vocabulary: Vocabulary, ids: I32) -> I32:
    row = np.zeros(vocabulary.row_words, np.int32)
    kernels.set_bits(row, ids)
    return row


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


def _by_characters(vocabulary: Vocabulary, every: DfaLexeme, char: int) -> tuple[I32, I32]:
    """Ascending counts of characters, and the tokens that have them, for those that fit into a string at all."""
    key = ("by characters", every.key(char))
    known: tuple[I32, I32] | None = vocabulary.classes.get(key)
    if known is None:
        chars = _characters(vocabulary, every, char)
        order = np.argsort(chars, kind="stable").astype(np.int32)
        order = order[np.searchsorted(chars[order], 0) :]
        known = chars[order], order
        vocabulary.classes.put(key, known, 2 * order.nbytes)
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
