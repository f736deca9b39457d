"""Compilations take turns: no tenant waits for what another one sends."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from sluicegate.grammar import GrammarLimit, compile_lane
from sluicegate.grammar.compile_lane import CompileLane
from sluicegate.grammar.compile_pool import LONG_OF_TENANT, WAITING, CompileJob, CompilePool
from sluicegate.plugins import Constraint, FairConstrainer
from sluicegate.plugins.errors import RateLimited
from tests.grammar.test_stage import build
from tests.grammar.test_stage import model as model
from tests.waiting import soon


class Gate:
    """Work that notes who began it, and runs until it is let go, looking at the clock as compilers do."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.open = threading.Event()

    def work(self, name: str, *, looks: bool = False) -> Callable[[CompileJob], str]:
        def act(job: CompileJob) -> str:
            self.began.append(name)
            while not self.open.wait(0.005):
                if looks:
                    job.pause()
            return name

        return act


@pytest.fixture
def gate() -> Any:
    found = Gate()
    yield found
    found.open.set()


async def test_no_tenant_has_all_threads(gate: Gate) -> None:
    turns = CompilePool(2, "test")
    pieces = [turns.add("a", gate.work(f"a{i}")) for i in range(6)]
    await soon(lambda: gate.began == ["a0"])
    pieces += [turns.add("b", gate.work(f"b{i}")) for i in range(2)]
    await soon(lambda: gate.began == ["a0", "b0"])
    gate.open.set()
    assert await asyncio.gather(*map(turns.wait, pieces)) == [*(f"a{i}" for i in range(6)), "b0", "b1"]
    turns.close()


async def test_tenants_take_turns(gate: Gate) -> None:
    """On one thread, so that the order is that of the turns alone."""
    turns = CompilePool(1, "test")
    pieces = [turns.add("a", gate.work(f"a{i}")) for i in range(4)]
    await soon(lambda: gate.began == ["a0"])
    pieces += [turns.add("b", gate.work(f"b{i}")) for i in range(2)]
    gate.open.set()
    await asyncio.gather(*map(turns.wait, pieces))
    assert gate.began in (["a0", "b0", "a1", "b1", "a2", "a3"], ["a0", "a1", "b0", "a2", "b1", "a3"])
    turns.close()


async def test_what_takes_long_gives_its_place_to_the_next_one(gate: Gate) -> None:
    """Two threads, three tenants: the third does not wait for either of the first two to end."""
    turns = CompilePool(2, "test")
    pieces = [turns.add(name, gate.work(name, looks=True)) for name in "abc"]
    waiting = [asyncio.ensure_future(turns.wait(job)) for job in pieces]
    await asyncio.sleep(0)
    await soon(lambda: gate.began == ["a", "b", "c"])
    gate.open.set()
    assert await asyncio.gather(*waiting) == ["a", "b", "c"]
    turns.close()


async def test_a_tenants_own_next_one_does_not_wait_for_what_takes_long(gate: Gate) -> None:
    """One slow grammar held up all others of its tenant, and of a gateway without tenants everybody's."""
    turns = CompilePool(2, "test")
    slow = [turns.add("a", gate.work(f"slow{i}", looks=True)) for i in range(LONG_OF_TENANT)]
    waiting = [asyncio.ensure_future(turns.wait(job)) for job in slow]
    await soon(lambda: len(gate.began) == LONG_OF_TENANT)
    assert await turns.wait(turns.add("a", lambda job: "small")) == "small"
    assert not any(task.done() for task in waiting)
    gate.open.set()
    assert await asyncio.gather(*waiting) == [f"slow{i}" for i in range(LONG_OF_TENANT)]
    turns.close()


async def test_more_long_ones_than_may_go_on_begin_again_and_let_small_ones_pass(gate: Gate) -> None:
    turns = CompilePool(2, "test")
    count = LONG_OF_TENANT + 3
    slow = [turns.add("a", gate.work(f"slow{i}", looks=True)) for i in range(count)]
    waiting = [asyncio.ensure_future(turns.wait(job)) for job in slow]
    await soon(lambda: len(gate.began) == count)
    await soon(lambda: turns.waiting == 3)
    assert await turns.wait(turns.add("a", lambda job: "small")) == "small"
    assert await turns.wait(turns.add("b", lambda job: "another's")) == "another's"
    waiting[-1].cancel()
    await soon(lambda: turns.waiting == 2)
    gate.open.set()
    assert await asyncio.gather(*waiting[:-1]) == [f"slow{i}" for i in range(count - 1)]
    assert sorted(gate.began) == sorted([*(f"slow{i}" for i in range(count)), "slow4", "slow5"])
    turns.close()


async def test_each_of_many_jobs_ends_once_whoever_leaves(gate: Gate) -> None:
    gate.open.set()
    turns, ended = CompilePool(2, "test"), []

    def act(job: CompileJob, number: int) -> int:
        until_s = time.perf_counter() + 0.002 * (number % 40)
        while time.perf_counter() < until_s:
            job.pause()
        ended.append(number)
        return number

    jobs = [turns.add(f"t{i % 3}", partial(act, number=i)) for i in range(120)]
    waiting = [asyncio.ensure_future(turns.wait(job)) for job in jobs]
    await asyncio.sleep(0.01)
    for task in waiting[::7]:
        task.cancel()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    stay = [i for i in range(120) if i % 7]
    assert [found[i] for i in stay] == stay
    assert len(set(ended)) == len(ended)
    await soon(lambda: turns.waiting == 0 and all(job.done.done() for job in jobs))
    assert (turns._queue.running, turns._long.running) == (0, 0)
    turns.close()


def test_long_ones_compute_in_turns_and_go_on_where_a_turn_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_lane, "LONGEST_WAIT_S", 0.05)
    lane = CompileLane(1)
    assert lane.enter("a")
    assert not lane.is_wanted()
    assert not lane.enter("b"), "it waited in vain, and has no turn to leave"
    assert not lane.is_wanted()
    lane.leave("a")
    assert lane.enter("b")
    lane.leave("b")


async def test_what_nobody_waits_for_is_not_begun_and_ends_where_it_was(gate: Gate) -> None:
    turns = CompilePool(1, "test")
    running, queued = turns.add("a", gate.work("running", looks=True)), turns.add("a", gate.work("queued"))
    first, second = (asyncio.ensure_future(turns.wait(job)) for job in (running, queued))
    await asyncio.sleep(0)
    await soon(lambda: gate.began == ["running"])
    for task in (second, first):
        task.cancel()
    await soon(running.done.done)
    assert turns.waiting == 0
    assert await turns.wait(turns.add("a", lambda job: "next")) == "next"
    assert gate.began == ["running"]
    turns.close()


async def test_one_who_leaves_takes_nothing_from_those_who_wait_for_the_same(gate: Gate) -> None:
    turns = CompilePool(1, "test")
    job = turns.add("a", gate.work("x", looks=True))
    first, second = (asyncio.ensure_future(turns.wait(job)) for _ in range(2))
    await asyncio.sleep(0)
    await soon(lambda: gate.began == ["x"])
    first.cancel()
    gate.open.set()
    assert await second == "x"
    turns.close()


async def test_more_than_may_wait_is_refused_for_that_tenant_alone(gate: Gate) -> None:
    turns = CompilePool(1, "test")
    for i in range(WAITING + 1):
        turns.add("a", gate.work(str(i)))
    with pytest.raises(RateLimited, match="wait to be compiled") as caught:
        turns.add("a", gate.work("x"))
    assert caught.value.retry_after_s >= 1
    turns.add("b", gate.work("y"))
    turns.close()


async def test_another_tenants_schema_passes_a_queue_of_large_patterns(model: Any) -> None:
    """In the order in which they end, not by the clock: the small one is not last behind any of the large ones."""
    stage, ended = build({}), []

    async def compiled(tenant: str, name: str, value: Constraint) -> None:
        with contextlib.suppress(GrammarLimit):
            await stage.compile_for(tenant, value, model)
        ended.append(name)

    await stage.warm(model)
    assert isinstance(stage, FairConstrainer)
    large = [
        compiled("a", "large", Constraint("json_schema", {"type": "string", "pattern": f"^(a|b)*a(a|b){{{n}}}$"}))
        for n in (11, 12, 13, 14)
    ]
    tasks = [asyncio.ensure_future(each) for each in large]
    await asyncio.sleep(0)
    await compiled("b", "small", Constraint("json_schema", {"properties": {"a": {"type": "integer"}}}))
    await asyncio.gather(*tasks)
    assert ended.index("small") < 2
    await stage.close()
