"""Compare account and telephone numbers: their digits in groups, with and without the code of a country.

Not covered: the number of an account of which an IBAN is made.
"""

from __future__ import annotations

import re

from sluicegate.plugins.concurrency.unlocked import cached_property
from sluicegate.safety.provenance.borders import JOINED
from sluicegate.safety.provenance.number_words import digits_of_words

APART = r"(?:[\s().'/-]{0,2}|,(?=\d{3}))"
"""Between the groups of a number."""
FAR_APART = r"[\s().,/_:+'\"*|\[\]-]{0,5}"
"""The same in an untrusted text."""
MIN_TAIL_DIGITS = 7
_MARKS = re.compile(r"[\s().,/_:+'\"*|\[\]-]")
_INTERNATIONAL = re.compile(r"(?:\+|00)(\d{8,15})")
_DIALLED = re.compile(r"(?<![\w+])(?:\+|00)\d(?:[ ().-]{0,3}\d){7,15}(?!\w)")
_NATIONAL = re.compile(r"0(\d{7,14})")
_UNPREFIXED = re.compile(r"(?:1(?=\d{10}$)|3(?:0|4|9|5[1246])|4[578]|65|37[1278]|378|420|85[23])(\d{7,12})")
"""A number with the code of a country in which none begins with a 0 for long distance."""
_WRITTEN = re.compile(r"(\d{1,15})(?:\.(\d{1,15}))?(?:e\+?(\d{1,2}))?|(0x[0-9a-f]{4,16}|0b[01]{16,64}|0o[0-7]{6,22})")


def bare_number(value: str) -> str:
    """Return a number without marks between its groups, and without zeros behind its point."""
    return _MARKS.sub("", re.sub(r"\.0{1,4}$", "", value))


def whole_number(text: str) -> str | None:
    """Return the digits of a whole number in scientific, hexadecimal, octal or binary notation, or with zeros behind
    its point; None for any other text."""
    found = _WRITTEN.fullmatch(text)
    if found is None:
        return None
    if found[4]:
        return str(int(found[4], 0))
    fraction, power = (found[2] or "").rstrip("0"), int(found[3] or 0)
    if len(fraction) > power:
        return None
    return (found[1] + fraction.ljust(power, "0")).lstrip("0") or "0"


def tails(number: str) -> list[str]:
    """Return a telephone number without the code of its country, which has one to three digits, or without its 0."""
    dialled = _dialled(number)
    if found := _INTERNATIONAL.fullmatch(dialled):
        return [found[1][code:] for code in (1, 2, 3) if len(found[1]) - code >= MIN_TAIL_DIGITS]
    return _NATIONAL.findall(dialled) if _NATIONAL.fullmatch(dialled) else []


def _national(number: str) -> list[str]:
    """Return an international number as it is dialled within its country, where that needs no 0 before it."""
    found = _INTERNATIONAL.fullmatch(_dialled(number))
    return _UNPREFIXED.findall(found[1]) if found and _UNPREFIXED.fullmatch(found[1]) else []


def _dialled(number: str) -> str:
    return re.sub(r"[^\d+]", "", number)


class SearchedText:
    """A text in the spelling used for comparison, which is searched for many numbers."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _without_marks(self) -> str:
        return _MARKS.sub("", self.text)

    @property
    def with_accents(self) -> str:
        """Return the text in which words are sought."""
        return self.text

    @cached_property
    def in_words(self) -> SearchedText | None:
        """Return the numbers that are spelled digit by digit in words; None if there are none."""
        numbers = digits_of_words(self.with_accents)
        return SearchedText(" ; ".join(numbers)) if numbers else None

    def spaced(self, bare: str, apart: str, *, begins: bool = True) -> int:
        """Return the offset of a number, whose digits may stand in groups, or -1. `begins`: nothing is before it."""
        if not bare or bare not in self._without_marks:  # a hundred times faster than the pattern
            return -1
        digits = apart.join(map(re.escape, bare))
        found = re.search(rf"{rf'(?<!{JOINED})' if begins else ''}{digits}(?!{JOINED})", self.text)
        return found.start() if found else -1

    def near(self, number: str) -> int:
        """Return the offset of a number with anything between its groups, with the code of its country or without; -1
        if there is none."""
        at = self.spaced(bare_number(number), FAR_APART)
        for tail in tails(number) if at < 0 else ():
            at = max(at, self.spaced(tail, FAR_APART, begins=False))
        return at

    def names_number(self, value: str) -> bool:
        """Return whether exactly this number is written, with the code of its country or without."""
        bare = re.sub(r"[\s().+-]", "", re.sub(r"\.0{1,4}$", "", value))
        ends = tails(value)
        abroad = (f"00{bare}",) if value.startswith("+") else ()
        written = (bare, *abroad, *(f"0{tail}" for tail in ends), *_national(value))
        if any(self.spaced(one, APART) >= 0 for one in written):
            return True
        if bare in self._abroad[1] or (bare.startswith("0") and not self._abroad[0].isdisjoint(ends)):
            return True
        return self.in_words is not None and self.in_words.names_number(value)

    @cached_property
    def _abroad(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the telephone numbers that are written with the code of a country, without it; those of countries
        without a 0 for long distance, too."""
        found = [number.replace("(0)", "") for number in _DIALLED.findall(self.text)]
        return (
            frozenset(tail for number in found for tail in tails(number)),
            frozenset(tail for number in found for tail in _national(number)),
        )
