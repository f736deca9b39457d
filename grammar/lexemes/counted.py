"""Strings of bounded length: a counter beside the automaton, never a state per character."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

from sluicegate.grammar.automata import CharDfa
from sluicegate.grammar.lexemes.base import QUOTE, DfaLexeme, Lexeme
from sluicegate.grammar.lexemes.length_bounds import LONGEST, CountedState, LengthBounds

_LETTERS = re.compile(rb"[ !#-\[\]-~]*")
"""Characters of one byte that stand for themselves."""
_BEGUN = 12
"""Bytes of the longest character, two escapes: a begun character can extend this far."""


class Counted(Lexeme):
    """`inner` (a quoted lexeme) cut down to `low` to `high` characters. `every`: the lexeme of all strings.

    `dfa`: the characters of `inner`, where that is not all strings. No state is entered from which no text of a
    fitting length leads to the end.
    """

    is_string = True
    is_blank = False
    general = False

    def __init__(
        self, inner: DfaLexeme, every: DfaLexeme, low: int, high: int | None, dfa: CharDfa | None = None
    ) -> None:
        self.inner = inner
        self.every = every
        self.low = low
        self.high = high
        self.bounds = None if dfa is None else LengthBounds(dfa, inner, low, high)
        self.branches: dict[Any, Any] | None = {}
        self.start = CountedState(inner.start, every.start, 0)

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
        if self.bounds is not None and not self.bounds.alive(inner, size):
            return None
        return CountedState(inner, char, size)

    def outcome(self, state: CountedState) -> int | None:
        return 0 if state.size < 0 else None

    def grows(self, state: CountedState) -> bool:
        return state.size >= 0

    def run(self, state: CountedState, text: bytes) -> CountedState | None:
        at: CountedState | None = state
        for k, byte in enumerate(text):
            assert at is not None
            if k < _BEGUN and self.inner is self.every and at.char == self.every.start and _LETTERS.fullmatch(text, k):
                size = at.size + len(text) - k
                return CountedState(at.inner, at.char, size) if self.high is None or size <= self.high else None
            at = self.next(at, byte)
            if at is None or at.size < 0:
                return None
        return at

    def next_bytes(self, state: CountedState) -> set[int]:
        row = self.inner.row(state.inner)
        return {byte for byte in range(256) if row[byte] >= 0 and self.next(state, byte) is not None}

    def usual_bytes(self, state: CountedState) -> set[int]:
        return self.next_bytes(state)

    def room(self, state: CountedState) -> tuple[int, int]:
        """Return how many characters are still wanted, and how many still allowed; both cut off where no token can
        tell."""
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

    def is_any_count_alive(self, chars: int) -> bool:
        """Return whether every state of the pattern can reach its end after each count up to `chars`, which is for the
        bounds themselves to allow."""
        return self.bounds is None or self.bounds.free(0) >= chars
