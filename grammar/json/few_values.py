"""List the values of a conjunction that has few, objects and arrays among them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

from sluicegate.grammar.budget.meter import charge, tick
from sluicegate.grammar.budget.remembered import remembered
from sluicegate.grammar.json.objects.plan import ObjectPlan
from sluicegate.grammar.json.plan_source import PlanSource
from sluicegate.grammar.schema.constants import canonical, json_text
from sluicegate.grammar.schema.containers import Array, Conjunction, Constant, Object, conjunction
from sluicegate.grammar.schema.numbers import plain_text
from sluicegate.grammar.schema.value_set import few_scalars

MOST_VALUES = 64
"""Most values that few rules allow."""
_MOST_ALTERNATIVES = 512
"""Most objects and arrays of which each is an alternative of its own, as in an `enum`: each is a reading anyway."""
_DEEPEST = 4
_OF_VALUE = 3
"""Charged for a value that is listed."""


class ObjectPlans(PlanSource, Protocol):
    def object_plan(self, spec: Object) -> ObjectPlan | None:
        """Return the plan of the objects that satisfy `spec`, or None where there are none."""

    def few(self, terms: Conjunction) -> tuple[FewValue, ...] | None:
        """Return all values of `terms`; None where they are many."""


class FewValue(NamedTuple):
    """A value as JSON text. `other`: the same value with members in another order, where they may come in any."""

    text: str
    other: str

    @property
    def key(self) -> Any:
        """Return what is equal for equal values only."""
        return _key(self.text)

    @property
    def value(self) -> Any:
        return json.loads(self.text, parse_float=Decimal)

    @property
    def terms(self) -> Conjunction:
        """Return the terms that this value alone satisfies. Constants in two orders, put together, have none."""
        return conjunction((Constant(self.text), Constant(self.other)))


@remembered(4_000)
def _key(text: str) -> Any:
    return canonical(json.loads(text, parse_float=Decimal))


class _Many(Exception):
    pass


_Found = dict[Any, FewValue]


def few_values(plans: ObjectPlans, terms: Conjunction) -> tuple[FewValue, ...] | None:
    """Return all values that satisfy `terms`, as far as conjunctions and checks tell, or more than those; None where
    they are many."""
    try:
        return tuple(_Lister(plans).values(terms, 0).values())
    except _Many:
        return None


class _Lister:
    def __init__(self, plans: ObjectPlans) -> None:
        self.plans = plans

    def values(self, terms: Conjunction, depth: int) -> _Found:
        """Return the values by their keys. Raises `_Many`."""
        tick()
        value_set = self.plans.value_set(terms)
        scalars = few_scalars(replace(value_set, arrays=(), objects=()))
        if scalars is None or depth > _DEEPEST or len(scalars[0]) + len(scalars[1]) > MOST_VALUES:
            raise _Many
        words, numbers = scalars
        plain = [*map(json_text, sorted(words)), *map(plain_text, sorted(numbers))]
        plain += map(json_text, [*sorted(value_set.booleans), *([None] if value_set.null else [])])
        most = max(MOST_VALUES, min(len(value_set.arrays) + len(value_set.objects), _MOST_ALTERNATIVES) + len(plain))
        found: _Found = {}
        _add(found, most, (FewValue(text, text) for text in plain))
        for array in value_set.arrays:
            unsure = bool(array.contains or array.repeats or array.checks)
            _add(found, most, self._passing(terms, self._arrays(array, depth), unsure))
        for spec in value_set.objects:
            plan = self.plans.object_plan(spec)
            if plan is not None:
                _add(found, most, self._passing(terms, self._objects(plan, depth), bool(plan.some or plan.check)))
        return found

    def _passing(self, terms: Conjunction, values: Iterator[FewValue], unsure: bool) -> Iterator[FewValue]:
        facts = frozenset(terms)
        return (each for each in values if not (unsure and self.plans.refuses(each.value, facts)))

    def _arrays(self, spec: Array, depth: int) -> Iterator[FewValue]:
        high = spec.high
        if high is None and spec.unique:
            high = spec.prefix_size + len(self.values(spec.at(spec.prefix_size), depth + 1))
        if high is None or high > MOST_VALUES:
            raise _Many
        items = [list(self.values(spec.at(index), depth + 1).items()) for index in range(high)]
        pending: list[tuple[list[Any], list[FewValue]]] = [([], [])]
        for size in range(high + 1):
            if size >= spec.low:
                for _, parts in pending:
                    texts = [part.text for part in parts], [part.other for part in parts]
                    yield FewValue(*(f"[{','.join(each)}]" for each in texts))
            if size < high:
                pending = _bounded(
                    ([*keys, key], [*parts, part])
                    for keys, parts in pending
                    for key, part in items[size]
                    if not (spec.unique and key in keys)
                )

    def _objects(self, plan: ObjectPlan, depth: int) -> Iterator[FewValue]:
        needed = sum(plan.required)
        if plan.free and (plan.high is None or plan.high > needed):
            raise _Many
        pending: list[list[tuple[str, FewValue]]] = [[]]
        for index, name in enumerate(plan.names):
            if plan.high is not None and plan.high <= needed and not plan.required[index]:
                continue
            parts = self.values(plan.values[index], depth + 1).values()
            pending = _bounded(
                members
                for given in pending
                for members in (
                    [*([] if plan.required[index] else [given]), *([*given, (name, part)] for part in parts)]
                )
                if plan.high is None or len(members) <= plan.high
            )
        turned = plan.any_order and self.plans.options.property_order == "schema"
        for members in pending:
            if len(members) >= plan.low:
                texts = [f"{json_text(name)}:{part.text}" for name, part in members]
                others = [f"{json_text(name)}:{part.other}" for name, part in members]
                yield FewValue(f"{{{','.join(texts)}}}", f"{{{','.join(others[::-1] if turned else others)}}}")


def _bounded(parts: Iterable[list[Any] | tuple[Any, ...]]) -> list[Any]:
    found = []
    for part in parts:
        charge(_OF_VALUE)
        found.append(part)
        if len(found) > MOST_VALUES:
            raise _Many
    return found


def _add(found: _Found, most: int, values: Iterable[FewValue]) -> None:
    for each in values:
        charge(_OF_VALUE)
        known = found.setdefault(each.key, each)
        if known.text != each.text:  # another alternative has it in another order
            found[each.key] = known._replace(other=each.text)
        if len(found) > most:
            raise _Many
