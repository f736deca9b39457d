"""Named character sets: \\d \\w \\s in both dialects, general categories, scripts, and case folding."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

import re2

from sluicegate.grammar.automata.charsets import EVERY, LAST, Ranges, negate, of_text, union

DIGIT: Ranges = ((0x30, 0x39),)
WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
# ECMA-262 WhiteSpace and LineTerminator: tab..CR, space, NBSP, BOM, Zs, line and paragraph separators.
_BLANKS = union(of_text("\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000"), ((0x2000, 0x200A),))
SPACE: Ranges = union(_BLANKS, of_text("\ufeff"))
ECMA_NEWLINES: Ranges = of_text("\n\r\u2028\u2029")

_GROUPS = {
    "L": ("Lu", "Ll", "Lt", "Lm", "Lo"),
    "LC": ("Lu", "Ll", "Lt"),
    "M": ("Mn", "Mc", "Me"),
    "N": ("Nd", "Nl", "No"),
    "P": ("Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"),
    "S": ("Sm", "Sc", "Sk", "So"),
    "Z": ("Zs", "Zl", "Zp"),
    "C": ("Cc", "Cf", "Cn", "Co", "Cs"),
}
_LONG_NAMES = {
    "letter": "L", "cased_letter": "LC", "uppercase_letter": "Lu", "lowercase_letter": "Ll", "titlecase_letter": "Lt",
    "modifier_letter": "Lm", "other_letter": "Lo", "mark": "M", "combining_mark": "M", "nonspacing_mark": "Mn",
    "spacing_mark": "Mc", "enclosing_mark": "Me", "number": "N", "decimal_number": "Nd", "digit": "Nd",
    "letter_number": "Nl", "other_number": "No", "punctuation": "P", "punct": "P", "connector_punctuation": "Pc",
    "dash_punctuation": "Pd", "open_punctuation": "Ps", "close_punctuation": "Pe", "initial_punctuation": "Pi",
    "final_punctuation": "Pf", "other_punctuation": "Po", "symbol": "S", "math_symbol": "Sm", "currency_symbol": "Sc",
    "modifier_symbol": "Sk", "other_symbol": "So", "separator": "Z", "space_separator": "Zs", "line_separator": "Zl",
    "paragraph_separator": "Zp", "other": "C", "control": "Cc", "cntrl": "Cc", "format": "Cf", "surrogate": "Cs",
    "private_use": "Co", "unassigned": "Cn",
}  # fmt: skip


@lru_cache(maxsize=1)
def _categories() -> dict[str, Ranges]:
    """Find the runs of every general category. Planes 4 to 13 are empty, 15 and 16 for private use: not scanned."""
    runs: dict[str, list[tuple[int, int]]] = {"Cn": [(0x40000, 0xDFFFF)], "Co": []}
    for first, last in ((0, 0x3FFFF), (0xE0000, 0xE0FFF)):
        start, current = first, unicodedata.category(chr(first))
        for code_point in range(first + 1, last + 1):
            category = unicodedata.category(chr(code_point))
            if category != current:
                runs.setdefault(current, []).append((start, code_point - 1))
                start, current = code_point, category
        runs.setdefault(current, []).append((start, last))
    runs["Cn"] += [(0xE1000, 0xEFFFF), (0xFFFFE, 0xFFFFF), (0x10FFFE, LAST)]
    runs["Co"] += [(0xF0000, 0xFFFFD), (0x100000, 0x10FFFD)]
    return {name: union(ranges) for name, ranges in runs.items()}


@lru_cache(maxsize=256)
def category(name: str) -> Ranges | None:
    """Return a general category by its short or long name, None if there is none."""
    short = _LONG_NAMES.get(name.lower(), name)
    parts = _GROUPS.get(short, (short,))
    found = _categories()
    if short not in _GROUPS and short not in found and short != "Cs":
        return None
    return union(*(found.get(part, ()) for part in parts))


@lru_cache(maxsize=256)
def script(name: str) -> Ranges | None:
    """Return the characters of a script, from RE2's tables; None if RE2 does not know it.

    `unicodedata` has no scripts. RE2 is asked once for all runs in a text that holds every scalar value.
    """
    if category(name) is not None or not name.replace("_", "").isalpha():
        return None
    try:
        matcher = re2.compile(f"\\p{{{name}}}+", _quiet())
    except re2.error:
        return None
    text = "".join(map(chr, range(0xD800))) + "".join(map(chr, range(0xE000, LAST + 1)))
    return union((ord(m.group()[0]), ord(m.group()[-1])) for m in matcher.finditer(text))


def _quiet() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    return options


_ISO_15924 = {
    "Latn": "Latin", "Grek": "Greek", "Cyrl": "Cyrillic", "Arab": "Arabic", "Hebr": "Hebrew", "Hani": "Han",
    "Hira": "Hiragana", "Kana": "Katakana", "Hang": "Hangul", "Thai": "Thai", "Deva": "Devanagari", "Zyyy": "Common",
    "Beng": "Bengali", "Taml": "Tamil", "Telu": "Telugu", "Geor": "Georgian", "Armn": "Armenian", "Ethi": "Ethiopic",
}  # fmt: skip
_BINARY: dict[str, Ranges] = {
    "Any": EVERY,
    "ASCII": ((0, 0x7F),),
    "ASCII_Hex_Digit": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
    "AHex": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
    "White_Space": union(_BLANKS, of_text("\x85")),
}


def unicode_property(text: str) -> Ranges | None:
    """Return the characters of `\\p{text}`: a category, a script, or a binary property; None if unknown."""
    name, equals, value = text.partition("=")
    if equals:
        if name in ("General_Category", "gc"):
            return category(value)
        return script(_ISO_15924.get(value, value)) if name in ("Script", "sc") else None
    if name == "Assigned":
        return negate(category("Cn") or ())
    if name in _BINARY:
        return _BINARY[name]
    return category(name) or script(_ISO_15924.get(name, name))


@lru_cache(maxsize=1)
def python_digit() -> Ranges:
    """Return `\\d` of a Python `str` pattern."""
    return category("Nd") or ()


@lru_cache(maxsize=1)
def python_word() -> Ranges:
    """Return `\\w` of a Python `str` pattern: `str.isalnum` and the underscore."""
    return union(_where(str.isalnum), ((0x5F, 0x5F),))


@lru_cache(maxsize=1)
def python_space() -> Ranges:
    """Return `\\s` of a Python `str` pattern: `str.isspace`."""
    return _where(str.isspace)


def _where(test) -> Ranges:  # type: ignore[no-untyped-def]
    return union((c, c) for c in range(0x40000) if test(chr(c)))


@lru_cache(maxsize=1)
def _orbits() -> dict[int, tuple[int, ...]]:
    """Map each character to those that it equals when case is ignored (simple folding), if there are any."""
    groups: dict[str, set[int]] = {}
    for code_point in (*range(0xD800), *range(0xE000, 0x20000)):
        character = chr(code_point)
        lower, upper = character.lower(), character.upper()
        if lower == upper == character:
            continue
        folded = _fold(character)
        groups.setdefault(folded, set()).update({code_point, ord(folded)})
    return {member: tuple(sorted(group)) for group in groups.values() if len(group) > 1 for member in group}


def _fold(character: str) -> str:
    """Fold by `str.casefold` where that is one character, else by lower case (as for U+1E9E)."""
    for candidate in (character.casefold(), character.lower()):
        if len(candidate) == 1:
            return candidate
    return character


def ignoring_case(ranges: Ranges) -> Ranges:
    """Add everything that differs from `ranges` in case only."""
    orbits = _orbits()
    extra: set[int] = set()
    for low, high in ranges:
        if high - low < len(orbits):
            extra.update(m for c in range(low, high + 1) for m in orbits.get(c, ()))
        else:
            extra.update(m for c, group in orbits.items() if low <= c <= high for m in group)
    return union(ranges, ((c, c) for c in extra))
