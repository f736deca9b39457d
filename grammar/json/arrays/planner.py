"""Plan arrays from conjunctions of facts: the terms of their items, and their number."""

from __future__ import annotations

from collections.abc import Callable

from sluicegate.grammar.json.arrays.listed import Choices, listed
from sluicegate.grammar.json.arrays.plan import ArrayPlan, Counting
from sluicegate.grammar.json.arrays.unique_items import few_containers
from sluicegate.grammar.json.few_values import ObjectPlans
from sluicegate.grammar.json.plan_source import PlanSource
from sluicegate.grammar.lexemes.scalars import spellings
from sluicegate.grammar.reading.guards import HasDuplicates, all_of
from sluicegate.grammar.schema import strings
from sluicegate.grammar.schema.containers import Array, Conjunction, Contains, conjunction
from sluicegate.grammar.schema.numbers import supply
from sluicegate.grammar.schema.value_set import few_scalars

ALWAYS = 1 << 30
_FEW_MEMBERS = 64


def plan_of(plans: ObjectPlans, spec: Array) -> ArrayPlan | None:
    """Return the plan of the arrays that satisfy `spec`; None if there are none."""
    prefix, rest, high = _items(plans, spec)
    least = max(spec.low, 2 if spec.repeats else 1 if plans.refuses([], spec.checks) else 0)
    low = max([least, *(wanted.start + wanted.low for wanted in spec.contains if wanted.low)])
    if (high is not None and low > high) or any(wanted.low > _most(wanted) for wanted in spec.contains):
        return None
    paired = _last_pair(prefix, rest, high, plans.satisfiable) if spec.repeats and not spec.contains else None
    if spec.repeats and not spec.contains and paired is None:
        return None
    members = _members(plans, spec, rest) if spec.unique and not prefix and rest is not None else None
    if members is not None:
        high = len(members) if high is None else min(high, len(members))
        if low > high:
            return None
    few = listed(plans, prefix, rest, spec.contains) if spec.unique and members is None else None
    if spec.unique and rest is not None and _too_few(plans, rest, low - len(prefix)):
        return None
    items = [*prefix, *([] if rest is None else [rest])]
    by_text = spec.unique and members is None and few is None
    fixed = by_text and not all(_can_grow(plans, terms) for terms in items)
    few_kinds = by_text and any(_has_few(plans, terms) for terms in items)
    plan = ArrayPlan(
        prefix,
        rest,
        least,
        high,
        spec.unique,
        spec.contains,
        all_of(plans.check(spec.checks), HasDuplicates() if spec.repeats and spec.contains else None),
        members,
        tight=fixed or few_kinds or (by_text and any(_is_tight(plans, terms) for terms in items)),
        fixed=fixed,
        few_containers=few_kinds,
        listed=few,
        paired=paired,
    )
    if plan.listed is not None:
        return plan if Choices(plan).can_end(0, (0,) * len(plan.contains), 0) else None
    if plan.contains and not Counting(plan, plans.satisfiable).can_end(0, (0,) * len(plan.contains)):
        return None
    return plan


def exclusions(plans: PlanSource, terms: Conjunction) -> ArrayPlan | None:
    """Return the plan of an array of unique values of `terms` where a given one may have to be excluded; else None."""
    fixed = not _can_grow(plans, terms)
    if not (fixed or _is_tight(plans, terms)):
        return None
    return ArrayPlan((), terms, 0, None, True, (), None, tight=True, fixed=fixed)


def _most(wanted: Contains) -> int:
    return wanted.low if wanted.high is None else wanted.high


def _items(plans: PlanSource, spec: Array) -> tuple[tuple[Conjunction, ...], Conjunction | None, int | None]:
    """Return the terms of the first items, the terms of all others (None: no others are possible), and the most
    items."""
    prefix: list[Conjunction] = []
    high = spec.high
    for i in range(spec.prefix_size):
        if (high is not None and i >= high) or not plans.satisfiable(spec.at(i)):
            high = i
            break
        prefix.append(spec.at(i))
    rest = spec.at(spec.prefix_size)
    if (high is not None and high <= len(prefix)) or not plans.satisfiable(rest):
        return tuple(prefix), None, len(prefix) if high is None else min(high, len(prefix))
    return tuple(prefix), rest, high


def _last_pair(
    prefix: tuple[Conjunction, ...],
    rest: Conjunction | None,
    high: int | None,
    satisfiable: Callable[[Conjunction], bool],
) -> int | None:
    """Return the last index of an item that a later one may repeat; None if there is none, `ALWAYS` if there is no last
    one."""
    if rest is not None and (high is None or high - len(prefix) >= 2):
        return ALWAYS if high is None else high - 2
    items = [*prefix[:high], *([rest] if rest is not None and (high is None or high > len(prefix)) else [])]
    for index in range(len(items) - 2, -1, -1):
        if any(satisfiable(conjunction((*items[index], *other))) for other in items[index + 1 :]):
            return index
    return None


def _too_few(plans: PlanSource, terms: Conjunction, wanted: int) -> bool:
    """Return whether `terms` allow scalars only, and fewer than `wanted` of them."""
    if wanted <= _FEW_MEMBERS:
        return False
    value_set = plans.value_set(terms)
    if value_set.objects or value_set.arrays:
        return False
    words, count = strings.finite_words(value_set.strings), supply(value_set.numbers)
    texts = strings.supply(value_set.strings, frozenset(), wanted) if words is None else len(words)
    return texts is not None and count is not None and texts + count + value_set.null + len(value_set.booleans) < wanted


def _is_tight(plans: PlanSource, terms: Conjunction) -> bool:
    """Return whether an item that begins like an earlier number or word may be unable to become another one (`0e5`
    after 0, for instance)."""
    value_set = plans.value_set(terms)
    return value_set.null or bool(value_set.booleans) or bool(value_set.numbers)


def _has_few(plans: ObjectPlans, terms: Conjunction) -> bool:
    """Return whether `terms` have objects or arrays, and few of them, beside others."""
    value_set = plans.value_set(terms)
    return bool(value_set.objects and few_containers(plans, terms, "object")) or bool(
        value_set.arrays and few_containers(plans, terms, "array")
    )


def _can_grow(plans: PlanSource, terms: Conjunction) -> bool:
    return all(map(strings.can_grow, plans.value_set(terms).strings))


def _members(plans: PlanSource, spec: Array, rest: Conjunction) -> tuple[tuple[bool, str], ...] | None:
    """Return all values of an item if they are few scalars, else None."""
    value_set = plans.value_set(rest)
    few = None if spec.contains else few_scalars(value_set)
    if few is None or len(few[0]) + len(few[1]) > _FEW_MEMBERS:
        return None
    words, values = few
    members = [(True, word) for word in sorted(words)]
    members += [(False, "|".join(text.decode() for text in spellings(value))) for value in sorted(values)]
    members += [(False, "true" if value else "false") for value in sorted(value_set.booleans)]
    return tuple(members + ([(False, "null")] if value_set.null else []))
