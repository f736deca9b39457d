"""Large work waits its tenant's turn for a thread; small work runs at once."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable

import pytest

from sluicegate.gateway.settings import WorkSettings
from sluicegate.gateway.workers import SWITCH_S, Workers
from sluicegate.plugins import Overloaded, RateLimited

BIG = 1_000_000


class Gates:
    """Functions that note who runs, and where, and hold their thread until they are let go."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.threads: set[int] = set()
        self.gate = threading.Event()

    def call(self, name: str) -> Callable[[], str]:
        def held() -> str:
            self.began.append(name)
            self.threads.add(threading.get_ident())
            assert self.gate.wait(60)
            return name

        return held


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110  what is waited for happens in threads
            await asyncio.sleep(0.002)


def test_small_work_runs_where_it_is_asked_for() -> None:
    async def scenario() -> None:
        work = Workers()
        assert await work.run("a", 10, threading.get_ident) == threading.get_ident()
        assert await work.run("a", BIG, threading.get_ident) != threading.get_ident()
        assert await work.run("a", BIG, threading.get_ident, inline_bytes=BIG) == threading.get_ident()
        assert work.stats()["work_done_total"] == 1
        work.close()

    asyncio.run(scenario())


def test_an_error_reaches_who_asked_and_frees_the_thread() -> None:
    async def scenario() -> None:
        work = Workers(WorkSettings(threads=1, per_tenant=1))
        for nbytes in (1, BIG):
            with pytest.raises(ValueError, match="invalid literal"):
                await work.run("a", nbytes, int, "x")
        assert await work.run("a", BIG, int, "7") == 7
        assert work.stats()["work_bytes"] == 0
        work.close()

    asyncio.run(scenario())


def test_tenants_take_turns_and_none_has_all_threads() -> None:
    """Ten pieces of one tenant, then one of another: it runs at once beside the first, not behind ten."""

    async def scenario() -> None:
        gates, work = Gates(), Workers(WorkSettings(threads=2, per_tenant=1))
        many = [asyncio.ensure_future(work.run("many", BIG, gates.call(f"many {i}"))) for i in range(10)]
        await until(lambda: gates.began == ["many 0"])
        few = asyncio.ensure_future(work.run("few", BIG, gates.call("few")))
        await until(lambda: "few" in gates.began)
        assert gates.began == ["many 0", "few"]
        gates.gate.set()
        assert await few == "few"
        assert await asyncio.gather(*many) == [f"many {i}" for i in range(10)]
        work.close()

    asyncio.run(scenario())


def test_with_one_thread_the_next_turn_is_the_other_tenants() -> None:
    async def scenario() -> None:
        gates, work = Gates(), Workers(WorkSettings(threads=1, per_tenant=1))
        tasks = [asyncio.ensure_future(work.run(who, BIG, gates.call(who))) for who in ("a", "a", "a", "b", "c")]
        await until(lambda: len(gates.began) == 1)
        gates.gate.set()
        await asyncio.gather(*tasks)
        assert gates.began == ["a", "a", "b", "c", "a"]
        assert len(gates.threads) == 1
        work.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("bound", [{"tenant_waiting": 2}, {"tenant_bytes": 3 * BIG}])
def test_too_much_of_one_tenant_is_refused_and_others_are_served(bound: dict[str, int]) -> None:
    async def scenario() -> None:
        gates, work = Gates(), Workers(WorkSettings(threads=2, per_tenant=1, **bound))
        held = [asyncio.ensure_future(work.run("a", BIG, gates.call("a"))) for _ in range(3)]
        await until(lambda: gates.began == ["a"])
        with pytest.raises(RateLimited) as refused:
            await work.run("a", BIG, gates.call("a"))
        assert refused.value.retry_after_s >= 1
        other = asyncio.ensure_future(work.run("b", BIG, gates.call("b")))
        await until(lambda: "b" in gates.began)
        gates.gate.set()
        await asyncio.gather(other, *held)
        assert work.stats()["work_refused_total"] == 1
        work.close()

    asyncio.run(scenario())


def test_too_much_of_all_tenants_is_a_503() -> None:
    async def scenario() -> None:
        gates, work = Gates(), Workers(WorkSettings(threads=2, per_tenant=1, all_bytes=2 * BIG))
        held = [asyncio.ensure_future(work.run(who, BIG, gates.call(who))) for who in "ab"]
        await until(lambda: len(gates.began) == 2)
        with pytest.raises(Overloaded):
            await work.run("c", BIG, gates.call("c"))
        gates.gate.set()
        await asyncio.gather(*held)
        assert await work.run("c", BIG, int, "1") == 1
        work.close()

    asyncio.run(scenario())


def test_work_whose_caller_left_while_it_waited_never_runs() -> None:
    async def scenario() -> None:
        gates, work = Gates(), Workers(WorkSettings(threads=1, per_tenant=1))
        first, left, third = (asyncio.ensure_future(work.run("a", BIG, gates.call(name))) for name in "123")
        await until(lambda: gates.began == ["1"])
        left.cancel()
        await asyncio.wait((left,))
        assert left.cancelled()
        gates.gate.set()
        await asyncio.gather(first, third)
        assert gates.began == ["1", "3"]
        work.close()

    asyncio.run(scenario())


def test_work_whose_caller_left_while_it_ran_keeps_its_thread_counted() -> None:
    """Else a client that hangs up at once could have more threads than its share."""

    async def scenario() -> None:
        gates, work = Gates(), Workers(WorkSettings(threads=2, per_tenant=1))
        left = asyncio.ensure_future(work.run("a", BIG, gates.call("left")))
        await until(lambda: gates.began == ["left"])
        left.cancel()
        await asyncio.wait((left,))
        after = asyncio.ensure_future(work.run("a", BIG, gates.call("after")))
        await asyncio.sleep(0.05)
        assert gates.began == ["left"]
        gates.gate.set()
        assert await after == "after"
        assert work.stats()["work_running"] == work.stats()["work_bytes"] == 0
        work.close()

    asyncio.run(scenario())


def test_threads_give_way_soon_while_any_work_is_busy() -> None:
    """Two of them at a time, and the one that began first ends first."""

    async def scenario() -> None:
        usual_s, gates, later = sys.getswitchinterval(), Gates(), Gates()
        first, second = Workers(), Workers()
        one = asyncio.ensure_future(first.run("a", BIG, gates.call("one")))
        other = asyncio.ensure_future(second.run("a", BIG, later.call("other")))
        await until(lambda: bool(gates.began and later.began))
        assert sys.getswitchinterval() == pytest.approx(SWITCH_S, rel=0.01)
        gates.gate.set()
        await one
        assert sys.getswitchinterval() == pytest.approx(SWITCH_S, rel=0.01)
        later.gate.set()
        await other
        assert sys.getswitchinterval() == pytest.approx(usual_s)
        first.close()
        second.close()

    asyncio.run(scenario())
