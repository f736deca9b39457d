"""Circuit breakers of rails: those that keep failing are left out for a while."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from sluicegate.gateway.rails.policy import RailSlot
from sluicegate.gateway.rails.stage_calls import contained
from sluicegate.gateway.rails.states import reads_states
from sluicegate.gateway.workers import Workers
from sluicegate.plugins import (
    Caller,
    JudgingRail,
    JudgingTerms,
    Message,
    OutputRail,
    Request,
    StageFailed,
    Trouble,
    offers,
)
from sluicegate.plugins.circuit_breaker import CircuitBreaker
from sluicegate.safety import RAIL_FAILURES, RailPolicy

log = logging.getLogger("sluicegate.rails")
MAX_PAUSE_S = 300.0
PROBE_S = 5.0


class RailHealth:
    """The breakers of all rails, and a count of the requests that run on these rails.

    A rail has a breaker for each time limit that policies give it: one that is never in time for the requests of one
    policy may well be for those of another.
    """

    def __init__(self) -> None:
        self._breakers: defaultdict[tuple[str, str, float | None], CircuitBreaker]
        self._breakers = defaultdict(lambda: CircuitBreaker(MAX_PAUSE_S))
        self._trials: set[asyncio.Task[None]] = set()
        self._requests = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.workers = Workers()
        """Threads for rails that run a model: these are slow, and nothing else should wait for them."""

    def entered(self) -> None:
        self._requests += 1
        self._idle.clear()

    def left(self) -> None:
        self._requests -= 1
        if not self._requests:
            self._idle.set()

    async def idle(self) -> None:
        """Wait until no request runs on these rails."""
        await self._idle.wait()

    def runs(self, slot: RailSlot, rail: str, rail_policy: RailPolicy) -> bool:
        """Return whether to call the rail now. Raises `StageFailed` where its breaker is open and it must not be
        skipped."""
        breaker = self._breakers[slot, rail, rail_policy.budget_s]
        if breaker.admits(rail_policy):
            return True
        if rail_policy.may_fail:
            return False
        wait_s = max(1.0, breaker.wait_s)
        raise StageFailed(slot, rail, f"it failed again and again; it is tried again in {wait_s:.0f} s", wait_s)

    async def failed_at_work(
        self, slot: RailSlot, rail: str, rail_policy: RailPolicy, sound: Callable[[], Coroutine[Any, Any, bool]]
    ) -> None:
        """Count a failure on a caller's text. Where it would open the breaker, `sound` first tests the rail on a
        harmless text: if that succeeds, the caller's text was at fault, and the breaker stays closed."""
        breaker = self._breakers[slot, rail, rail_policy.budget_s]
        if breaker.would_open(rail_policy) and await sound():
            breaker.failed_by_caller()
            return
        self.failed(slot, rail, rail_policy)

    def failed_writing(self, name: str, rail: OutputRail, rail_policy: RailPolicy) -> None:
        """Count a failure of an output rail, as `failed_at_work`; returns at once."""
        breaker = self._breakers["moderate", name, rail_policy.budget_s]
        if offers(rail, JudgingRail) and breaker.would_open(rail_policy):
            trial = asyncio.create_task(
                self.failed_at_work("moderate", name, rail_policy, lambda: judges(rail, rail_policy))
            )
            self._trials.add(trial)
            trial.add_done_callback(self._trials.discard)
            return
        if breaker.would_open(rail_policy) and reads(rail):
            breaker.failed_by_caller()
            return
        self.failed("moderate", name, rail_policy)

    def failed(self, slot: RailSlot, rail: str, rail_policy: RailPolicy) -> None:
        """Count a failure of the rail; the caller's text is not considered."""
        if self._breakers[slot, rail, rail_policy.budget_s].failed(rail_policy):
            log.error("rail %s of slot %s failed %d times in a row", rail, slot, rail_policy.failures_to_open)

    def succeeded(self, slot: RailSlot, rail: str, rail_policy: RailPolicy) -> None:
        self._breakers[slot, rail, rail_policy.budget_s].succeeded()

    def is_open(self, slot: RailSlot, rail: str) -> bool:
        """Return whether the rail is skipped after failures in a row, at least under one time limit."""
        return (slot, rail) in self._open()

    def troubles(self) -> Sequence[Trouble]:
        """Report rails of which a breaker is open."""
        return [
            Trouble(f"rail {rail} of slot {slot} failed again and again; requests that need it are refused meanwhile")
            for slot, rail in self._open()
        ]

    def _open(self) -> dict[tuple[str, str], None]:
        return {(slot, rail): None for (slot, rail, _), breaker in self._breakers.items() if breaker.is_open}

    def stats(self) -> Mapping[str, float]:
        """Return the number of rails of which a breaker is open, and of failures so far."""
        found = self._breakers.values()
        return {
            "rails_open": float(len(self._open())),
            "rail_failures_total": float(sum(breaker.failures for breaker in found)),
        }


async def judges(rail: JudgingRail, rail_policy: RailPolicy) -> bool:
    """Return whether the rail judges, in its time, a short harmless text that it cannot have seen. A rail that goes by
    states of the model has no text to be tried on, and passes: what failed was its judgement of one answer."""
    if reads_states(rail):
        return True
    request = Request("probe", "probe", (Message("user", "Hello"),))
    try:
        session = rail.follow(request, Caller(tenant="probe"), "content", JudgingTerms())
        async with asyncio.timeout(min(rail_policy.budget_s or PROBE_S, PROBE_S)):
            await contained(lambda: session.feed(f"Hello {secrets.token_hex(4)}"), "the judge")
            await contained(session.close, "the judge")
    except Exception:
        return False
    return True


def reads(rail: OutputRail) -> bool:
    """Return whether the rail reads a short harmless text without failing."""
    try:
        session = rail.open(Request("probe", "probe", (Message("user", "Hello"),)), Caller(tenant="probe"), "content")
        session.feed(f"Hello {secrets.token_hex(4)}")
        session.close()
    except RAIL_FAILURES:
        return False
    return True
