"""Calls of tenants take turns at places, and no place is lost when a call is cancelled."""

from __future__ import annotations

import asyncio
import random

import pytest

from sluicegate.plugins.concurrency.fair_places import FairPlaces


async def test_a_tenant_with_its_share_lets_others_pass() -> None:
    places, order, go = FairPlaces(3, 2), [], asyncio.Event()

    async def call(tenant: str, name: str) -> None:
        async with places.taken(tenant):
            order.append(name)
            await go.wait()

    calls = [asyncio.create_task(call(name[0], name)) for name in ("a1", "a2", "a3", "b1", "b2")]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert order == ["a1", "a2", "b1"]
    go.set()
    await asyncio.gather(*calls)
    assert sorted(order[3:]) == ["a3", "b2"]


@pytest.mark.parametrize("seed", range(20))
async def test_cancelled_and_failed_calls_give_their_places_back(seed: int) -> None:
    """At no time do more run than may; in the end all places are free."""
    chance, places, running = random.Random(seed), FairPlaces(3, 2), []

    async def call(tenant: str) -> None:
        async with places.taken(tenant):
            running.append(tenant)
            assert len(running) <= 3
            assert running.count(tenant) <= 2
            try:
                for _ in range(chance.randint(0, 3)):
                    await asyncio.sleep(0)
                if chance.random() < 0.2:
                    raise OSError("no connection")
            finally:
                running.remove(tenant)

    calls: list[asyncio.Task[None]] = []
    for _ in range(60):
        calls.append(asyncio.create_task(call(chance.choice("abc"))))
        for _ in range(chance.randint(0, 2)):
            await asyncio.sleep(0)
        if chance.random() < 0.4:
            chance.choice(calls).cancel()
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert all(one is None or isinstance(one, OSError | asyncio.CancelledError) for one in found)
    assert {type(one) for one in found} == {type(None), OSError, asyncio.CancelledError}
    assert not running
    for _ in range(2):
        async with places.taken("a"), places.taken("a"), places.taken("b"):
            pass
