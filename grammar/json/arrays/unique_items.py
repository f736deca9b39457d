"""Decide which items of an array of unique items must be excluded from later items, so that no text gets stuck.

Whether an item differs from the earlier ones is checked at its end (`guards.DistinctItem`). An item that begins like an
earlier one may get stuck if it can only become the same again. If it can still become a million others, it needs no
exclusion, and so no automaton of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

from sluicegate.grammar.given.texts import GivenTexts
from sluicegate.grammar.json.arrays.plan import ArrayPlan
from sluicegate.grammar.json.few_values import FewValue, ObjectPlans
from sluicegate.grammar.lexemes.digits import NumberDigits
from sluicegate.grammar.lexemes.scalars import new_numbers
from sluicegate.grammar.schema import strings
from sluicegate.grammar.schema.constants import canonical, json_text
from sluicegate.grammar.schema.containers import Conjunction, Constant, Fact, NoneOf, SchemaRef, conjunction, negated
from sluicegate.grammar.schema.document import SchemaDocument
from sluicegate.grammar.schema.numbers import Numbers, plain_text

_KINDS: tuple[Literal["object", "array"], ...] = ("object", "array")
_NUMBERS = 16
"""Integers up to which each is excluded, at .2 ms each for every item. Beyond, integers are restricted to plain digits
without `.0`: such a number can always get more digits, and needs no exclusion."""
_LONG = 40
"""Characters above which a number is always excluded, since the digits that may follow are bounded. So is 0, since
`0e5` and `-0.0` are 0."""


class UniqueItems:
    """Computes exclusions for the array plans of one compiled grammar."""

    def __init__(self, plans: ObjectPlans, digits: NumberDigits) -> None:
        self._plans = plans
        self._digits = digits
        self._numbers: dict[ArrayPlan, tuple[Numbers, ...]] = {}
        self._none = GivenTexts()

    def without(self, plan: ArrayPlan, facts: frozenset[Fact], item: Any) -> frozenset[Fact]:
        """Return the additional terms of later items of a tight `plan` after `item`. `facts`: those before `item`."""
        if isinstance(item, list | dict):
            return facts | {negated(Constant(text)) for text in self._container(plan, item)}
        if not self._to_exclude(plan, item):
            return facts
        before = given_among(facts) or NoneOf(self._none, self._none)
        if isinstance(item, str):
            return facts - {before} | {before._replace(texts=before.texts.plus(item))}
        if not _is_number(item):
            return facts | {negated(Constant(json_text(item)))}
        numbers = before.numbers.plus(plain_text(Fraction(item)))
        others = facts - {before}
        if self._are_whole(plan):
            fixed = [text for text in reversed(numbers.all()) if not _goes_on(text)]
            if numbers.size - len(fixed) > _NUMBERS or _digits_alone() in facts:
                others |= {_digits_alone()}
                numbers = self._none
                for text in fixed:
                    numbers = numbers.plus(text)
        return others | {before._replace(numbers=numbers)}

    def _container(self, plan: ArrayPlan, item: list[Any] | dict[str, Any]) -> Iterable[str]:
        """Yield the text of `item` where it is one of few objects or arrays."""
        kind: Literal["object", "array"] = "object" if isinstance(item, dict) else "array"
        key = canonical(item)
        for terms in _terms(plan):
            values = few_containers(self._plans, terms, kind) or ()
            found = next((value.text for value in values if value.key == key), None)
            if found is not None:
                yield found
                return

    def terms(self, terms: Conjunction, facts: frozenset[Fact]) -> Conjunction:
        """Return `terms` with `facts`. An object or array that was given is excluded with all others of its kind, once
        each of them was: the guard of an item asks for each."""
        given = {fact.json for fact in facts if isinstance(fact, Constant) and fact.json[:1] in ("{", "[")}
        if not given:
            return with_facts(terms, facts)
        others = {fact for fact in facts if not (isinstance(fact, Constant) and fact.json in given)}
        for kind in _KINDS:
            values = few_containers(self._plans, terms, kind)
            if values and given.issuperset([value.text for value in values]):
                others.add(negated(of_type(kind)))
        return with_facts(terms, others)

    def prepare(self, items: Iterable[Conjunction]) -> None:
        """Build the automata that a tight plan needs once numbers are given, so that no mask waits for them. `items`:
        terms of the items."""
        for terms in items:
            new_numbers(self._plans.value_set(terms).numbers, self._digits)

    def _to_exclude(self, plan: ArrayPlan, item: Any) -> bool:
        if plan.contains:
            return not isinstance(item, str) or plan.fixed
        if isinstance(item, str):
            return plan.fixed and not self._has_room(plan, item)
        if not _is_number(item) or not item or len(str(item)) > _LONG:
            return True
        return any(part != Numbers() for part in self._number_parts(plan))

    def _has_room(self, plan: ArrayPlan, text: str) -> bool:
        """Return whether a string that begins with `text` can become a million others, at every index that allows
        `text`."""
        sets = [self._plans.value_set(terms).strings for terms in _terms(plan)]
        return all(strings.has_room(part, text) for parts in sets for part in parts if part.has(text))

    def _are_whole(self, plan: ArrayPlan) -> bool:
        """Return whether numbers are integers that can always get another digit, so that plain digits need no
        exclusion."""
        most = self._plans.options.integer_digits
        parts = self._number_parts(plan)
        return not plan.contains and not 0 < most < 2 * _LONG and all(map(_is_open, parts))

    def _number_parts(self, plan: ArrayPlan) -> tuple[Numbers, ...]:
        """Return the sets of numbers at all indexes."""
        known = self._numbers.get(plan)
        if known is None:
            sets = [self._plans.value_set(terms).numbers for terms in _terms(plan)]
            known = self._numbers[plan] = tuple(dict.fromkeys(part for parts in sets for part in parts))
        return known


def _terms(plan: ArrayPlan) -> list[Conjunction]:
    return [*plan.prefix, *(() if plan.rest is None else (plan.rest,))]


def _is_number(item: Any) -> bool:
    return isinstance(item, int | Decimal) and not isinstance(item, bool)


def _is_open(part: Numbers) -> bool:
    upwards = part.low is None or part.low[0] >= 0
    return upwards and replace(part, low=None, minus=frozenset(), plain=False) == Numbers(step=Fraction(1))


def _goes_on(text: str) -> bool:
    """Return whether more digits may follow the integer `text`; after 0 none can."""
    return len(text) <= _LONG and text != "0"


def with_facts(terms: Conjunction, facts: Iterable[Fact]) -> Conjunction:
    """Return `terms` with `facts`, of which the one that excludes texts and numbers comes last."""
    facts = sorted(facts, key=lambda fact: (isinstance(fact, NoneOf), repr(fact)))
    return conjunction((*terms, *facts))


def given_among(facts: Iterable[Fact]) -> NoneOf | None:
    return next((fact for fact in facts if isinstance(fact, NoneOf)), None)


def few_containers(
    plans: ObjectPlans, terms: Conjunction, kind: Literal["object", "array"]
) -> tuple[FewValue, ...] | None:
    """Return the objects or arrays that satisfy `terms`; None where they are many."""
    return plans.few(conjunction((*terms, of_type(kind))))


@lru_cache(maxsize=2)
def of_type(kind: str) -> Fact:
    """Return the fact that a value is an object or an array."""
    return SchemaRef(SchemaDocument({"type": kind}).root)


@lru_cache(maxsize=1)
def _digits_alone() -> Fact:
    """Return the fact that a number is spelled without fraction and exponent, like the integers of draft 4."""
    types = ["null", "boolean", "integer", "string", "array", "object"]
    return SchemaRef(SchemaDocument({"$schema": "http://json-schema.org/draft-04/schema#", "type": types}).root)
