"""Objects that must differ from others: what may still come in one of which little is left to write."""

from __future__ import annotations

from typing import Any

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.json.container import LayoutSource
from sluicegate.grammar.json.few_values import MOST_VALUES
from sluicegate.grammar.json.novelty import Members
from sluicegate.grammar.json.objects.plan import ObjectPlan
from sluicegate.grammar.json.objects.progress import ObjectProgress
from sluicegate.grammar.vocabulary.punctuation import bit_numbers


def may_lack_values(plan: ObjectPlan, roomy: int, ample: int) -> bool:
    """Return whether an object of `plan` that must be new may come to where little is left to write. `roomy`: bit set
    of the names with many values; `ample`: of those whose values never come to that themselves."""
    if plan.some or plan.check is not None or (plan.free and plan.high is None):
        return False
    if plan.high is not None:
        return True
    if not plan.names:
        return False
    last = 1 << len(plan.names) - 1
    return roomy.bit_count() < 2 if plan.any_order else not ample & last


def left_of(state: ObjectProgress[LayoutSource]) -> int:
    """Return the bit set of the listed names that have not come and still may."""
    plan = state.plan
    left = plan.left(state.at if plan.any_order else (1 << state.at) - 1)
    return left & plan.required_set if _is_full(state) else left


def _is_full(state: ObjectProgress[LayoutSource]) -> bool:
    """Return whether only required members may still come."""
    return state.plan.high is not None and state.count + state.missing() >= state.plan.high


def leaves_much(state: ObjectProgress[LayoutSource]) -> bool:
    """Return whether surely much may still come behind each of the listed names that may come next: then `rests_of` is
    None for all of them, and none has to be looked at."""
    plan = state.plan
    if plan.some or plan.check is not None:
        return True
    if plan.high is not None and state.count + state.missing() + 2 > plan.high:
        return False
    left = left_of(state)
    if not plan.any_order:
        last = state.offered().bit_length()
        left = left >> last << last
    besides = 1 if plan.any_order else 0  # the name itself
    optional = (left & ~plan.required_set).bit_count() - besides
    return optional >= MOST_VALUES.bit_length() or (left & state.values.roomy(plan.values)).bit_count() > besides


def rests_of(state: ObjectProgress[LayoutSource]) -> frozenset[Any] | None:
    """Return the sets of members that may still come in an object; None where that is much, or not known."""
    plan, left = state.plan, left_of(state)
    if plan.some or plan.check is not None or left & state.values.roomy(plan.values):
        return None
    if state.offers_free() and not _is_full(state):
        return None
    found: list[Members] = [frozenset()]
    for index in bit_numbers(left):
        values = state.values.few(plan.values[index])
        assert values is not None
        ways = [(plan.names[index], value.key) for value in values]
        found = [
            members
            for given in found
            for members in (*(() if plan.required[index] else (given,)), *(given | {way} for way in ways))
        ]
        charge(len(found))
        if len(found) > MOST_VALUES:
            return None
    sizes = range(plan.low - state.count, len(plan.names) + 1 if plan.high is None else plan.high - state.count + 1)
    return frozenset(members for members in found if not plan.counts or len(members) in sizes)
