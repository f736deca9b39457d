"""Tokens across the seams of a JSON text: which ones are possible at all, and where they close a string."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass

import numpy as np

from grammar.trie import I32

_STRING = rb'"(?:[^"\\\x00-\x1f]|\\.)*+'
_LEXEMES = re.compile(
    rb"(?>[ \t\r\n]++|[{}\[\]:,]|" + _STRING + rb'"|-?[0-9][0-9.eE+-]*+|true|false|null)*+'
    rb"(?:" + _STRING + rb"\\?|-|t|tr|tru|f|fa|fal|fals|n|nu|nul)?",
    re.DOTALL,
)
_SECOND_KEY = re.compile(rb',[ \t\r\n]*"(?:[^"\\]|\\.)*"')


def plausible(text: bytes) -> bool:
    """Could stand in some JSON text where no string is open: whole lexemes, then perhaps the beginning of one.

    Wider than JSON (order is not looked at) but for one thing: a token that spells a comma and then a whole string is
    left out, because no mask may cross two property names at once (see `tape`).
    """
    return _LEXEMES.fullmatch(text) is not None and _SECOND_KEY.search(text) is None


@dataclass(frozen=True, slots=True)
class Ending:
    """Tokens that end a lexeme with one `outcome`.

    `closers`: those that end with it. `numbers[k]`, `tokens[k]`: token k goes on after the lexeme, spelling remainder
    `numbers[k]` of the vocabulary.
    """

    outcome: int
    closers: I32
    numbers: I32
    tokens: I32


class Scratch:
    """Room for one walk over the vocabulary at a time: int32 arrays for inside tokens, exits and closing tokens."""

    def __init__(self, size: int, nodes: int) -> None:
        self._arrays = np.empty(size, np.int32), np.empty(nodes + 1, np.int32), np.empty(size, np.int32)
        self._lock = threading.Lock()

    def __enter__(self) -> tuple[I32, I32, I32]:
        self._lock.acquire()
        return self._arrays

    def __exit__(self, *error: object) -> None:
        self._lock.release()
