"""Sets of numbers, closed under union, intersection and complement. Values are exact fractions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import Final

from sluicegate.grammar.automata import (
    ByteDfa,
    CharDfa,
    byte_difference,
    byte_intersection,
    byte_union,
    number_dfa,
    utf8,
)
from sluicegate.grammar.budget.remembered import remembered
from sluicegate.grammar.given.texts import GivenTexts
from sluicegate.plugins.frozen import frozen_when_checked

Bound = tuple[Fraction, bool]
"""(limit, whether it is excluded)."""


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers in `values` (None: all) and within the bounds; `step`: multiples of it; `not_steps`: of none of these.

    Integers are the multiples of 1. `plain`: without fraction or exponent, as draft 4 wants integers to be.
    """

    values: frozenset[Fraction] | None = None
    low: Bound | None = None
    high: Bound | None = None
    step: Fraction | None = None
    not_steps: frozenset[Fraction] = frozenset()
    minus: frozenset[Fraction] = frozenset()
    plain: bool = False
    given: GivenTexts | None = None
    """Canonical spellings of the numbers that an array of unique items already has; the lexeme excludes them."""

    def has(self, number: Fraction) -> bool:
        if self.values is not None and number not in self.values:
            return False
        if self.low is not None and (number < self.low[0] or (self.low[1] and number == self.low[0])):
            return False
        if self.high is not None and (number > self.high[0] or (self.high[1] and number == self.high[0])):
            return False
        if self.step is not None and (number / self.step).denominator != 1:
            return False
        return number not in self.minus and all((number / step).denominator != 1 for step in self.not_steps)


WHOLE_DOUBLES: Final = 2**53
"""From here on doubles are whole numbers, and not all of these are doubles."""
NumberSet = tuple[Numbers, ...]
EVERY: Final[NumberSet] = (Numbers(),)
NOTHING: Final[NumberSet] = ()


def _tighter(a: Bound | None, b: Bound | None, upper: bool) -> Bound | None:
    if a is None or b is None:
        return a or b
    if a[0] == b[0]:
        return (a[0], a[1] or b[1])
    return min(a, b) if upper else max(a, b)


def _common_step(a: Fraction | None, b: Fraction | None) -> Fraction | None:
    if a is None or b is None:
        return a or b
    scale = lcm(a.denominator, b.denominator)
    return Fraction(lcm(int(a * scale), int(b * scale)), scale)


def _intersect(a: Numbers, b: Numbers) -> Numbers:
    if a.values is not None or b.values is not None:
        values = a.values if a.values is not None else b.values
        assert values is not None
        return Numbers(values=frozenset(n for n in values if a.has(n) and b.has(n)), plain=a.plain or b.plain)
    return Numbers(
        None,
        _tighter(a.low, b.low, False),
        _tighter(a.high, b.high, True),
        _common_step(a.step, b.step),
        a.not_steps | b.not_steps,
        a.minus | b.minus,
        a.plain or b.plain,
    )


def _hopeless(part: Numbers) -> bool:
    """Return whether the set is obviously empty."""
    if part.values is not None:
        return not any(part.has(n) for n in part.values)
    if part.step is not None and any((part.step / step).denominator == 1 for step in part.not_steps):
        return True
    if part.low is None or part.high is None:
        return False
    if part.low[0] == part.high[0]:
        return part.low[1] or part.high[1] or not part.has(part.low[0])
    if part.low[0] > part.high[0]:
        return True
    if part.step is None:
        return False
    first = -(-part.low[0] // part.step) * part.step
    if part.low[1] and first == part.low[0]:
        first += part.step
    return first > part.high[0] or (part.high[1] and first == part.high[0])


def simplified(parts: NumberSet) -> NumberSet:
    kept: list[Numbers] = []
    values: frozenset[Fraction] = frozenset()
    for part in parts:
        if _hopeless(part):
            continue
        if part.values is not None and part.plain:
            kept.append(part)
        elif part.values is not None:
            values |= frozenset(n for n in part.values if part.has(n))
        elif part == Numbers():
            return EVERY
        elif part not in kept:
            kept.append(part)
    values = frozenset(n for n in values if not any(part.has(n) for part in kept))
    if values:
        kept.append(Numbers(values=values))
    return tuple(kept)


def intersect(a: NumberSet, b: NumberSet) -> NumberSet:
    if a == EVERY:
        return b
    if b == EVERY:
        return a
    return simplified(tuple(_intersect(x, y) for x in a for y in b))


def union(a: NumberSet, b: NumberSet) -> NumberSet:
    return simplified(a + b)


def complement(parts: NumberSet) -> NumberSet:
    result = EVERY
    for part in parts:
        result = intersect(result, _complement_one(part))
    return result


def _complement_one(part: Numbers) -> NumberSet:
    if part.values is not None:
        return (Numbers(minus=frozenset(n for n in part.values if part.has(n))),)
    found: list[Numbers] = []
    if part.low is not None:
        found.append(Numbers(high=(part.low[0], not part.low[1])))
    if part.high is not None:
        found.append(Numbers(low=(part.high[0], not part.high[1])))
    if part.step is not None:
        found.append(Numbers(not_steps=frozenset({part.step})))
    found.extend(Numbers(step=step) for step in part.not_steps)
    if part.minus:
        found.append(Numbers(values=part.minus))
    return simplified(tuple(found))


def finite_values(parts: NumberSet) -> frozenset[Fraction] | None:
    """List the numbers where they are few, else return None."""
    found: frozenset[Fraction] = frozenset()
    for part in parts:
        values = part.values
        if values is None:
            if part.low is None or part.high is None or part.step is None:
                return None
            if (part.high[0] - part.low[0]) / part.step > 64:
                return None
            first = -(-part.low[0] // part.step)
            last = part.high[0] // part.step
            values = frozenset(part.step * k for k in range(int(first), int(last) + 1))
        found |= frozenset(n for n in values if part.has(n))
    return found


def supply(parts: NumberSet) -> int | None:
    """Return how many numbers there are at most; None where nothing bounds them."""
    found = 0
    for part in parts:
        if part.values is not None:
            found += len(part.values)
        elif part.low is None or part.high is None or part.step is None:
            return None
        else:
            found += int((part.high[0] - part.low[0]) / part.step) + 1
    return found


@remembered(500)
def automaton(parts: NumberSet) -> ByteDfa | None:
    """Return the automaton of all JSON spellings; None if there are none. Raises `GrammarLimit`."""
    union_of: ByteDfa | None = None
    for part in parts:
        one = _automaton_of(part)
        union_of = one if union_of is None else byte_union(union_of, one)
    return None if union_of is None or union_of.is_empty() else union_of


def _automaton_of(part: Numbers) -> ByteDfa:
    if part.values is not None:
        return _of_values(sorted(part.values))
    low, high, step = part.low, part.high, part.step
    # A step of 1/k or coarser than 1 is told apart because the automaton of integers also reads exponents.
    found = number_dfa(
        minimum=low[0] if low is not None and not low[1] else None,
        exclusive_minimum=low[0] if low is not None and low[1] else None,
        maximum=high[0] if high is not None and not high[1] else None,
        exclusive_maximum=high[0] if high is not None and high[1] else None,
        integer=step == 1 or (part.plain and step is not None and step.denominator == 1),
        multiple_of=None if step == 1 else step,
        plain=part.plain,
    )
    if part.not_steps or part.minus:  # 10e-1 is an integer, and 1e0 is 1: what is left out is told by plain spellings
        found = without_exponents(found)
    for other in sorted(part.not_steps):
        found = byte_difference(found, number_dfa(integer=other == 1, multiple_of=None if other == 1 else other))
    if part.minus:
        found = byte_difference(found, _plain_spellings(part.minus))
    return found


def without_exponents(dfa: ByteDfa) -> ByteDfa:
    """Return the spellings of `dfa` without an exponent."""
    return byte_intersection(dfa, _without_exponents())


def plain_text(value: Fraction) -> str:
    """Spell a decimal fraction without an exponent."""
    if value.denominator == 1:
        return str(value.numerator)
    places = 0
    while (value * 10**places).denominator != 1:
        places += 1
    digits = str(abs(int(value * 10**places))).rjust(places + 1, "0")
    text = digits if not places else f"{digits[:-places]}.{digits[-places:]}"
    return "-" + text if value < 0 else text


def _plain_spellings(values: frozenset[Fraction]) -> ByteDfa:
    """Return all spellings of `values` without an exponent; zeros may follow behind the point."""
    texts = [*map(plain_text, values), *(["-0"] if 0 in values else [])]
    whole = CharDfa.from_literals(text for text in texts if "." not in text).concat(_zeros(True))
    return utf8(whole.union(CharDfa.from_literals(text for text in texts if "." in text).concat(_zeros(False))))


@lru_cache(maxsize=2)
def _zeros(whole: bool) -> CharDfa:
    """Return the automaton of zeros that may follow a number's digits without changing its value."""
    return CharDfa.from_pattern(r"(\.0+)?" if whole else "0*", anchored=True)


@lru_cache(maxsize=1)
def _without_exponents() -> ByteDfa:
    return utf8(CharDfa.from_pattern(r"[-.0-9]*", anchored=True))


def _of_values(values: list[Fraction]) -> ByteDfa:
    found = number_dfa(minimum=values[0], maximum=values[0])
    for value in values[1:]:
        found = byte_union(found, number_dfa(minimum=value, maximum=value))
    return found
