"""Blocking calls on threads of their own, which go on where their caller leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class ThreadCalls:
    """Used on one event loop. Who must be the last to write waits with `ended` first: a call whose caller was cancelled
    still runs, and may write later than one that was begun after it."""

    def __init__(self, threads: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(threads, name)
        self._running: set[asyncio.Future[Any]] = set()

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, which runs to its end even where the caller leaves. Raises what it raises."""
        return await asyncio.shield(self._noted(self._threads.submit(work)))

    async def run_within(self, patience_s: float, work: Callable[[], T]) -> T:
        """Do as `run`, for `patience_s` seconds at most. What is not begun when the caller leaves is never begun: else
        those who come when a store answers again would wait for all that nobody waits for any more. Raises
        `TimeoutError`."""
        submitted = self._threads.submit(work)
        try:
            async with asyncio.timeout(patience_s):
                return await asyncio.shield(self._noted(submitted))
        finally:
            submitted.cancel()

    def begin(self, work: Callable[[], Any]) -> None:
        """Run `work` though nobody waits for it. What it raises is lost."""
        self._threads.submit(work)

    async def ended(self, patience_s: float) -> None:
        """Wait until the calls begun so far have ended, for `patience_s` seconds at most."""
        if self._running:
            await asyncio.wait(set(self._running), timeout=patience_s)

    def _noted(self, submitted: Future[T]) -> asyncio.Future[T]:
        running = asyncio.wrap_future(submitted)
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return running

    def close(self, *, waiting: bool = False) -> None:
        """Begin no more calls; those that were submitted end by themselves. `waiting`: return when they have, with or
        without their callers."""
        self._threads.shutdown(wait=waiting)
