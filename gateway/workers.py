"""Run small work at once, and large work in a bounded pool of threads where tenants take turns.

    prompt = await workers.run(caller.tenant, len(text), tokenize, text)

A tenant has at most `per_tenant` threads and a bounded queue; beyond that it is refused (429), and nobody else waits.
Not covered: a function that never lets go of the GIL stops the event loop from its thread as well. Cut its work into
pieces, or bound its size before.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from sluicegate.gateway.settings import WorkSettings
from sluicegate.plugins import Overloaded, RateLimited
from sluicegate.plugins.concurrency.fair_queue import FairQueue

T = TypeVar("T")
USUAL_S = 0.05
"""Assumed duration of a job before any was measured."""
MAX_THREADS = 8
SWITCH_S = 0.0002
"""How long one of these threads may keep the interpreter. The engine releases it in every kernel: if it had to wait a
millisecond each time to get it back, one busy thread would double the duration of a step."""


class _SwitchInterval:
    """The switch interval of the interpreter, one for the whole process: short while any `Workers` are busy."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy = 0
        self._usual_s = 0.0

    def begin(self) -> None:
        with self._lock:
            if not self._busy:
                self._usual_s = sys.getswitchinterval()
                sys.setswitchinterval(min(SWITCH_S, self._usual_s))
            self._busy += 1

    def end(self) -> None:
        with self._lock:
            self._busy -= 1
            if not self._busy:
                sys.setswitchinterval(self._usual_s)


_SWITCHING = _SwitchInterval()


@dataclass(slots=True, eq=False)
class _Job:
    nbytes: int
    call: Callable[[], Any]
    done: asyncio.Future[Any]


class Workers:
    """Used on the event loop; threads start with the first large job."""

    def __init__(self, settings: WorkSettings | None = None) -> None:
        self._settings = settings or WorkSettings()
        self._threads = self._settings.threads or min(MAX_THREADS, max(2, (os.cpu_count() or 1) // 2))
        self._share = self._settings.per_tenant or max(1, self._threads // 2)
        self._pool: ThreadPoolExecutor | None = None
        self._queue: FairQueue[_Job] = FairQueue(self._threads, self._share)
        self._nbytes: Counter[str] = Counter()
        """Bytes of all work that waits or runs, by tenant."""
        self._all_nbytes = 0
        self._seconds = USUAL_S
        self._done = self._inline = self._refused = 0

    async def run(
        self, tenant: str, nbytes: int, function: Callable[..., T], *arguments: Any, inline_bytes: int | None = None
    ) -> T:
        """Call `function(*arguments)`: at once where `nbytes`, the size of what it reads, is small, else in a thread.

        `inline_bytes`: what counts as small, for functions dearer or cheaper than a few hundred ns a byte. A job that
        is cancelled while it waits never runs; one that already runs counts against its tenant until its thread is
        free. Raises `RateLimited` where the tenant has too much waiting, `Overloaded` where all have together."""
        small = self._settings.inline_bytes if inline_bytes is None else inline_bytes
        if nbytes <= small:
            self._inline += 1
            return function(*arguments)
        job = _Job(nbytes, lambda: function(*arguments), asyncio.get_running_loop().create_future())
        self._enter(tenant, job)
        self._dispatch()
        try:
            return await job.done  # type: ignore[no-any-return]
        except asyncio.CancelledError:
            self._withdraw(tenant, job)
            raise

    def stats(self) -> Mapping[str, float]:
        return {
            "work_running": float(self._queue.running),
            "work_waiting": float(len(self._queue)),
            "work_bytes": float(self._all_nbytes),
            "work_done_total": float(self._done),
            "work_inline_total": float(self._inline),
            "work_refused_total": float(self._refused),
        }

    def close(self) -> None:
        """Cancel what waits; threads end after their current job."""
        for job in self._queue:
            job.done.cancel()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _enter(self, tenant: str, job: _Job) -> None:
        asked, waiting, nbytes = self._settings, self._queue.waiting(tenant), self._nbytes[tenant]
        if waiting >= asked.tenant_waiting or nbytes + job.nbytes > asked.tenant_bytes:
            self._refused += 1
            wait_s = self._wait_s(waiting + 1, self._share)
            raise RateLimited(
                f"{waiting} large requests of {tenant!r} ({nbytes} bytes) wait to be read, as much as may; send fewer "
                f"at a time, or try again in {wait_s:.1f} s",
                retry_after_s=wait_s,
            )
        if self._all_nbytes + job.nbytes > asked.all_bytes:
            self._refused += 1
            wait_s = self._wait_s(len(self._queue) + 1, self._threads)
            raise Overloaded(f"{self._all_nbytes} bytes of large requests wait to be read", retry_after_s=wait_s)
        self._queue.add(tenant, job)
        self._count(tenant, job.nbytes)

    def _wait_s(self, pieces: int, threads: int) -> float:
        return max(1.0, self._seconds * pieces / threads)

    def _dispatch(self) -> None:
        """Give free threads to the tenants whose turn it is."""
        while (turn := self._queue.next()) is not None:
            self._start(*turn)

    def _start(self, tenant: str, job: _Job) -> None:
        if self._queue.running == 1:
            _SWITCHING.begin()
        self._pool = self._pool or ThreadPoolExecutor(self._threads, "offloop")
        loop, began = asyncio.get_running_loop(), time.perf_counter()

        def work() -> None:
            try:
                found, error = job.call(), None
            except BaseException as failure:
                found, error = None, failure
            loop.call_soon_threadsafe(self._ended, tenant, job, found, error, time.perf_counter() - began)

        self._pool.submit(work)

    def _ended(self, tenant: str, job: _Job, found: Any, error: BaseException | None, took_s: float) -> None:
        self._queue.ended(tenant)
        if not self._queue.running:
            _SWITCHING.end()
        self._done += 1
        self._seconds += 0.1 * (took_s - self._seconds)
        self._count(tenant, -job.nbytes)
        if not job.done.done():
            job.done.set_result(found) if error is None else job.done.set_exception(error)
        self._dispatch()

    def _withdraw(self, tenant: str, job: _Job) -> None:
        """Drop a job that still waits. One that runs is counted until its thread ends."""
        if self._queue.withdraw(tenant, job):
            self._count(tenant, -job.nbytes)

    def _count(self, tenant: str, nbytes: int) -> None:
        self._all_nbytes += nbytes
        self._nbytes[tenant] += nbytes
        if not self._nbytes[tenant]:
            del self._nbytes[tenant]
