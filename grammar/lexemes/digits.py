"""Bound the digits of numbers, so that a weak model cannot write `0.000000...` until its tokens run out.

Only the spelling is bounded, and never below what the schema itself mentions: `minimum: 1e90` still has numbers of 91
digits. A schema whose automaton would grow past `_MOST_STATES` by counting digits keeps its numbers unbounded.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from sluicegate.grammar.automata import ByteDfa, CharDfa, byte_intersection, utf8
from sluicegate.grammar.options import most_zeros
from sluicegate.grammar.schema.numbers import Numbers, NumberSet, plain_text

_MOST_STATES = 60
"""From this many states of a number's automaton on, digits are not counted: the states would multiply."""
_BEYOND = 20
"""Digits counted beyond those that a schema mentions: there is always a number between two bounds, or outside of
excluded ones."""


class NumberDigits(NamedTuple):
    """The most digits that a number is written with, 0 = any number. The defaults hold integers of 256 bits (78 digits)
    and every double as programs print it: without an exponent, at most 22 digits behind the point."""

    whole: int = 80
    fraction: int = 40


def within_digits(dfa: ByteDfa, parts: NumberSet, most: NumberDigits) -> ByteDfa:
    """Restrict the spellings `dfa` of `parts`: digits to `most` or to what `parts` mention, exponents to doubles."""
    doubles = byte_intersection(dfa, _spellings(0, 0))
    if most == (0, 0) or doubles.state_count > _MOST_STATES:
        return doubles
    bounded = byte_intersection(dfa, _spellings(*_needed(parts, most)))
    return doubles if bounded.is_empty() else bounded


def _needed(parts: NumberSet, most: NumberDigits) -> NumberDigits:
    """Return `most`, or more where `parts` mention more."""
    whole, fraction = most
    for number in (number for part in parts for number in _mentioned(part)):
        before, _, behind = plain_text(abs(number)).partition(".")
        whole = whole and max(whole, len(before) + _BEYOND * (len(before) > 1))
        fraction = fraction and max(fraction, len(behind) + _BEYOND * bool(behind))
    return NumberDigits(whole, fraction)


def _mentioned(part: Numbers) -> list[Fraction]:
    bounds = [bound[0] for bound in (part.low, part.high) if bound is not None]
    steps = [part.step] if part.step is not None else []
    return [*bounds, *steps, *part.not_steps, *part.minus]


@lru_cache(maxsize=64)
def _spellings(whole: int, fraction: int) -> ByteDfa:
    """Return the texts of a number's bytes with so many digits before and behind the point (0 = any number), and an
    exponent of three digits, up to 307: readers turn larger ones into infinity, which is no JSON value.

    The last of many digits behind the point is no 0: the next item of an array of unique ones can always differ.
    """
    before = rf"\d{{1,{whole}}}" if whole else r"\d+"
    behind = rf"\d{{1,{fraction}}}" if fraction else r"\d+"
    if (zeros := most_zeros(fraction)) < fraction:
        behind = rf"(\d{{1,{zeros}}}|\d{{{zeros}}}[1-9])"
    exponent = r"[eE][+-]?([012]?\d?\d|30[0-7])"
    return utf8(CharDfa.from_pattern(rf"-?{before}(\.{behind})?({exponent})?", anchored=True)).with_table()
