"""Scan a text for a blocklist: outside strings, inside one, or in free text."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import NamedTuple

from sluicegate.grammar.blocked.language.fold import SPACE, symbols_of
from sluicegate.grammar.blocked.language.phrases import Phrases
from sluicegate.grammar.lexemes.base import DfaLexeme

_SHORT = {0x6E: "\n", 0x74: "\t", 0x72: "\r", 0x62: "\b", 0x66: "\f", 0x22: '"', 0x5C: "\\", 0x2F: "/"}


class ScanState(NamedTuple):
    """`phrase`: state of the phrases' machine, -1 once one is found; `before`: kind of the last symbol; `pattern`:
    state of the patterns' automaton, -1 once one is found; `begun`: bytes of a character that is not whole."""

    inside: bool
    phrase: int = 0
    before: int = SPACE
    pattern: int = 0
    begun: bytes = b""

    @property
    def found(self) -> bool:
        return self.phrase < 0 or self.pattern < 0


class BlocklistScanner:
    """Steps over bytes. `json`: the text is JSON and its strings count, each for itself; else all of it counts."""

    def __init__(self, phrases: Phrases | None, pattern: DfaLexeme | None, json: bool) -> None:
        self.phrases = phrases
        self.pattern = pattern
        self.json = json
        first = pattern.start if pattern is not None else 0
        self.opened = ScanState(True, pattern=first)
        self.start = ScanState(False) if json else self.opened

    def after(self, at: ScanState, data: bytes) -> ScanState:
        """Return the state after `data`; stops where a phrase or a pattern is found."""
        if at.found:
            return at
        while data:
            if not at.inside:
                quote = data.find(b'"')
                if quote < 0:
                    return at
                at, data = self.opened, data[quote + 1 :]
                continue
            end = closing_quote(at.begun, data) if self.json else -1
            at = self._inside(at, data if end < 0 else data[:end])
            if end < 0 or at.found:
                return at
            at, data = self.start, data[end + 1 :]
        return at

    def _inside(self, at: ScanState, data: bytes) -> ScanState:
        phrase, before, pattern = at.phrase, at.before, at.pattern
        text, begun = decoded(at.begun + data, self.json)
        if self.phrases is not None:
            symbols, before = symbols_of(text, before)
            phrase = self.phrases.step(phrase, symbols)
        if self.pattern is not None:
            for byte in data:
                pattern = self.pattern.row(pattern)[byte]
                if pattern < 0:
                    break
        return ScanState(True, phrase, before, pattern, begun)


def closing_quote(begun: bytes, data: bytes) -> int:
    """Return the offset in `data` of the quote that ends the string, or -1."""
    at = 1 if begun == b"\\" or (begun.startswith(b"\\u") and begun.endswith(b"\\")) else 0
    while at < len(data):
        if data[at] == 0x22:
            return at
        at += 2 if data[at] == 0x5C else 1
    return -1


def decoded(data: bytes, as_json: bool) -> tuple[str, bytes]:
    """Return the whole characters of `data`, and the bytes of the last one if it is not whole."""
    if as_json and 0x5C in data:
        return _unescaped(data)
    cut = _whole(data)
    return data[:cut].decode(errors="replace"), data[cut:]


def _whole(data: bytes) -> int:
    """Return the length without a last UTF-8 character that is not whole."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte >= 0xC0:
            return len(data) - back if back < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4) else len(data)
        if byte < 0x80:
            break
    return len(data)


def _unescaped(data: bytes) -> tuple[str, bytes]:
    found: list[str] = []
    at = 0
    while True:
        slash = data.find(b"\\", at)
        if slash < 0:
            cut = at + _whole(data[at:])
            found.append(data[at:cut].decode(errors="replace"))
            return "".join(found), data[cut:]
        found.append(data[at:slash].decode(errors="replace"))
        size = _escape_size(data, slash)
        if not size:
            return "".join(found), data[slash:]
        with suppress(ValueError):  # no JSON: the grammar refuses it
            found.append(json.loads(b'"' + data[slash : slash + size] + b'"'))
        at = slash + size


def _escape_size(data: bytes, at: int) -> int:
    """Return the bytes of the escape at `at`, both halves of a pair; 0 if it is not whole."""
    if at + 1 >= len(data):
        return 0
    if data[at + 1] != 0x75:
        return 2
    if at + 6 > len(data):
        return 0
    if data[at + 2 : at + 3] not in (b"d", b"D") or data[at + 3 : at + 4] not in b"89abAB":
        return 6
    return 12 if at + 12 <= len(data) else 0
