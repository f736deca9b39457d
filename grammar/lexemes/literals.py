"""JSON strings out of a known set, in every spelling that JSON gives them."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.lexemes.base import BACKSLASH, QUOTE
from sluicegate.grammar.lexemes.words import WordList

_SHORT = {'"': b'"', "\\": b"\\", "/": b"/", "\b": b"b", "\f": b"f", "\n": b"n", "\r": b"r", "\t": b"t"}
_HEX = b"0123456789abcdefABCDEF"
_BYTES = [bytes([byte]) for byte in range(256)]
_LONG = 16
"""Lists with more words are searched by bisection instead of linearly."""
_new = tuple.__new__  # a named tuple's own constructor takes twice as long, and a token makes one or two
_OF_CHARACTER = 3
"""Work charged for each character that may be spelled by an escape."""


class Window(NamedTuple):
    """The sorted words `low` to `high` are still possible; their first `at` bytes were spelled, however.

    `begun`: bytes so far of a character spelled with a backslash (hex digits in lower case). `at` is -1 once closed.
    """

    low: int
    high: int
    at: int
    begun: bytes = b""


def plain(text: str) -> bytes:
    """Return the spelling that `json.dumps(ensure_ascii=False)` gives; a lone surrogate has only its escape."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return text.encode()
    if not any(map(_is_surrogate, text)):
        return json.dumps(text, ensure_ascii=False)[1:-1].encode()
    return b"".join(json.dumps(char, ensure_ascii=_is_surrogate(char))[1:-1].encode() for char in text)


def _is_surrogate(char: str) -> bool:
    return 0xD800 <= ord(char) <= 0xDFFF


class Literals(WordList[Window]):
    """One of a few strings, from after the opening quote to the closing one.

    `words`: pairs (usual spelling, outcome) in ascending order, see `sorted_spellings`. Nothing is built per character.
    """

    is_string = True

    def __init__(self, words: list[tuple[bytes, int]]) -> None:
        super().__init__(words)
        self.start = _new(Window, (0, len(words), 0, b""))
        self._is_ascii: bool | None = None

    @property
    def is_ascii(self) -> bool:
        if self._is_ascii is None:
            self._is_ascii = bool(self.spelled.data.max(initial=0) < 0x80)
        return self._is_ascii

    def next(self, state: Window, byte: int) -> Window | None:
        low, high, at, begun = state
        if begun:
            return self._next_escaped(state, byte)
        words = self.words
        if byte == BACKSLASH:
            more = self._between(state) and (high - low > 1 or words[low][at] != QUOTE)  # no two words end here
            return Window(low, high, at, b"\\") if more else None
        low, end = _with_part(words, low, high, at, _BYTES[byte])
        if low == end:
            return None
        if byte != QUOTE:
            return _new(Window, (low, end, at + 1, b""))
        return _new(Window, (low, end, -1, b""))

    def _between(self, state: Window) -> bool:
        """Return whether `state` is at the beginning of a character."""
        return not 0x80 <= self.words[state.low][state.at] < 0xC0

    def _next_escaped(self, state: Window, byte: int) -> Window | None:
        low, high, at, _ = state
        begun = _lowered(state.begun, byte)
        found = False
        for k, end, size in self._characters(low, high, at):
            spellings = _escapes_at(self.words[k], at)[1]
            if begun in spellings:
                return _new(Window, (k, end, at + size, b""))
            found = found or any(spelling.startswith(begun) for spelling in spellings)
        return Window(low, high, at, begun) if found else None

    def _characters(self, low: int, high: int, at: int) -> Iterator[tuple[int, int, int]]:
        """Yield, for each character that the words `low` to `high` have at byte `at`: its words (from, to), and the
        bytes it takes."""
        words = self.words
        while low < high:
            charge(_OF_CHARACTER)
            size = _escapes_at(words[low], at)[0]
            end = _behind(words, low, high, at, words[low][at : at + size])
            yield low, end, size
            low = end

    def outcome(self, state: Window) -> int | None:
        return self.outcomes[state.low] if state.at < 0 else None

    def grows(self, state: Window) -> bool:
        return state.at >= 0

    def run(self, state: Window, text: bytes) -> Window | None:
        after: Window | None = state
        special = max(text.rfind(b'"'), text.rfind(b"\\"))
        for k, byte in enumerate(text):
            assert after is not None
            if k > special and not after.begun:
                return self._plainly(after, text[k:])
            after = self.next(after, byte)
            if after is None or after.at < 0:
                return None
        return after

    def _plainly(self, state: Window, text: bytes) -> Window | None:
        """Return the state after `text`, in which no character is escaped and none ends the string."""
        low, high = _with_part(self.words, state.low, state.high, state.at, text)
        return None if low == high else _new(Window, (low, high, state.at + len(text), b""))

    def window(self, state: Window) -> tuple[int, int, int] | None:
        return None if state.begun else (state.low, state.high, state.at)

    def usual_bytes(self, state: Window) -> set[int]:
        low, high, at, begun = state
        return set() if begun else _bytes_at(self.words, low, high, at)

    def characters(self, state: Window) -> set[str]:
        if not self._between(state):
            return set()
        low, high, at, _ = state
        return {_character(self.words[k], at) for k, _, _ in self._characters(low, high, at)} - {""}

    def next_bytes(self, state: Window) -> set[int]:
        low, high, at, begun = state
        if not begun:
            found = _bytes_at(self.words, low, high, at)
            return found | {BACKSLASH} if self._between(state) and found != {QUOTE} else found
        found = set()
        for k, _, _ in self._characters(low, high, at):
            for spelling in _escapes_at(self.words[k], at)[1]:
                if spelling.startswith(begun) and len(spelling) > len(begun):
                    byte = spelling[len(begun)]
                    found |= {byte, ord(chr(byte).upper())} if _expects_hex(begun) else {byte}
        return found


def _bytes_at(words: Sequence[bytes], low: int, high: int, at: int) -> set[int]:
    """Return the bytes that the sorted words `low` to `high`, alike before byte `at`, have there."""
    found = set()
    while low < high:
        found.add(words[low][at])
        low = _behind(words, low, high, at, words[low][at : at + 1])
    return found


def _with_part(words: Sequence[bytes], low: int, high: int, at: int, part: bytes) -> tuple[int, int]:
    """Return from where to where those of the words `low` to `high`, alike before byte `at`, stand that have `part`
    there."""
    size = at + len(part)
    if high - low > _LONG:
        low = bisect_left(words, part, low, high, key=lambda word: word[at:size])
    else:
        while low < high and words[low][at:size] < part:
            low += 1
    if low == high or not words[low].startswith(part, at):
        return low, low
    return low, _behind(words, low, high, at, part)


def _behind(words: Sequence[bytes], low: int, high: int, at: int, part: bytes) -> int:
    """Return where those of the words `low` to `high` end that have `part` at `at`, as word `low` has."""
    size = at + len(part)
    if high - low > _LONG:
        return bisect_right(words, part, low, high, key=lambda word: word[at:size])
    low += 1
    while low < high and words[low][at:size] == part:
        low += 1
    return low


def sorted_spellings(words: Iterable[str]) -> list[tuple[bytes, int]]:
    """Return the usual spellings with the closing quote, each with its index in `words`, sorted."""
    return sorted((plain(word) + b'"', number) for number, word in enumerate(words))


def literals(words: Iterable[str]) -> Literals:
    """Return the lexeme of `words`; outcomes are indices."""
    return Literals(sorted_spellings(words))


def _escapes_at(word: bytes, at: int) -> tuple[int, tuple[bytes, ...]]:
    """Return how many bytes the usual spelling of the character at offset `at` takes, and its spellings with `\\`."""
    char = _character(word, at)
    return len(plain(char)) or 1, escapes_of(char) if char else ()


def _character(word: bytes, at: int) -> str:
    """Return the character spelled at offset `at`; "" at the closing quote."""
    lead = word[at]
    if lead == QUOTE:
        return ""
    if lead == BACKSLASH:
        return _unescaped(word[at : at + (6 if word[at + 1] == 0x75 else 2)])
    return chr(lead) if lead < 0x80 else word[at : at + (2 if lead < 0xE0 else 3 if lead < 0xF0 else 4)].decode()


@lru_cache(maxsize=4_000)
def _unescaped(spelled: bytes) -> str:
    char: str = json.loads(b'"' + spelled + b'"')
    return char


@lru_cache(maxsize=4_000)
def escapes_of(char: str) -> tuple[bytes, ...]:
    """Return the spellings of one character with a backslash, hex digits in lower case."""
    code = ord(char)
    if code >= 0x10000:
        high, low = 0xD800 + ((code - 0x10000) >> 10), 0xDC00 + ((code - 0x10000) & 0x3FF)
        return (b"\\u%04x\\u%04x" % (high, low),)
    if char in _SHORT:
        return (b"\\" + _SHORT[char], b"\\u%04x" % code)
    return (b"\\u%04x" % code,)


def _expects_hex(begun: bytes) -> bool:
    """Return whether a digit of a \\u escape comes next, or of the second one of a pair."""
    return begun[:2] == b"\\u" and len(begun) not in (6, 7)


def _lowered(begun: bytes, byte: int) -> bytes:
    """Append; hex digits of a \\u escape compare without case, the escape letters themselves with it."""
    if _expects_hex(begun) and byte in _HEX:
        return begun + bytes([byte]).lower()
    return begun + bytes([byte])
