"""Threads that compile: tenants take turns, and none has all of them.

What one tenant sends waits behind what it sent before, and behind one piece of each other tenant. A piece that takes
long gives its place to the next one and goes on beside it, resting now and then: so nobody waits for it. A piece that
nobody waits for any more is not begun, and ends at its next look at the clock where it has begun.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from sluicegate.plugins.errors import RateLimited

WAITING = 64
"""Pieces of one tenant that may wait; further ones are refused."""
LONG_S = 0.1
"""What takes longer gives its place up."""
BESIDE = 16
"""So many go on beside those that have a place."""
SLICE_S = 0.002
"""Work between two rests of these: a thread that computes in Python leaves the interpreter to others only when it is
asked to, and each time they ask they wait for the switch interval."""
REST = 0.5
"""How long a rest is, of the time worked."""


class Abandoned(Exception):
    """Nobody waits for it any more."""


@dataclass(slots=True, eq=False)
class CompileJob:
    """Work for one or several who wait for the same. `tenant`: whose turn it takes, the first of them."""

    tenant: str
    act: Callable[[], Any]
    done: asyncio.Future[Any]
    waiters: int = 0
    step_aside: Callable[[], None] = lambda: None
    began: float | None = None
    rested: float = 0.0
    aside: bool = False

    def pause(self) -> None:
        """From the working thread, every millisecond or so."""
        if not self.waiters:
            raise Abandoned
        now = time.perf_counter()
        if not self.aside:
            if now - (self.began or now) > LONG_S:
                self.aside, self.rested = True, now
                self.step_aside()
        elif now - self.rested >= SLICE_S:
            time.sleep((now - self.rested) * REST)
            self.rested = time.perf_counter()


@dataclass(slots=True)
class _TenantQueue:
    waiting: deque[CompileJob] = field(default_factory=deque)
    running: int = 0


class CompilePool:
    """Used on one event loop; threads start with the first piece."""

    def __init__(self, threads: int, name: str) -> None:
        self._threads = threads
        self._most = max(1, threads // 2)
        self._pool = ThreadPoolExecutor(threads + BESIDE, thread_name_prefix=name)
        self._lines: dict[str, _TenantQueue] = {}
        self._turns: deque[str] = deque()
        """Tenants with pieces that wait, each once; the first is next."""
        self._running = 0
        """Pieces that have a place."""
        self._beside: set[CompileJob] = set()
        self._usual_s = 0.05

    @property
    def waiting(self) -> int:
        return sum(len(line.waiting) for line in self._lines.values())

    def add(self, tenant: str, act: Callable[[CompileJob], Any]) -> CompileJob:
        """A piece that nobody waits for yet; see `wait`. Raises `RateLimited`."""
        line = self._lines.setdefault(tenant, _TenantQueue())
        if len(line.waiting) >= WAITING:
            wait_s = max(1.0, self._usual_s * len(line.waiting) / self._most)
            raise RateLimited(
                f"{len(line.waiting)} grammars of yours wait to be compiled, as many as may; send fewer new ones at a "
                f"time, or try again in {wait_s:.1f} s",
                retry_after_s=wait_s,
            )
        job = CompileJob(tenant, lambda: None, asyncio.get_running_loop().create_future())
        job.act = lambda: act(job)
        job.done.add_done_callback(_looked_at)
        if not line.waiting:
            self._turns.append(tenant)
        line.waiting.append(job)
        self._dispatch()
        return job

    async def wait(self, job: CompileJob) -> Any:
        """What came of it, or what it raised. Who is cancelled here waits no more."""
        job.waiters += 1
        try:
            return await asyncio.shield(job.done)
        finally:
            job.waiters -= 1
            if not job.waiters and job.began is None:
                self._withdraw(job)

    def close(self) -> None:
        for line in self._lines.values():
            for job in line.waiting:
                job.done.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _dispatch(self) -> None:
        for _ in range(len(self._turns)):
            if self._running >= self._threads:
                return
            tenant = self._turns.popleft()
            line = self._lines[tenant]
            if line.running < self._most:
                self._start(line, line.waiting.popleft())
            if line.waiting:
                self._turns.append(tenant)

    def _start(self, line: _TenantQueue, job: CompileJob) -> None:
        line.running += 1
        self._running += 1
        began = job.began = time.perf_counter()
        loop = asyncio.get_running_loop()
        job.step_aside = lambda: _told(loop, self._set_aside, line, job)

        def work() -> None:
            try:
                found, error = job.act(), None
            except BaseException as failure:
                found, error = None, failure
            _told(loop, self._ended, line, job, found, error, time.perf_counter() - began)

        self._pool.submit(work)

    def _set_aside(self, line: _TenantQueue, job: CompileJob) -> None:
        if len(self._beside) < BESIDE and not job.done.done():
            self._beside.add(job)
            self._running -= 1
            self._dispatch()

    def _ended(
        self, line: _TenantQueue, job: CompileJob, found: Any, error: BaseException | None, took_s: float
    ) -> None:
        line.running -= 1
        if job in self._beside:
            self._beside.remove(job)
        else:
            self._running -= 1
        self._usual_s += 0.1 * (took_s - self._usual_s)
        if not job.done.done():
            job.done.set_result(found) if error is None else job.done.set_exception(error)
        self._forget(job.tenant)
        self._dispatch()

    def _withdraw(self, job: CompileJob) -> None:
        line = self._lines.get(job.tenant)
        if line is None or job not in line.waiting:
            return
        line.waiting.remove(job)
        job.done.cancel()
        if not line.waiting:
            self._turns.remove(job.tenant)
        self._forget(job.tenant)

    def _forget(self, tenant: str) -> None:
        line = self._lines.get(tenant)
        if line is not None and not line.waiting and not line.running:
            del self._lines[tenant]


def _looked_at(done: asyncio.Future[Any]) -> None:
    """An error that nobody waited for is nobody's."""
    if not done.cancelled():
        done.exception()


def _told(loop: asyncio.AbstractEventLoop, act: Callable[..., object], *arguments: object) -> None:
    """From a thread. A loop that is closed has nobody who waits."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(act, *arguments)
