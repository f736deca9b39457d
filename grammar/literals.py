"""JSON strings out of a known set, in every spelling that JSON gives them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from grammar.lexemes import SortedWords

_SHORT = {'"': b'"', "\\": b"\\", "/": b"/", "\b": b"b", "\f": b"f", "\n": b"n", "\r": b"r", "\t": b"t"}
_HEX = b"0123456789abcdefABCDEF"


class CharNode:
    """Node of a trie of characters. `word` = index of the literal that ends here. Literals `low` to `high` of the sorted
    spellings begin with the `at` bytes that usually spell the way here."""

    __slots__ = ("at", "below", "high", "low", "spellings", "word")

    def __init__(self, low: int, at: int) -> None:
        self.low = low
        self.high = low
        self.at = at
        self.below: dict[str, CharNode] = {}
        self.word: int | None = None
        self.spellings: dict[bytes, CharNode | None] | None = None


class Spelling(NamedTuple):
    """Where in the trie, and the bytes so far of the next character's spelling (hex digits in lower case)."""

    node: CharNode
    begun: bytes


def plain(text: str) -> bytes:
    """The spelling that `json.dumps(ensure_ascii=False)` gives; a lone surrogate has only its escape."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return text.encode()
    if not any(map(_is_surrogate, text)):
        return json.dumps(text, ensure_ascii=False)[1:-1].encode()
    return b"".join(json.dumps(char, ensure_ascii=_is_surrogate(char))[1:-1].encode() for char in text)


def _is_surrogate(char: str) -> bool:
    return "\ud800" <= char <= "\udfff"


def _all_spellings(char: str) -> Iterable[bytes]:
    code = ord(char)
    if code >= 0x20 and char not in '"\\' and not _is_surrogate(char):
        yield char.encode()
    if char in _SHORT:
        yield b"\\" + _SHORT[char]
    if code < 0x10000:
        yield b"\\u%04x" % code
    else:
        high, low = 0xD800 + ((code - 0x10000) >> 10), 0xDC00 + ((code - 0x10000) & 0x3FF)
        yield b"\\u%04x\\u%04x" % (high, low)


def _lowered(begun: bytes, byte: int) -> bytes:
    """Append; hex digits of a \\u escape compare without case, the escape letters themselves with it."""
    if begun[:2] == b"\\u" and len(begun) not in (6, 7) and byte in _HEX:
        return begun + bytes([byte]).lower()
    return begun + bytes([byte])


class Literals:
    """One of `words`, from after the opening quote to the closing one. `outcome` = index of the word."""

    is_string = True

    def __init__(self, words: Iterable[str]) -> None:
        spelled = sorted((plain(word) + b'"', word, number) for number, word in enumerate(words))
        self.spelled = SortedWords([text for text, _, _ in spelled])
        self.outcomes = [number for _, _, number in spelled]
        root = CharNode(0, 0)
        for k, (_, word, number) in enumerate(spelled):
            node = root
            node.high = k + 1
            for char in word:
                below = node.below.get(char)
                if below is None:
                    below = node.below[char] = CharNode(k, node.at + len(plain(char)))
                below.high = k + 1
                node = below
            node.word = number
        self.start = Spelling(root, b"")

    def next(self, state: Spelling, byte: int) -> Spelling | None:
        node, begun = state
        if not begun:
            if byte == 0x22:
                return _closed(node)
            if byte < 0x80 and byte != 0x5C:
                below = node.below.get(chr(byte))
                return None if below is None or byte < 0x20 else Spelling(below, b"")
        begun = _lowered(begun, byte)
        spellings = _known(node)
        if begun not in spellings:
            return None
        reached = spellings[begun]
        return Spelling(node, begun) if reached is None else Spelling(reached, b"")

    def outcome(self, state: Spelling) -> int | None:
        return state.node.word if state.begun == b'"' else None

    def grows(self, state: Spelling) -> bool:
        return state.begun != b'"'

    def run(self, state: Spelling, text: bytes) -> Spelling | None:
        for byte in text:
            after = self.next(state, byte)
            if after is None or after.begun == b'"':
                return None
            state = after
        return state

    def key(self, state: Spelling) -> None:
        return None

    def window(self, state: Spelling) -> tuple[int, int, int] | None:
        """(low, high, at): what may usually follow is what the sorted spellings `low` to `high` have from byte `at` on.

        None inside a character: its spelling may be an unusual one.
        """
        node, begun = state
        return None if begun else (node.low, node.high, node.at)

    def outcome_of(self, word: int) -> int:
        """Outcome of a sorted spelling."""
        return self.outcomes[word]

    def firsts(self, state: Spelling) -> Iterable[int]:
        """Bytes that may come next."""
        node, begun = state
        size = len(begun)
        found = {spelling[size] for spelling in _known(node) if spelling[:size] == begun and len(spelling) > size}
        if begun[:2] == b"\\u":
            found |= {ord(chr(byte).upper()) for byte in found}
        if not begun and node.word is not None:
            found.add(0x22)
        return found


def _known(node: CharNode) -> dict[bytes, CharNode | None]:
    if node.spellings is None:
        node.spellings = _spellings_of(node)
    return node.spellings


def _closed(node: CharNode) -> Spelling | None:
    return None if node.word is None else Spelling(node, b'"')


def _spellings_of(node: CharNode) -> dict[bytes, CharNode | None]:
    """Every beginning of a spelling of the next character; whole spellings lead to the node below."""
    found: dict[bytes, CharNode | None] = {}
    for char, below in node.below.items():
        for spelled in _all_spellings(char):
            for size in range(1, len(spelled)):
                found.setdefault(spelled[:size], None)
            found[spelled] = below
    return found
