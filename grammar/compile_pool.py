"""A pool of OS threads that compile: tenants take turns, and none has all threads.

What one tenant sends waits behind what it sent before, and behind one job of each other tenant. A job that takes long
gives its seat to the next one and goes on beside the others, resting now and then. A job that nobody waits for any more
is not begun; where it has begun it ends at its next look at the clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from sluicegate.plugins.concurrency.fair_queue import FairQueue
from sluicegate.plugins.errors import RateLimited

WAITING = 64
"""Most waiting jobs of one tenant; further ones are refused."""
LONG_S = 0.1
"""A job that takes longer gives up its seat."""
EXTRA_THREADS = 16
"""Most jobs that may continue without a seat."""
SLICE_S = 0.002
"""Seconds that a job without a seat works between two pauses: a thread that computes in Python gives up the interpreter
only when another asks for it, which then waits for the switch interval each time."""
REST = 0.5
"""Length of a pause relative to the time worked."""


def _nothing() -> None:
    pass


class JobAbandoned(Exception):
    """Nobody waits for the job any more."""


@dataclass(slots=True, eq=False)
class CompileJob:
    """Work that one or several callers wait for. `tenant`: the first of them, whose turn it takes."""

    tenant: str
    act: Callable[[], Any]
    done: asyncio.Future[Any]
    waiters: int | None = None
    """None until somebody waits: the thread may finish before that."""
    step_aside: Callable[[], None] = _nothing
    began: float | None = None
    rested: float = 0.0
    aside: bool = False
    kept_bytes: int = 0
    """Memory of the result, or of what was made up to an error; the work states it."""

    def forget(self) -> None:
        """Let go of what the work read: the job is kept as long as its result."""
        self.act = self.step_aside = _nothing

    def pause(self) -> None:
        """Give up the seat after a while, and rest. The working thread calls this every millisecond or so. Raises
        `JobAbandoned` where nobody waits any more."""
        if self.waiters == 0:
            raise JobAbandoned
        now = time.perf_counter()
        if not self.aside:
            if now - (self.began or now) > LONG_S:
                self.aside, self.rested = True, now
                self.step_aside()
        elif now - self.rested >= SLICE_S:
            time.sleep((now - self.rested) * REST)
            self.rested = time.perf_counter()


class CompilePool:
    """Used on one event loop; threads start with the first job."""

    def __init__(self, threads: int, name: str) -> None:
        self._share = max(1, threads // 2)
        self._pool = ThreadPoolExecutor(threads + EXTRA_THREADS, thread_name_prefix=name)
        self._queue: FairQueue[CompileJob] = FairQueue(threads, self._share)
        self._extra: set[CompileJob] = set()
        self._usual_s = 0.05

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def add(self, tenant: str, act: Callable[[CompileJob], Any]) -> CompileJob:
        """Queue a job, to be waited for by `wait`. Raises `RateLimited` where too many of `tenant` wait."""
        waiting = self._queue.waiting(tenant)
        if waiting >= WAITING:
            wait_s = max(1.0, self._usual_s * waiting / self._share)
            raise RateLimited(
                f"{waiting} grammars of yours wait to be compiled, as many as may; send fewer new ones at a "
                f"time, or try again in {wait_s:.1f} s",
                retry_after_s=wait_s,
            )
        job = CompileJob(tenant, _nothing, asyncio.get_running_loop().create_future())
        job.act = lambda: act(job)
        job.done.add_done_callback(_retrieve)
        self._queue.add(tenant, job)
        self._dispatch()
        return job

    async def wait(self, job: CompileJob) -> Any:
        """Return the job's result, or raise its error. A cancelled caller waits no more."""
        job.waiters = (job.waiters or 0) + 1
        try:
            return await asyncio.shield(job.done)
        finally:
            job.waiters -= 1
            if not job.waiters and job.began is None:
                self._withdraw(job)

    def close(self) -> None:
        for job in self._queue:
            job.done.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _dispatch(self) -> None:
        while (turn := self._queue.next()) is not None:
            self._start(turn[1])

    def _start(self, job: CompileJob) -> None:
        began = job.began = time.perf_counter()
        loop = asyncio.get_running_loop()
        job.step_aside = lambda: _call_in(loop, self._set_aside, job)

        def work() -> None:
            try:
                found, error = job.act(), None
            except BaseException as failure:
                found, error = None, failure
            job.forget()
            _call_in(loop, self._ended, job, found, error, time.perf_counter() - began)

        self._pool.submit(work)

    def _set_aside(self, job: CompileJob) -> None:
        if len(self._extra) < EXTRA_THREADS and not job.done.done():
            self._extra.add(job)
            self._queue.give_place_up()
            self._dispatch()

    def _ended(self, job: CompileJob, found: Any, error: BaseException | None, took_s: float) -> None:
        self._queue.ended(job.tenant, had_place=job not in self._extra)
        self._extra.discard(job)
        self._usual_s += 0.1 * (took_s - self._usual_s)
        if not job.done.done():
            job.done.set_result(found) if error is None else job.done.set_exception(error)
        self._dispatch()

    def _withdraw(self, job: CompileJob) -> None:
        if self._queue.withdraw(job.tenant, job):
            job.done.cancel()


def _retrieve(done: asyncio.Future[Any]) -> None:
    """Retrieve an error that nobody waits for, so that asyncio does not log it."""
    if not done.cancelled():
        done.exception()


def _call_in(loop: asyncio.AbstractEventLoop, act: Callable[..., object], *arguments: object) -> None:
    """Call `act` in `loop`, from a thread. A loop that is closed has nobody who waits."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(act, *arguments)
