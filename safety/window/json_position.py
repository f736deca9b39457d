"""Track the position in a streamed JSON text: the path of the value, a number's state, and decoded escapes."""

from __future__ import annotations

import re
from collections.abc import Iterator

UNPAIRED = "\ufffd"
"""Half a surrogate pair, decoded."""
PARTED = frozenset((".", "fraction", "e", "e+", "power"))
"""States of a number with a fraction or an exponent."""
_NUMBER = re.compile(r"-?0*([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?)0*([0-9]{0,9}))?")
_FEWEST, _MOST = 4, 64
"""Number of integer digits from and up to which a number is also judged as written out."""
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class JsonPosition:
    """The path of the value being read, updated with each structural mark and key. Mutable."""

    def __init__(self) -> None:
        self._steps: list[str | int | None] = []  # an array's index, an object's key, None before its first key
        self.key = ""
        self.expects_key = False

    @property
    def is_outside(self) -> bool:
        """Return whether no object or array is open."""
        return not self._steps

    def path(self) -> tuple[str | int, ...]:
        steps = self._steps[:-1] if self.expects_key else self._steps
        return tuple(step for step in steps if step is not None)

    def read(self, mark: str) -> None:
        if mark in "{[":
            self._steps.append(None if mark == "{" else 0)
            self.expects_key = mark == "{"
        elif mark in "}]":
            self._steps = self._steps[:-1]
            self.expects_key = False
        elif mark == ":" and self.expects_key:
            self._steps[-1] = self.key
            self.expects_key = False
        elif mark == "," and self._steps:
            step = self._steps[-1]
            self.expects_key = not isinstance(step, int)
            self._steps[-1] = step + 1 if isinstance(step, int) else step


_DIGITS = {"int": "int", "-": "int", "start": "int", ".": "fraction", "fraction": "fraction", "e": "power",
           "e+": "power", "power": "power"}  # fmt: skip
_MARKS = {("start", "-"): "-", ("int", "."): ".", ("0", "."): ".", ("e", "+"): "e+", ("e", "-"): "e+"}
_MARKS |= {(place, letter): "e" for place in ("int", "0", "fraction") for letter in "eE"}


def after(place: str, char: str) -> str:
    """Return the state of a number or word after `char`; empty if that is not JSON. The state of a word is its text so
    far."""
    if char in "0123456789" and place in _DIGITS:
        return "0" if char == "0" and place in ("start", "-") else _DIGITS[place]
    if (place, char) in _MARKS:
        return _MARKS[place, char]
    word = ("" if place == "start" else place) + char
    return word if any(w.startswith(word) for w in ("true", "false", "null")) else ""


def whole_values(number: str) -> list[str]:
    """Return the integer digits of `number` written out, exactly and, if that differs, as rounded to a double."""
    found = _NUMBER.match(number)
    assert found is not None
    whole, fraction, sign, power = found[1], found[2] or "", found[3], found[4]
    point = len(whole) + int(f"{sign or ''}{power or 0}")
    digits = (whole + fraction).lstrip("0")
    point -= len(whole + fraction) - len(digits)
    if not digits or not _FEWEST <= point <= _MOST:
        return []
    exact = digits[:point].ljust(point, "0")
    rounded = str(int(float(f"0.{digits}e{point}")))
    return [exact] if rounded == exact else [exact, rounded]


def decoded_escape(escape: str) -> tuple[str, int] | None:
    """Return the first character of a run of escapes and the length of its spelling; None while it is incomplete. An
    escaped letter that JSON does not define stands for itself, half a surrogate pair for U+FFFD."""
    if len(escape) < 2:
        return None
    if escape[1] != "u":
        return _ESCAPES.get(escape[1], escape[1]), 2
    if len(escape) < 6:
        return None
    first, rest = _hexadecimal(escape[2:6]), escape[6:]
    if not 0xD800 <= first < 0xDC00:
        return (UNPAIRED if 0xDC00 <= first < 0xE000 else chr(first)), 6
    if "\\u".startswith(rest[:2]) and len(rest) < 6:
        return None
    second = _hexadecimal(rest[2:6]) if rest[:2] == "\\u" else 0
    if 0xDC00 <= second < 0xE000:
        return chr(0x10000 + ((first - 0xD800) << 10) + second - 0xDC00), 12
    return UNPAIRED, 6


class EscapeRun:
    """Escapes that come character by character. `spelled`: what is not complete yet. Mutable."""

    def __init__(self) -> None:
        self.spelled = ""

    def take_unpaired(self, char: str) -> str:
        """Return the spelling of half a surrogate pair that ends before `char`; empty if there is none."""
        if len(self.spelled) != 6 or char == "\\":
            return ""
        taken, self.spelled = self.spelled, ""
        return taken

    def read(self, char: str) -> Iterator[tuple[str, str]]:
        """Add a character, and yield each one that is complete with its spelling."""
        self.spelled += char
        while (found := decoded_escape(self.spelled)) is not None:
            decoded, size = found
            spelled, self.spelled = self.spelled[:size], self.spelled[size:]
            yield decoded, spelled


def _hexadecimal(written: str) -> int:
    try:
        return int(written, 16)
    except ValueError:
        return 0xFFFD
