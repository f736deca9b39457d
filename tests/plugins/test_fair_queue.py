"""Tenants take turns in a queue, none has all places, and what is withdrawn is not begun."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.plugins.concurrency.fair_queue import FairQueue


def started(queue: FairQueue[str]) -> list[str]:
    found = []
    while (turn := queue.next()) is not None:
        found.append(turn[1])
    return found


def test_each_tenant_has_a_turn_before_another_has_a_second() -> None:
    queue: FairQueue[str] = FairQueue(places=4, share=4)
    for piece in ("a1", "a2", "a3", "b1", "c1"):
        queue.add(piece[0], piece)
    assert started(queue) == ["a1", "b1", "c1", "a2"]
    queue.ended("b")
    assert started(queue) == ["a3"]


def test_a_tenant_with_its_share_lets_others_pass() -> None:
    queue: FairQueue[str] = FairQueue(places=4, share=1)
    for piece in ("a1", "a2", "b1"):
        queue.add(piece[0], piece)
    assert started(queue) == ["a1", "b1"]
    assert (len(queue), queue.running, queue.waiting("a")) == (1, 2, 1)
    queue.ended("a")
    assert (started(queue), queue.running) == (["a2"], 2)


@given(st.lists(st.tuples(st.sampled_from(["add", "next", "end", "withdraw"]), st.sampled_from("abc"))))
def test_what_waits_and_runs_is_counted_whatever_happens(steps: list[tuple[str, str]]) -> None:
    queue: FairQueue[int] = FairQueue(places=2, share=1)
    waiting: dict[str, list[int]] = {name: [] for name in "abc"}
    running: list[str] = []
    for number, (step, tenant) in enumerate(steps):
        if step == "add":
            queue.add(tenant, number)
            waiting[tenant].append(number)
        elif step == "next" and (turn := queue.next()) is not None:
            assert waiting[turn[0]].pop(0) == turn[1]
            running.append(turn[0])
        elif step == "end" and tenant in running:
            queue.ended(tenant)
            running.remove(tenant)
        elif step == "withdraw":
            piece = waiting[tenant].pop() if waiting[tenant] else -1
            assert queue.withdraw(tenant, piece) == (piece >= 0)
        assert sorted(queue) == sorted(piece for line in waiting.values() for piece in line)
        assert queue.running == len(running) <= 2
        assert {name: queue.waiting(name) for name in "abc"} == {name: len(found) for name, found in waiting.items()}
