"""Fold characters to the symbols that rails match.

Each character becomes none, one or several symbols, independently of its neighbours; so a match maps back to the
original text by offset, and a stream can be folded as it comes. Three foldings: `narrow` keeps case and line breaks
(for patterns), `coded` reads more letters by their shape (for numbers, addresses and keys), `wide` folds both (for
phrases).

Not covered: re-ordering by bidi controls (they are skipped, the stored order counts), and look-alikes beyond
`confusables.py`.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from sluicegate.safety.matching.confusables import BY_CASE, LIGATURES, look_alike

_KEPT_CONTROLS = "\t\n\v\f\r"
_LINE_BREAKS = "\n\v\f\r\x85\u2028\u2029"

# Default-ignorable code points that are neither Cf nor Mn: Hangul fillers, the Khmer inherent vowels are Mn already.
_FILLERS = "\u115f\u1160\u3164\uffa0\u2800"

# Scripts that write words without spaces between them: every place is a word border there.
_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x0F00, 0x0FFF),  # Tibetan
    (0x1000, 0x109F),  # Myanmar
    (0x1100, 0x11FF),  # Hangul jamo: particles follow a noun without a space
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x9FFF),  # CJK radicals to ideographs, kana
    (0xA960, 0xA97F),
    (0xAC00, 0xD7FF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)


@lru_cache(maxsize=8192)
def narrow(char: str) -> str:
    """Return the symbols of `char`: compatibility decomposition without marks and invisible characters; any script's
    decimal digits as ASCII, any dash as `-`, any space as a space, look-alikes as the Latin letter. Case is kept."""
    if "\x20" <= char < "\x7f":
        return char
    return "".join(_symbol(part) for part in unicodedata.normalize("NFKD", char))


@lru_cache(maxsize=8192)
def coded(char: str) -> str:
    """Return the symbols of `narrow`, with letters of `BY_CASE` as the Latin ones: where words of Greek are looked for,
    they must stay what their other case is."""
    if "\x20" <= char < "\x7f":
        return char
    return "".join(BY_CASE.get(symbol, symbol) for symbol in narrow(char))


@lru_cache(maxsize=8192)
def wide(char: str) -> str:
    """Return the symbols of `narrow`, with case folded and all white space, line breaks too, as a space."""
    if "\x20" <= char < "\x7f":
        return char.lower()
    # Twice, since a folded letter may look like a capital (Cherokee).
    folded = "".join(map(narrow, narrow(char).casefold())).casefold()
    return "".join(" " if symbol.isspace() else symbol for symbol in folded)


def _symbol(char: str) -> str:
    if char in _LINE_BREAKS:
        return "\n"
    category = unicodedata.category(char)
    if category in ("Mn", "Me", "Cf") or char in _FILLERS:
        return ""
    if category == "Cc" and char not in _KEPT_CONTROLS:
        return ""
    if category == "Nd":
        return str(unicodedata.digit(char))
    if category == "Pd":
        return "-"
    return " " if char.isspace() else LIGATURES.get(char) or look_alike(char)


def is_mark(char: str) -> bool:
    """Return whether `char` is a combining mark, which is redacted together with the character before it."""
    return unicodedata.category(char) in ("Mn", "Me")


def is_word(symbol: str) -> bool:
    """Return whether `symbol` is a letter or digit of a script that puts spaces between words. The underscore is not:
    `_word_` is italics, and `ssn_123` contains a number."""
    return symbol.isalnum() and not is_unspaced(symbol)


def is_unspaced(symbol: str) -> bool:
    code = ord(symbol)
    return code >= 0x0E00 and any(low <= code <= high for low, high in _UNSPACED)
