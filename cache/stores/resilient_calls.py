"""Call a store or model that may be slow, full, unreachable or broken: with a deadline, a bound on calls in flight and
a circuit breaker."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from sluicegate.cache.entries import Counts
from sluicegate.plugins.concurrency.ending import end_tasks

T = TypeVar("T")
log = logging.getLogger("sluicegate.cache")
LAST_TURNS = 6


class ResilientCalls:
    """A deadline for each call and a circuit breaker over all. Unlike `plugins.circuit_breaker.CircuitBreaker`, whose
    trial calls are requests of callers, it probes in the background.

    A call that runs out of time is not cancelled, only no longer waited for: cancelling would throw its connection away
    half way through a reply, and let a slow TLS handshake never succeed. At most `max_in_flight` calls are under way;
    more wait for their turn, within their deadline, and are no failures where that takes most of it.
    After `failures_to_open` failures in a row nothing is called; a task of its own probes with pauses that double up to
    `max_pause_s`, and the first probe that succeeds closes the breaker. No request ever pays for probing.
    """

    def __init__(
        self,
        name: str,
        probe: Callable[[], Awaitable[Any]],
        counts: Counts,
        *,
        deadline_s: float = 0.02,
        failures_to_open: int = 3,
        first_pause_s: float = 0.1,
        max_pause_s: float = 5.0,
        max_in_flight: int = 64,
        explain: Callable[[BaseException], str] = str,
    ) -> None:
        """Make a breaker that is closed. `explain`: what an error means, for the log."""
        self._name = name
        self._probe = probe
        self._counts = counts
        self._deadline_s = deadline_s
        self._failures_to_open = failures_to_open
        self._first_pause_s = first_pause_s
        self._max_pause_s = max_pause_s
        self._explain = explain
        self._slots = asyncio.Semaphore(max_in_flight)
        self._failures = 0
        self._running: set[asyncio.Task[Any]] = set()
        self._recovery: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Return whether the breaker is open: calls are skipped until a probe has succeeded."""
        return self._recovery is not None and not self._recovery.done()

    async def call(self, make: Callable[[], Coroutine[Any, Any, T]], otherwise: T, deadline_s: float = 0) -> T:
        """Return the call's result; `otherwise` where it fails, is skipped or exceeds the deadline (`deadline_s`; 0 =
        the default one). Cancelling the caller does not cancel the call."""
        if self.is_open:
            self._counts.add("skipped_total")
            return otherwise
        limit_s = deadline_s or self._deadline_s
        ends = time.monotonic() + limit_s
        try:
            async with asyncio.timeout(limit_s):
                await self._slots.acquire()
        except TimeoutError:
            self._counts.add("skipped_total")
            return otherwise
        task = asyncio.create_task(make())
        self._running.add(task)
        task.add_done_callback(self._ended)
        had_s = max(0.0, ends - time.monotonic())
        done, _ = await asyncio.wait((task,), timeout=had_s)
        if not done and not await _settles(task):
            self._counts.add("timeouts_total")
            if 2 * had_s >= limit_s:  # one that spent its time waiting for a turn says nothing of the other side
                self._failed(TimeoutError(f"no answer within {limit_s * 1000:.0f} ms"))
            return otherwise
        if task.cancelled() or task.exception() is not None:
            return otherwise
        self._failures = 0
        return task.result()

    async def close(self) -> None:
        """Cancel the running calls and the probe."""
        await end_tasks((*self._running, self._recovery))

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        self._slots.release()
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._counts.add("errors_total")
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        self._failures += 1
        if self._failures >= self._failures_to_open and not self.is_open:
            self._counts.add("opened_total")
            log.warning(
                "%s is left alone after %d failures, the last: %s", self._name, self._failures, self._explain(error)
            )
            self._recovery = asyncio.create_task(self._recover())

    async def _recover(self) -> None:
        pause, opened = self._first_pause_s, time.monotonic()
        while True:
            await asyncio.sleep(pause)
            try:
                async with asyncio.timeout(1.0):
                    await self._probe()
                break
            except Exception:
                pause = min(2 * pause, self._max_pause_s)
        self._failures = 0
        log.warning("%s answers again after %.1f s", self._name, time.monotonic() - opened)


async def _settles(task: asyncio.Task[Any]) -> bool:
    """Return whether a task ends within a few turns of the event loop. After a stall of the loop the reply may already
    lie in the socket, and must not count as a timeout."""
    for _ in range(LAST_TURNS):
        if task.done():
            break
        await asyncio.sleep(0)
    return task.done()
