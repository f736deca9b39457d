"""Leave out spellings that readers, which hold numbers as doubles, take for another number than they spell.

`1.0000000000000000000000000000000000000001` is above 1 and no integer. What a client reads is 1.0, which
`exclusiveMinimum: 1`, `not: {"const": 1}` or `oneOf` of integers and numbers refuse there.

Not covered: two numbers of an array of unique items that only readers take for the same; more than `_MOST_VALUES`
excluded values, and excluded steps of an automaton that would grow past `_MOST_STATES`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from sluicegate.grammar.automata import ByteDfa, CharDfa, byte_difference, number_dfa, utf8
from sluicegate.grammar.budget.remembered import remembered
from sluicegate.grammar.schema.numbers import WHOLE_DOUBLES, Numbers, NumberSet, plain_text

_MOST_VALUES = 16
_MOST_STATES = 50_000
_SAME = 16
"""Digits from the first on in which two numbers differ by less than half the distance of doubles there at most."""


def as_read(dfa: ByteDfa, parts: NumberSet) -> ByteDfa:
    """Return the spellings `dfa` of `parts` without those that are read as a double outside of `parts`; `dfa` itself if
    no other is left."""
    found = dfa
    for region in _regions(parts):
        if found.state_count * region.state_count <= _MOST_STATES:
            found = byte_difference(found, region)
    return dfa if found.is_empty() else found


def _regions(parts: NumberSet) -> Iterator[ByteDfa]:
    """Yield spellings that are inside of `parts` and may be read as a number outside."""
    for part in parts:
        if part.step is None:
            yield from (_near(*side) for side in sorted(_sides(part)))
        elif part.step.denominator == 1 and (part.step > 1 or _is_large(part)):
            yield _long_fractions()
        for places in sorted({_places(step) for step in part.not_steps}):
            yield _near_multiples(places)


def _is_large(part: Numbers) -> bool:
    bounds = [bound[0] for bound in (part.low, part.high) if bound is not None]
    return any(abs(bound) >= WHOLE_DOUBLES for bound in bounds)


def _sides(part: Numbers) -> set[tuple[Fraction, bool]]:
    """Return the excluded numbers, and whether `part` goes on above or below each."""
    found = {(bound[0], up) for bound, up in ((part.low, True), (part.high, False)) if bound is not None and bound[1]}
    if len(part.minus) <= _MOST_VALUES:
        found |= {(value, up) for value in part.minus for up in (True, False)}
    return {(value, up) for value, up in found if value}  # doubles are denser around 0 than digits are written


@remembered(200)
def _near(value: Fraction, up: bool) -> ByteDfa:
    """Return the spellings of the numbers between `value` and the next double above it, or below."""
    beyond = _beyond(value, up)
    if up:
        return number_dfa(exclusive_minimum=value, exclusive_maximum=beyond)
    return number_dfa(exclusive_minimum=beyond, exclusive_maximum=value)


def _beyond(value: Fraction, up: bool) -> Fraction:
    """Return the next double above `value` or below as programs print it; `value` if there is none."""
    try:
        double = math.nextafter(float(value), math.inf if up else -math.inf)
    except OverflowError:
        return value
    return value if math.isinf(double) else Fraction(Decimal(repr(double)))


def _places(step: Fraction) -> int:
    """Return the digits behind the point that multiples of `step` have at most."""
    return len(plain_text(step).partition(".")[2])


@lru_cache(maxsize=1)
def _long_fractions() -> ByteDfa:
    """Return spellings with a point of numbers so large that doubles round even their whole digits: what is read is
    another number, and no multiple of 3."""
    return utf8(CharDfa.from_pattern(rf"-?\d{{{_SAME},}}\.\d+", anchored=True))


@lru_cache(maxsize=20)
def _near_multiples(places: int) -> ByteDfa:
    """Return spellings that doubles may round to a number of `places` digits behind the point: with nothing but zeros
    or nines from there to the digit where doubles end, and any fraction if they end before."""
    last = max(_SAME - places, 0)
    found = [rf"\d{{{min(last + 1, _SAME)},}}\.\d+"]
    for whole in range(1, last + 1):
        more = last - whole
        tail = rf"(0{{{more}}}\d*[1-9]|9{{{more}}})\d*" if more else r"\d*[1-9]\d*"
        found.append(rf"\d{{{whole}}}\.\d{{{places}}}{tail}")
    return utf8(CharDfa.from_pattern(rf"-?({'|'.join(found)})", anchored=True))
