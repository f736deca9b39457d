"""Refuse tokens where a text ends inside a character: after a backslash, inside `\\u0061`, between bytes of UTF-8.

The *head* of a token finishes the character; most heads lead to the same state. The rest is looked up in the vocabulary
of all such rests, as whole tokens are elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sluicegate.grammar.blocked.language.phrases import Phrases
from sluicegate.grammar.blocked.refused import RefusedTokens, SpelledVocabulary
from sluicegate.grammar.blocked.scanner import BlocklistScanner, ScanState, closing_quote, decoded
from sluicegate.grammar.token_ids import I32, NO_IDS
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_BACKSLASH = b"\\"
_ESCAPES = frozenset(b'"\\/bfnrt')
_HEX = frozenset(b"0123456789abcdefABCDEF")
_LATER = frozenset(range(0x80, 0xC0))


class Remainders:
    """Tokens whose first `size` bytes are all among `head`, and the vocabulary of their rests."""

    def __init__(self, vocabulary: Vocabulary, size: int, head: frozenset[int], json: bool) -> None:
        self.size = size
        self.by_head: dict[bytes, list[int]] = {}
        rests: list[str | None] = [None] * len(vocabulary.words)
        for token, word in enumerate(vocabulary.words):
            if len(word) >= size and head.issuperset(word[:size]):
                self.by_head.setdefault(word[:size], []).append(token)
                rests[token] = _text(word[size:], json)
        self.spelled = SpelledVocabulary(rests)


class Spellings:
    """A vocabulary by what its tokens add to a text that ends with a whole character, or inside one. `json` as in
    `BlocklistScanner`."""

    def __init__(self, vocabulary: Vocabulary, json: bool) -> None:
        self.vocabulary = vocabulary
        self.json = json
        self.whole = SpelledVocabulary([_text(word, json) for word in vocabulary.words])
        self._behind: dict[tuple[int, frozenset[int]], Remainders] = {}
        if json:
            self.behind(1, _ESCAPES)

    def behind(self, size: int, head: frozenset[int]) -> Remainders:
        known = self._behind.get((size, head))
        if known is None:
            known = self._behind[size, head] = Remainders(self.vocabulary, size, head, self.json)
        return known


def spelled_of(vocabulary: Vocabulary, json: bool) -> Spellings:
    """Return the same object for the same arguments while the vocabulary keeps it."""
    key = ("spelled", json)
    known: Spellings | None = vocabulary.screens.get(key)
    if known is None:
        known = vocabulary.screens[key] = Spellings(vocabulary, json)
    return known


def _text(word: bytes, json: bool) -> str | None:
    """Return the text a token adds to an open text; None if it begins inside a character, or is special."""
    if not word or 0x80 <= word[0] < 0xC0:
        return None
    if json:
        end = closing_quote(b"", word)
        word = word if end < 0 else word[:end]
    return decoded(word, json)[0]


class PartialCharacters:
    """Of one blocklist and vocabulary; `behind`: the vocabulary's part of it, see `Spellings`."""

    def __init__(
        self,
        phrases: Phrases | None,
        vocabulary: Vocabulary,
        reader: BlocklistScanner,
        behind: Callable[[int, frozenset[int]], Remainders],
    ) -> None:
        self.phrases = phrases
        self.words = vocabulary.words
        self.reader = reader
        self._behind = behind
        self._known: dict[tuple[int, frozenset[int]], tuple[Remainders, RefusedTokens | None, I32]] = {}
        self._codes = [
            token for token, word in enumerate(self.words) if word[:1] == b"u" and _HEX.issuperset(word[1:5])
        ]

    def refused(self, at: ScanState) -> I32 | None:
        """Return the tokens refused at `at`, inside a character; None where each must be tried."""
        begun = at.begun
        if begun == _BACKSLASH:
            return np.concatenate([self._after(at, 1, _ESCAPES), self._tried(at, self._codes)])
        if begun[:1] == _BACKSLASH:
            return self._after(at, 6 - len(begun), _HEX) if len(begun) < 6 else None
        size = 2 if begun[0] < 0xE0 else 3 if begun[0] < 0xF0 else 4
        return self._after(at, size - len(begun), _LATER)

    def _after(self, at: ScanState, size: int, head: frozenset[int]) -> I32:
        """Return the refused tokens of those that finish the character with `size` bytes among `head`."""
        behind, refused, besides = self._parts(size, head)
        found: list[I32] = []
        groups: dict[tuple[int, int], list[bytes]] = {}
        for first in behind.by_head:
            ahead = self.reader.after(at, first)
            if ahead.found:
                found.append(np.array(behind.by_head[first], np.int32))
            elif ahead.begun:  # half of a pair
                found.append(self._tried(at, behind.by_head[first]))
            else:
                groups.setdefault((ahead.phrase, ahead.before), []).append(first)
        for (phrase, before), firsts in groups.items():
            tokens = besides if refused is None else refused.ids(phrase, before)
            if len(firsts) < len(behind.by_head):
                own = np.array([token for first in firsts for token in behind.by_head[first]], np.int32)
                tokens = np.intersect1d(tokens, own)
            found.append(tokens)
        return np.concatenate(found) if found else NO_IDS

    def _tried(self, at: ScanState, tokens: list[int]) -> I32:
        return np.array([token for token in tokens if self.reader.after(at, self.words[token]).found], np.int32)

    def _parts(self, size: int, head: frozenset[int]) -> tuple[Remainders, RefusedTokens | None, I32]:
        known = self._known.get((size, head))
        if known is None:
            behind = self._behind(size, head)
            besides = self._besides(behind) if self.reader.json else NO_IDS
            refused = None if self.phrases is None else RefusedTokens(self.phrases, behind.spelled, besides)
            known = self._known[size, head] = behind, refused, besides
        return known

    def _besides(self, behind: Remainders) -> I32:
        """Return tokens whose rest ends the string and holds something blocked in another one."""
        found = []
        for tokens in behind.by_head.values():
            for token in tokens:
                rest = self.words[token][behind.size :]
                end = closing_quote(b"", rest)
                if end >= 0 and self.reader.after(self.reader.start, rest[end + 1 :]).found:
                    found.append(token)
        return np.array(found, np.int32)
