"""Whether an object can still meet its demands, beside trying every way to give or leave out each name."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from sluicegate.grammar.json.objects import plan as object_plan
from sluicegate.grammar.json.objects.plan import Ends, ObjectPlan


def drawn(seed: int, *, any_order: bool = False) -> ObjectPlan:
    pick = random.Random(seed)
    count, some = pick.randint(1, 5), pick.randint(1, 3)
    hits = range(1 << some)

    def claims() -> tuple[tuple[int, tuple[()]], ...]:
        return tuple((each, ()) for each in pick.sample(hits, pick.randint(1, min(3, len(hits)))))

    low = pick.choice([0, 0, 1, 2, 3])
    return ObjectPlan(
        names=tuple(f"n{i}" for i in range(count)),
        values=((),) * count,
        required=tuple(pick.random() < 0.3 for _ in range(count)),
        free=(),
        refused=frozenset(),
        low=low,
        high=pick.choice([None, None, low, low + 2]),
        any_order=any_order,
        check=None,
        some=some,
        claims=tuple(claims() for _ in range(count)),
        skips=tuple(pick.choice([0, 0, pick.choice(hits)]) for _ in range(count)),
    )


def every_way(plan: ObjectPlan, at: int, met: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield (demands met, members) of each object that goes on from there."""
    if at == len(plan.names):
        yield met, count
        return
    if not plan.required[at]:
        yield from every_way(plan, at + 1, met | plan.skips[at], count)
    for hits, _ in plan.claims[at]:
        yield from every_way(plan, at + 1, met | hits, count + 1)


def can_end(plan: ObjectPlan, at: int, met: int, count: int) -> bool:
    every = (1 << plan.some) - 1
    high = plan.high if plan.high is not None else len(plan.names) + count
    return any(
        done == every and (not plan.counts or plan.low <= members <= high)
        for done, members in every_way(plan, at, met, count)
    )


@pytest.mark.parametrize("kept", [100_000, 0], ids=["ways of the names to come are kept", "they are too many"])
def test_an_object_may_go_on_where_some_way_to_its_end_meets_all_demands(
    kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_plan, "_MOST_KEPT", kept)
    answers = set()
    for seed in range(150):
        plan = drawn(seed)
        ends = Ends(plan)
        for at in range(len(plan.names) + 1):
            for met in range(1 << plan.some):
                for count in {0, min(at, 1), at}:
                    answer = ends.reachable(at, met, count)
                    assert answer == can_end(plan, at, met, count), (seed, at, met, count)
                    answers.add(answer)
    assert answers == {True, False}


def test_names_given_in_any_order_leave_the_others() -> None:
    """The bit set `at` of names that have come says which are left."""
    for seed in range(60):
        plan = drawn(seed)
        free = Ends(drawn(seed, any_order=True))
        for at in range(len(plan.names) + 1):
            for met in range(1 << plan.some):
                assert free.reachable((1 << at) - 1, met, at) == can_end(plan, at, met, at)
