"""What was leased for a request that still waits for its other leases is kept for it."""

from __future__ import annotations

import itertools
import time

import pytest

from sluicegate.gateway.accounts.limits.lease_script import LeaseQuestion, LeaseReply
from sluicegate.gateway.accounts.limits.leases import SharedMeter, covered
from sluicegate.gateway.accounts.limits.meter import UsageEstimate
from sluicegate.gateway.settings import Limits

LIMITS = Limits(concurrency=1000, requests_per_minute=1000, tokens_per_minute=100_000, budget_day=5, budget_month=9)
NEED = UsageEstimate(tokens=10, nanos=100)


class SlowStore:
    """A `LeaseStore` so slow that the gateway gives back what it does not use before each of its answers."""

    is_alive = True

    def __init__(self) -> None:
        self.meter = SharedMeter("key", "a", LIMITS, self)
        self._numbers = itertools.count(1)

    def next_number(self) -> int:
        return next(self._numbers)

    async def renew_presence(self) -> None: ...

    async def ask(self, limit: str, question: LeaseQuestion) -> LeaseReply:
        if question.want:
            await self.meter.give_back(time.time())
        slot = str(int(time.time()) // 5)
        label = slot if question.mode == "rate" else question.label
        return LeaseReply(question.want, 1000, int(slot), label, 10.0, 0)

    async def close(self) -> None: ...


@pytest.mark.parametrize("callers", [1, 5])
async def test_what_came_for_a_request_is_not_given_back_before_it_runs(callers: int) -> None:
    """Else a store that takes as long as a flush refuses callers of whose limits nothing is used."""
    meter = SlowStore().meter
    for _ in range(callers):
        await covered([meter], NEED)
        meter.check(NEED, time.time())
        meter.take(NEED, time.time())


async def test_what_nobody_waits_for_is_given_back() -> None:
    store = SlowStore()
    await covered([store.meter], NEED)
    await store.meter.give_back(time.time())
    assert set(store.meter.lacking(NEED, time.time())) == {"seats", "requests", "tokens", "day", "month"}
