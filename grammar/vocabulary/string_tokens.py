"""Tokens with a quote: what ends a string, holds one, or goes on into the next."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.token_ids import I32
from sluicegate.grammar.vocabulary.boundary import Ending, crosses_strings, reaches_on
from sluicegate.grammar.vocabulary.escapes import BACKSLASH, QUOTE
from sluicegate.grammar.vocabulary.word_bytes import WordBytes

_CLOSING = re.compile(rb'((?:[^"\\]|\\.)*")', re.DOTALL)
_QUOTED = re.compile(rb'[^"]*"((?:[^"\\]|\\.)*")', re.DOTALL)


_PLAIN = re.compile(r'[^\x00-\x1f"\\]+')


def plain_tokens(words: Sequence[bytes]) -> bytes:
    """Return for each of `words` 1 where it is whole characters that stand in a JSON string as they are, else 0."""
    return bytes([_is_plain(word) for word in words])


def _is_plain(word: bytes) -> bool:
    try:
        return _PLAIN.fullmatch(word.decode()) is not None
    except UnicodeDecodeError:
        return False


IN_STRING: Final = 1
OUTSIDE: Final = 2
_FOLLOWED = ((b'"', IN_STRING | OUTSIDE), (b"\\", IN_STRING), *((bytes([byte]), OUTSIDE) for byte in b"{}[]:"))


def inert_tokens(spelled: WordBytes) -> bytes:
    """Return for each token `IN_STRING` where it holds neither quote nor backslash, and `OUTSIDE` where it holds no
    quote, bracket or colon: then a tape that is inside a string, or outside, need not follow its bytes."""
    found = np.full(spelled.sizes.size, IN_STRING | OUTSIDE, np.uint8)
    for byte, places in _FOLLOWED:
        found[spelled.holding(byte[0])] &= ~np.uint8(places)
    return found.tobytes()


class StringTokens:
    """Immutable."""

    def __init__(self, words: list[tuple[int, bytes]], count: int) -> None:
        """Take the tokens with a quote, `words`, of `count` in all."""
        self._words = words
        self._count = count
        self._closing: dict[str, I32] | None = None
        self._quoted: dict[str, I32] | None = None
        self._is_crossing: npt.NDArray[np.bool_] | None = None
        self._is_reaching: npt.NDArray[np.bool_] | None = None

    @property
    def closing(self) -> dict[str, I32]:
        """Return the tokens that close a string, by the decoded text they add before the quote."""
        if self._closing is None:
            self._closing = self._by_string(_CLOSING)
        return self._closing

    @property
    def quoted(self) -> dict[str, I32]:
        """Return the tokens that spell a whole string outside others, by the first one's decoded text."""
        if self._quoted is None:
            self._quoted = self._by_string(_QUOTED)
        return self._quoted

    def _by_string(self, pattern: re.Pattern[bytes]) -> dict[str, I32]:
        found: dict[str, list[int]] = {}
        for token, word in self._words:
            match = pattern.match(word)
            if match:
                try:
                    text = json.loads(b'"' + match.group(1))
                except ValueError:
                    continue
                found.setdefault(text, []).append(token)
        return {text: np.array(tokens, np.int32) for text, tokens in found.items()}

    @property
    def is_crossing(self) -> npt.NDArray[np.bool_]:
        """Return bool[tokens]: those that may end a string and hold a whole one behind it."""
        if self._is_crossing is None:
            found = np.zeros(self._count, np.bool_)
            found[[token for token, word in self._words if crosses_strings(word)]] = True
            self._is_crossing = found
        return self._is_crossing

    @property
    def is_reaching(self) -> npt.NDArray[np.bool_]:
        """Return bool[tokens]: those that may end a string and go on into another one."""
        if self._is_reaching is None:
            found = np.zeros(self._count, np.bool_)
            found[[token for token, word in self._words if reaches_on(word)]] = True
            self._is_reaching = found
        return self._is_reaching

    def closings(self, remainder_numbers: dict[bytes, int]) -> dict[bytes, Ending]:
        """Return the tokens that close a string spelled plainly, by what they spell of it, the quote included.
        `remainder_numbers`: nodes of the trie of punctuation, by what they spell."""
        parts: dict[bytes, tuple[list[int], list[int], list[int]]] = {}
        for token, word in self._words:
            at = word.find(QUOTE) + 1
            if BACKSLASH in word[:at]:
                continue
            closers, numbers, tokens = parts.setdefault(word[:at], ([], [], []))
            number = remainder_numbers.get(word[at:])
            if at == len(word):
                closers.append(token)
            elif number is not None:
                numbers.append(number)
                tokens.append(token)
        return {
            text: Ending(0, *(np.array(part, np.int32) for part in found))
            for text, found in parts.items()
            if any(found)
        }
