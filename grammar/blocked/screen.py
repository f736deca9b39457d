"""The blocklist against one vocabulary: bits taken out of masks, tokens refused, by where the text stands.

Not covered: a phrase that spans two JSON strings, or a string and what is outside; numbers.
"""

from __future__ import annotations

import numpy as np

from grammar import kernels
from grammar.blocked.blocklist import Blocklist
from grammar.blocked.fold import OTHER, SPACE, WORD
from grammar.blocked.patterns import Allowed, lexeme_of
from grammar.blocked.phrases import Refused, Spelled
from grammar.blocked.reading import Reader, Standing, closing_quote, decoded
from grammar.json_escapes import BACKSLASH
from grammar.trie import I32
from grammar.vocabulary import Vocabulary
from plugins.contract import Mask


class Screen:
    """For JSON (`json`) or for plain text. Shared by grammars; what it works out is remembered per standing."""

    def __init__(self, blocklist: Blocklist, vocabulary: Vocabulary, json: bool) -> None:
        self.vocabulary = vocabulary
        pattern = lexeme_of(blocklist.texts, json) if blocklist.texts is not None else None
        self.reader = Reader(blocklist.machine, pattern, json)
        self._refused = Refused(blocklist.machine, _spelled(vocabulary, json)) if blocklist.machine else None
        self._allowed = Allowed(pattern, vocabulary) if pattern is not None else None
        self._outside, self._later = self._by_trial() if json else (_NONE, _NONE)
        self._struck: dict[tuple[int, int], I32] = {}
        self._verdicts: dict[tuple[Standing, bytes], bool] = {}
        self._escaped: dict[tuple[Standing, int], Standing] = {}
        if json:
            self._look_past_escapes()

    def _by_trial(self) -> tuple[I32, I32]:
        """Tokens with a blocked string of their own: from outside strings, and after the end of one."""
        outside, later = [], []
        for token, word in enumerate(self.vocabulary.words):
            if b'"' not in word:
                continue
            if self.reader.after(self.reader.start, word).found:
                outside.append(token)
            end = closing_quote(b"", word)
            if end >= 0 and self.reader.after(self.reader.start, word[end + 1 :]).found:
                later.append(token)
        return np.array(outside, np.int32), np.array(later, np.int32)

    def _look_past_escapes(self) -> None:
        """After a backslash a third of the vocabulary may come, and all of it is tried. After most texts the escape
        leads to the same few standings; they are tried here, or the first backslash of a text would take 30 ms."""
        for before in (SPACE, OTHER, WORD):
            at = self.reader.opened._replace(before=before, begun=BACKSLASH)
            for token, word in enumerate(self.vocabulary.words):
                if word and word[0] in _ESCAPES:
                    self._verdict(at, token)

    def blocks(self, at: Standing, word: bytes) -> bool:
        return self.reader.after(at, word).found

    def strike(self, row: Mask, at: Standing) -> None:
        """Take the tokens out of `row` that would bring a phrase or a pattern about."""
        inside, phrase, before, pattern, begun = at
        if not inside:
            if self._outside.size:
                kernels.clear_bits(row, self._outside)
        elif begun:
            self._strike_by_trial(row, at)
        else:
            struck = self._struck.get((phrase, before))
            if struck is None:
                struck = self._remember(phrase, before)
            if struck.size:
                kernels.clear_bits(row, struck)
            if self._allowed is not None:
                np.bitwise_and(row, self._allowed.row(pattern), out=row)

    def _remember(self, phrase: int, before: int) -> I32:
        if len(self._struck) > _KEPT:
            self._struck.clear()
        refused = self._refused.ids(phrase, before) if self._refused is not None else _NONE
        struck = self._struck[phrase, before] = np.union1d(refused, self._later).astype(np.int32)
        return struck

    def _strike_by_trial(self, row: Mask, at: Standing) -> None:
        """Inside a character: few tokens go on with it."""
        bits = np.unpackbits(row.view(np.uint8), bitorder="little")
        struck = [token for token in np.flatnonzero(bits).tolist() if self._verdict(at, token)]
        kernels.clear_bits(row, np.array(struck, np.int32))

    def _verdict(self, at: Standing, token: int) -> bool:
        words = self.vocabulary.words
        word = words[token] if token < len(words) else b""
        if at.begun == BACKSLASH and word and word[0] in _ESCAPES:
            at, word = self._past_escape(at, word[0]), word[1:]
        if not word:
            return at.found
        known = self._verdicts.get((at, word))
        if known is None:
            if len(self._verdicts) > 200_000:
                self._verdicts.clear()
            known = self._verdicts[at, word] = self.blocks(at, word)
        return known

    def _past_escape(self, at: Standing, letter: int) -> Standing:
        known = self._escaped.get((at, letter))
        if known is None:
            if len(self._escaped) > 20_000:
                self._escaped.clear()
            known = self._escaped[at, letter] = self.reader.after(at, bytes([letter]))
        return known


_ESCAPES = frozenset(b'"\\/bfnrt')
_KEPT = 4_000
_NONE = np.empty(0, np.int32)


def screen_of(blocklist: Blocklist, vocabulary: Vocabulary, json: bool) -> Screen:
    """The same for the same arguments, as long as the vocabulary keeps it."""
    key = ("screen", blocklist, json)
    known: Screen | None = vocabulary.screens.get(key)
    if known is None:
        with vocabulary.lock:
            while len(vocabulary.screens) >= 8:
                del vocabulary.screens[next(iter(vocabulary.screens))]
            known = vocabulary.screens[key] = Screen(blocklist, vocabulary, json)
    return known


def leaving(blocklist: Blocklist, vocabulary: Vocabulary) -> I32:
    """Tokens that hold something blocked and might end a JSON value inside a tag."""
    key = ("leaving", blocklist)
    known: I32 | None = vocabulary.screens.get(key)
    if known is None:
        plain = screen_of(blocklist, vocabulary, False)
        words = enumerate(vocabulary.words)
        found = [
            t for t, word in words if any(end in word[:-1] for end in b'"}]') and plain.blocks(plain.reader.start, word)
        ]
        known = vocabulary.screens[key] = np.array(found, np.int32)
    return known


def _spelled(vocabulary: Vocabulary, json: bool) -> Spelled:
    key = ("spelled", json)
    known: Spelled | None = vocabulary.screens.get(key)
    if known is None:
        known = Spelled([_text(word, json) for word in vocabulary.words])
        vocabulary.screens[key] = known
    return known


def _text(word: bytes, json: bool) -> str | None:
    """What a token adds to an open text, None where it begins inside a character (or is special)."""
    if not word or 0x80 <= word[0] < 0xC0:
        return None
    if json:
        end = closing_quote(b"", word)
        word = word if end < 0 else word[:end]
    return decoded(word, json)[0]
