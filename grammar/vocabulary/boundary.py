"""Tokens that cross a boundary of lexemes in a JSON text: which ones are possible at all, and where they lead."""

from __future__ import annotations

import re
import threading

import numpy as np

from sluicegate.grammar.token_ids import I32, NO_IDS
from sluicegate.grammar.vocabulary import kernels

_STRING = rb'"(?:[^"\\\x00-\x1f]|\\.)*+'
_LEXEMES = re.compile(
    rb"(?>[ \t\r\n]++|[{}\[\]:,]|" + _STRING + rb'"|-?[0-9][0-9.eE+-]*+|true|false|null)*+'
    rb"(?:" + _STRING + rb"\\?|-|t|tr|tru|f|fa|fal|fals|n|nu|nul)?",
    re.DOTALL,
)
_MOST = 200
_NEXT_STRING = re.compile(rb',[ \t\r\n]*".', re.DOTALL)
_SECOND_STRING = re.compile(rb',[ \t\r\n]*"(?:[^"\\]|\\.)*"')


def plausible(text: bytes) -> bool:
    """Return whether `text` could stand in some JSON text where no string is open: whole lexemes, then perhaps the
    beginning of one.

    Wider than JSON: order is not looked at.
    """
    return _LEXEMES.fullmatch(text) is not None


def crosses_strings(text: bytes) -> bool:
    """Return whether `text` could end or hold a string, and holds a whole one after a comma: guards may be asked of
    both."""
    return _SECOND_STRING.search(text) is not None


def reaches_on(text: bytes) -> bool:
    """Return whether `text` could end or hold a string, and goes on into one after a comma."""
    return _NEXT_STRING.search(text) is not None


class BoundaryTokens:
    """Tokens by the node of `punctuation` that they lead to: `tokens[k]` spells the text of node `numbers[k]`."""

    __slots__ = ("_all", "_known", "numbers", "tokens")

    def __init__(self, numbers: I32, tokens: I32) -> None:
        self.numbers = numbers
        self.tokens = tokens
        self._all: int | None = None
        self._known: dict[int, I32] = {}

    def taken(self, found: int) -> I32:
        """Return the tokens that lead to one of the nodes of `found`."""
        if self._all is None:
            flags = np.zeros(int(self.numbers.max(initial=0)) + 1, np.bool_)
            flags[self.numbers] = True
            self._all = int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")
        found &= self._all
        if not found:
            return NO_IDS
        known = self._known.get(found)
        if known is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            bits = np.frombuffer(found.to_bytes(self._all.bit_length() // 8 + 1, "little"), np.uint8)
            out = np.empty(self.tokens.size, np.int32)
            known = self._known[found] = out[: kernels.taken(bits, self.numbers, self.tokens, out)].copy()
        return known


class Ending(BoundaryTokens):
    """Tokens that end a lexeme with one `outcome`. `closers`: those that end with it; the others go on after it."""

    __slots__ = ("closers", "outcome")

    def __init__(self, outcome: int, closers: I32, numbers: I32, tokens: I32) -> None:
        super().__init__(numbers, tokens)
        self.outcome = outcome
        self.closers = closers


class Scratch:
    """Three int32 arrays for one walk over the vocabulary at a time."""

    def __init__(self, first: I32, second: I32, third: I32) -> None:
        self._arrays = first, second, third
        self._lock = threading.Lock()

    def __enter__(self) -> tuple[I32, I32, I32]:
        self._lock.acquire()
        return self._arrays

    def __exit__(self, *error: object) -> None:
        self._lock.release()
