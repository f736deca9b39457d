"""The health of rails: which run, and which are out of the way because they keep failing."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from sluicegate.gateway.rails.policy import RailSlot
from sluicegate.gateway.workers import Workers
from sluicegate.plugins import Caller, Message, OutputRail, Request, StageFailed
from sluicegate.plugins.circuit_breaker import CircuitBreaker
from sluicegate.safety import RailPolicy

log = logging.getLogger("sluicegate.rails")
MAX_PAUSE_S = 300.0


class RailHealth:
    """The breakers of all rails, by slot and name, and how many requests run on these rails; shared by all."""

    def __init__(self) -> None:
        self._breakers: defaultdict[tuple[str, str], CircuitBreaker] = defaultdict(lambda: CircuitBreaker(MAX_PAUSE_S))
        self._requests = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.workers = Workers()
        """Threads for rails that run a model: they are slow, and nothing else waits for them."""

    def entered(self) -> None:
        self._requests += 1
        self._idle.clear()

    def left(self) -> None:
        self._requests -= 1
        if not self._requests:
            self._idle.set()

    async def idle(self) -> None:
        """Returns once no request runs on these rails."""
        await self._idle.wait()

    def runs(self, slot: RailSlot, rail: str, rail_policy: RailPolicy) -> bool:
        """Whether the rail is to be called now. False: it is out of the way, and may be. Raises `StageFailed` where a
        rail that must not be passed over has been failing; nobody waits for it then."""
        breaker = self._breakers[slot, rail]
        if breaker.admits(rail_policy):
            return True
        if rail_policy.may_fail:
            return False
        wait_s = max(1.0, breaker.wait_s)
        raise StageFailed(slot, rail, f"it failed again and again; it is tried again in {wait_s:.0f} s", wait_s)

    async def failed_at_work(
        self, slot: RailSlot, rail: str, rail_policy: RailPolicy, sound: Callable[[], Coroutine[Any, Any, bool]]
    ) -> None:
        """It failed on some caller's text. Before it is left alone, `sound` says whether it fails on any."""
        breaker = self._breakers[slot, rail]
        if breaker.would_open(rail_policy) and await sound():
            breaker.excused()
            return
        self.failed(slot, rail, rail_policy)

    def failed_writing(self, name: str, rail: OutputRail, rail_policy: RailPolicy) -> None:
        """The same for an output rail."""
        breaker = self._breakers["moderate", name]
        if breaker.would_open(rail_policy) and reads(rail):
            breaker.excused()
            return
        self.failed("moderate", name, rail_policy)

    def failed(self, slot: RailSlot, rail: str, rail_policy: RailPolicy) -> None:
        """It failed, whatever the text."""
        if self._breakers[slot, rail].failed(rail_policy):
            log.error("rail %s of slot %s failed %d times in a row", rail, slot, rail_policy.failures_to_open)

    def succeeded(self, slot: RailSlot, rail: str) -> None:
        self._breakers[slot, rail].succeeded()

    def stats(self) -> Mapping[str, float]:
        """Rails that are out of the way, and failures of rails so far."""
        found = self._breakers.values()
        return {
            "rails_open": float(sum(breaker.is_open for breaker in found)),
            "rail_failures_total": float(sum(breaker.failures for breaker in found)),
        }


def reads(rail: OutputRail) -> bool:
    """Whether the rail gets through a short harmless text that nobody sent."""
    try:
        session = rail.open(Request("probe", "probe", (Message("user", "Hello"),)), Caller(tenant="probe"), "content")
        session.feed(f"Hello {secrets.token_hex(4)}")
        session.close()
    except Exception:
        return False
    return True
