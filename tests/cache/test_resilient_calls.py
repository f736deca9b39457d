"""A deadline for each call, and a breaker over all."""

from __future__ import annotations

import asyncio
import time

import pytest

from sluicegate.cache.entries import Counts
from sluicegate.cache.stores.resilient_calls import ResilientCalls
from tests.waiting import soon


class Service:
    def __init__(self, **named: float) -> None:
        self.counts = Counts()
        self.works = True
        self.stuck: asyncio.Event | None = None
        """Calls under way end when it is set."""
        self.calls = 0
        self.ended = 0
        self.probes = 0
        self.at_once = 0
        self.most_at_once = 0
        self.guarded = ResilientCalls("service", self.probe, self.counts, first_pause_s=0.01, max_pause_s=0.02, **named)  # type: ignore[arg-type]

    async def probe(self) -> None:
        self.probes += 1
        if not self.works:
            raise ConnectionError

    async def work(self) -> str:
        self.calls += 1
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            if self.stuck is not None:
                await self.stuck.wait()
            if not self.works:
                raise ConnectionError("refused")
            self.ended += 1
            return "done"
        finally:
            self.at_once -= 1

    async def ask(self) -> str:
        return await self.guarded.call(self.work, "nothing")


async def test_it_opens_after_three_failures_and_closes_when_a_probe_succeeds() -> None:
    service = Service()
    service.works = False
    assert [await service.ask() for _ in range(6)] == ["nothing"] * 6
    assert service.calls == 3
    assert service.guarded.is_open
    await soon(lambda: service.probes >= 2)  # nobody asked, and still it looks
    service.works = True
    await soon(lambda: not service.guarded.is_open)
    assert await service.ask() == "done"
    assert service.counts.values == {"errors_total": 3, "opened_total": 1, "skipped_total": 3}


async def test_a_success_in_between_keeps_it_closed() -> None:
    service = Service()
    for works in (False, False, True) * 4:
        service.works = works
        await service.ask()
    assert not service.guarded.is_open


async def test_a_slow_call_costs_its_deadline_and_goes_on_alone() -> None:
    service = Service(deadline_s=0.02)
    service.stuck = asyncio.Event()
    assert await service.ask() == "nothing"
    assert service.at_once == 1
    service.stuck.set()
    await soon(lambda: service.at_once == 0)
    assert service.ended == 1


async def test_a_loop_that_was_held_up_is_not_held_against_the_other_side() -> None:
    service = Service(deadline_s=0.02)

    async def hold_up() -> None:
        time.sleep(0.06)  # noqa: ASYNC251 - that is the point

    task = asyncio.create_task(service.ask())
    await asyncio.sleep(0)
    await hold_up()
    assert await task == "done"


async def test_no_more_than_so_many_are_under_way() -> None:
    service = Service(max_in_flight=4, deadline_s=60)
    service.stuck = asyncio.Event()
    asking = asyncio.gather(*(service.ask() for _ in range(40)))
    await soon(lambda: service.at_once == 4)
    service.stuck.set()
    assert set(await asking) == {"done"}
    assert service.most_at_once == 4


async def test_waiting_for_a_turn_is_within_the_deadline() -> None:
    service = Service(max_in_flight=1, deadline_s=0.03)
    service.stuck = asyncio.Event()
    assert set(await asyncio.gather(*(service.ask() for _ in range(10)))) == {"nothing"}
    assert (service.calls, service.at_once) == (1, 1)
    service.stuck.set()


async def test_calls_that_spent_their_time_waiting_for_a_turn_open_nothing() -> None:
    service = Service(max_in_flight=3, deadline_s=2)
    service.stuck = asyncio.Event()
    asking = asyncio.gather(*(service.ask() for _ in range(6)))
    await soon(lambda: service.calls == 3)
    await asyncio.sleep(1.2)
    service.stuck, first = asyncio.Event(), service.stuck
    first.set()
    assert await asking == ["done"] * 3 + ["nothing"] * 3
    assert service.calls == 6
    assert not service.guarded.is_open
    service.stuck.set()


async def test_cancelling_the_caller_leaves_the_call_alone() -> None:
    service = Service(deadline_s=60)
    service.stuck = asyncio.Event()
    task = asyncio.create_task(service.ask())
    await soon(lambda: service.at_once == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    service.stuck.set()
    await soon(lambda: service.at_once == 0)
    assert service.ended == 1
    assert await service.ask() == "done"


async def test_closing_ends_what_is_under_way() -> None:
    service = Service()
    service.stuck = asyncio.Event()
    await service.ask()
    assert service.at_once == 1
    await service.guarded.close()
    assert service.at_once == 0
