"""List the values of a set that has few, arrays of a known length and objects with known names among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.schema import strings
from sluicegate.grammar.schema.constants import canonical
from sluicegate.grammar.schema.containers import NEVER, Array, Conjunction, Object
from sluicegate.grammar.schema.value_set import ValueSet, few_scalars

MOST_VALUES = 64
ValueSetOf = Callable[[Conjunction], ValueSet]
_DEEPEST = 4


class _Many(Exception):
    pass


def few_values(value_set_of: ValueSetOf, terms: Conjunction) -> frozenset[Any] | None:
    """Return all values that satisfy `terms`, see `canonical`, or more than those; None where they are many."""
    try:
        return frozenset(_values(value_set_of, terms, 0))
    except _Many:
        return None


def _values(value_set_of: ValueSetOf, terms: Conjunction, depth: int) -> set[Any]:
    tick()
    value_set = value_set_of(terms)
    scalars = few_scalars(replace(value_set, arrays=(), objects=()))
    if scalars is None or depth > _DEEPEST:
        raise _Many
    words, numbers = scalars
    found: set[Any] = {*words, *numbers, *map(canonical, value_set.booleans)}
    found |= {canonical(None)} if value_set.null else set()
    for array in value_set.arrays:
        found |= _bounded(_arrays(value_set_of, array, depth))
    for members in value_set.objects:
        found |= _bounded(_objects(value_set_of, members, depth))
    return _bounded(found)


def _bounded(found: set[Any]) -> set[Any]:
    if len(found) > MOST_VALUES:
        raise _Many
    return found


def _arrays(value_set_of: ValueSetOf, spec: Array, depth: int) -> set[Any]:
    high = spec.high
    if high is None and spec.unique:
        high = spec.prefix_size + len(_values(value_set_of, spec.at(spec.prefix_size), depth + 1))
    if high is None or high > MOST_VALUES:
        raise _Many
    items = [_values(value_set_of, spec.at(index), depth + 1) for index in range(high)]
    found: set[Any] = set()
    for size in range(spec.low, high + 1):
        values = _products(items[:size], "list")
        found = _bounded(found | {value for value in values if not spec.unique or len(set(value[1:])) == size})
        if size and not items[size - 1]:
            break
    return found


def _objects(value_set_of: ValueSetOf, spec: Object, depth: int) -> set[Any]:
    """List the objects whose names are all required. Raises `_Many` where there may be others."""
    named: dict[str, Conjunction] = {}
    for part in spec.parts:
        for name, terms in part.named:
            named[name] = (*named.get(name, ()), *terms)
    closed = any(part.rest == NEVER and not part.patterns and set(part.by_name) == set(named) for part in spec.parts)
    if not closed or set(spec.required) != set(named) or spec.names != strings.EVERY:
        raise _Many
    names = sorted(named)
    found = _products([_values(value_set_of, named[name], depth + 1) for name in names], "list")
    return {("dict", frozenset(zip(names, values[1:], strict=True))) for values in found}


def _products(parts: list[set[Any]], mark: str) -> set[Any]:
    count = 1
    for part in parts:
        count *= len(part)
        if count > MOST_VALUES:
            raise _Many
    return {(mark, *values) for values in product(*parts)}
