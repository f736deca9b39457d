"""Arrays that must differ from others: what may still come in one of which little is left to write."""

from __future__ import annotations

from typing import Any, Protocol

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.json.arrays.plan import ArrayPlan
from sluicegate.grammar.json.few_values import MOST_VALUES, FewValue
from sluicegate.grammar.schema.containers import Conjunction


class _Values(Protocol):
    def few(self, terms: Conjunction) -> tuple[FewValue, ...] | None: ...


def may_lack_items(plan: ArrayPlan) -> bool:
    """Return whether an array of `plan` that must be new may come to where little is left to write."""
    return plan.high is not None and not (
        plan.unique or plan.contains or plan.check is not None or plan.paired is not None
    )


def rests_of(values: _Values, plan: ArrayPlan, index: int) -> frozenset[Any] | None:
    """Return the tuples of items that may still come behind `index` items; None where that is much, or not known."""
    if not may_lack_items(plan):
        return None
    assert plan.high is not None
    found: list[tuple[Any, ...]] = [()] if index >= plan.low else []
    ways: list[tuple[Any, ...]] = [()]
    for at in range(index, plan.high):
        terms = plan.at(at)
        few = None if terms is None else values.few(terms)
        if few is None:
            return None
        ways = [(*way, value.key) for way in ways for value in few]
        charge(len(ways))
        if len(ways) > MOST_VALUES:
            return None
        found += ways if at + 1 >= plan.low else ()
    return frozenset(found)
