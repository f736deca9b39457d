"""Single flight: identical concurrent requests share one generation.

The first request to join a key leads; the others wait and get the answers that it lands. A leader that fails or goes
away passes the lead to the longest waiting one. A leader whose answers cannot be shared (blocked, cut short) releases
all at once, so that they do not queue one behind another.

Not covered: other processes. Two gateways may each generate the same answer once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from sluicegate.cache.entries import Counts
from sluicegate.plugins import CacheKey

T = TypeVar("T")
Role = Literal["leads", "follows", "alone"]


@dataclass(slots=True)
class _Flight(Generic[T]):
    waiting: deque[asyncio.Future[Seat[T]]] = field(default_factory=deque)


class Seat(Generic[T]):
    """One request's role in a flight. The holder must call `land`, `release` or `abandon`, however the request ends;
    all are idempotent and do nothing for seats that do not lead.

    - `leads`: generate, then `land`.
    - `follows`: `answers` holds the leader's answers.
    - `alone`: generate; nobody waits for it.
    """

    def __init__(self, flights: SingleFlight[T], key: CacheKey, role: Role, answers: T | None = None) -> None:
        self.role = role
        self.answers = answers
        self._flights = flights
        self._key = key
        self._open = role == "leads"

    def land(self, answers: T) -> None:
        """Give `answers` to all waiting requests."""
        for waiter in self._leave():
            waiter.set_result(Seat(self._flights, self._key, "follows", answers))

    def release(self) -> None:
        """Let all waiting requests generate on their own: the answers cannot be shared."""
        for waiter in self._leave():
            waiter.set_result(Seat(self._flights, self._key, "alone"))

    def abandon(self) -> None:
        """Pass the lead to the longest waiting request: this one failed or went away."""
        if self._open:
            self._open = False
            self._flights._promote(self._key)

    def _leave(self) -> list[asyncio.Future[Seat[T]]]:
        if not self._open:
            return []
        self._open = False
        return self._flights._land(self._key)


class SingleFlight(Generic[T]):
    """The flights of one gateway, by cache key; used from one event loop."""

    def __init__(self, patience_s: float = 30.0) -> None:
        """Begin with no flights. `patience_s`: seconds after which a follower goes on alone, as the leader may hang or
        be a stream that a slow client reads."""
        self._patience_s = patience_s
        self._flights: dict[CacheKey, _Flight[T]] = {}
        self._counts = Counts(dict.fromkeys(("led_total", "shared_total", "promoted_total", "impatient_total"), 0))

    async def join(self, key: CacheKey) -> Seat[T]:
        """Take a seat. Returns at once where no request flies under `key`; else when the leader lands, releases or
        abandons, or after `patience_s`."""
        flight = self._flights.get(key)
        if flight is None:
            self._flights[key] = _Flight()
            self._counts.add("led_total")
            return Seat(self, key, "leads")
        return await self._wait(key, flight)

    def stats(self) -> Mapping[str, float]:
        waiting = sum(len(flight.waiting) for flight in self._flights.values())
        return {**self._counts.values, "in_flight": len(self._flights), "followers_waiting": waiting}

    async def _wait(self, key: CacheKey, flight: _Flight[T]) -> Seat[T]:
        waiter: asyncio.Future[Seat[T]] = asyncio.get_running_loop().create_future()
        flight.waiting.append(waiter)
        try:
            async with asyncio.timeout(self._patience_s):
                seat = await waiter
        except TimeoutError:
            self._counts.add("impatient_total")
            return self._seat_after(waiter) or Seat(self, key, "alone")
        except asyncio.CancelledError:
            seat_unused = self._seat_after(waiter)
            if seat_unused is not None:
                seat_unused.abandon()
            raise
        self._counts.add(
            "shared_total" if seat.role == "follows" else "promoted_total" if seat.role == "leads" else "released_total"
        )
        return seat

    @staticmethod
    def _seat_after(waiter: asyncio.Future[Seat[T]]) -> Seat[T] | None:
        """Return a seat that was assigned at the moment in which waiting ended; dropping it would lose the lead."""
        return waiter.result() if waiter.done() and not waiter.cancelled() else None

    def _land(self, key: CacheKey) -> list[asyncio.Future[Seat[T]]]:
        flight = self._flights.pop(key)
        return [waiter for waiter in flight.waiting if not waiter.done()]

    def _promote(self, key: CacheKey) -> None:
        flight = self._flights[key]
        while flight.waiting:
            waiter = flight.waiting.popleft()
            if not waiter.done():
                waiter.set_result(Seat(self, key, "leads"))
                return
        del self._flights[key]
