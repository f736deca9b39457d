"""Fold characters before phrases are searched: case, marks, invisible characters, kinds of blank.

A symbol stands for the border before every word, so that a phrase begins at a word; it may end anywhere. Not covered:
look-alike letters, digits for letters, letters spaced out, which output rails see.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from bisect import bisect_right
from functools import lru_cache

SPACE, OTHER, WORD = 0, 1, 2
"""Kinds of the previous symbol. A text begins as if after a space, so leading blanks do not count."""
BORDER = "\0"
_UNSPACED = (
    (0x0E00, 0x0FFF), (0x1000, 0x109F), (0x1100, 0x11FF), (0x1780, 0x17FF), (0x2E80, 0x9FFF), (0xA960, 0xA97F),
    (0xAC00, 0xD7FF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF),
)  # fmt: skip


_CUTS = [border for low, high in _UNSPACED for border in (low, high + 1)]
_PLAIN = frozenset(("Cn", "Co", "Cs"))
_BLOCK = 256

Symbols = tuple[tuple[str, int], ...]


@lru_cache(maxsize=8192)
def folded(char: str) -> Symbols:
    """Return the symbols of `char`, each with its kind."""
    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", char).casefold())
    found = []
    for symbol in text:
        category = unicodedata.category(symbol)
        if symbol.isspace():
            found.append((" ", SPACE))
        elif category not in ("Mn", "Me", "Cf", "Cc"):
            found.append((symbol, kind_of(symbol)))
    return tuple(found)


def kind_of(symbol: str) -> int:
    if symbol == " ":
        return SPACE
    return WORD if symbol.isalnum() and not _unspaced(symbol) else OTHER


def _unspaced(symbol: str) -> bool:
    """Return whether `symbol` is of a script without spaces between words, where every place is a border."""
    return bool(bisect_right(_CUTS, ord(symbol)) & 1)


def symbols_of(text: str, before: int = OTHER) -> tuple[str, int]:
    """Return the symbols of `text` behind one of kind `before`, and the kind of the last one."""
    return _of_ascii(text, before) if text.isascii() else _of_any(text, before)


def _of_any(text: str, before: int) -> tuple[str, int]:
    found: list[str] = []
    for char in text:
        for symbol, kind in folded(char):
            if kind == SPACE and before == SPACE:
                continue
            if kind == WORD and before != WORD:
                found.append(BORDER)
            found.append(symbol)
            before = kind
    return "".join(found), before


def _of_ascii(text: str, before: int) -> tuple[str, int]:
    """Fold an ASCII text, with a few operations on the whole of it."""
    symbols = text.lower().translate(_ASCII)
    if "  " in symbols:
        symbols = _BLANKS.sub(" ", symbols)
    if before == SPACE and symbols[:1] == " ":
        symbols = symbols[1:]
    if not symbols:
        return "", before
    symbols = _WORD_BEGINS.sub(BORDER, symbols)
    if before == WORD and symbols[0] == BORDER:
        symbols = symbols[1:]
    return symbols, kind_of(symbols[-1])


_ASCII = {code: " " if chr(code).isspace() else None for code in (*range(0x20), 0x7F)}
_BLANKS = re.compile("  +")
_WORD_BEGINS = re.compile("(?<![0-9a-z])(?=[0-9a-z])")


@lru_cache(maxsize=1)
def fold_runs() -> list[tuple[int, Symbols]]:
    """Return the starts of runs of characters, and the symbols they fold to; "" = each folds to itself."""
    found: list[tuple[int, Symbols]] = []
    for block in range(0, sys.maxunicode + 1, _BLOCK):
        text = "".join(map(chr, range(block, block + _BLOCK)))
        if _is_plain(text):
            _extend(found, block, (("", kind_of(text[0])),))
        else:
            for code, char in enumerate(text, block):
                _extend(found, code, _own(char))
    return found


def _extend(runs: list[tuple[int, Symbols]], code: int, symbols: Symbols) -> None:
    if not runs or runs[-1][1] != symbols:
        runs.append((code, symbols))


def _is_plain(text: str) -> bool:
    """Return whether all characters of a block are of one kind and fold to themselves, as Chinese and unassigned
    ones."""
    if set(map(unicodedata.category, text)) <= _PLAIN:
        return True
    return (
        text.isalnum()
        and kind_of(text[0]) == kind_of(text[-1])  # no script begins and ends inside a block
        and unicodedata.is_normalized("NFKD", text)
        and text.casefold() == text
    )


def _own(char: str) -> Symbols:
    if unicodedata.category(char) in _PLAIN:
        return (("", kind_of(char)),)
    symbols = folded(char)
    return (("", symbols[0][1]),) if len(symbols) == 1 and symbols[0][0] == char else symbols
