"""A pool of OS threads that compile: tenants take turns, and none has all threads.

What one tenant sends waits behind what it sent before, and behind one job of each other tenant. A job that takes long
gives its seat to the next one, of its own tenant too, and goes on beside the others; these take turns, and rest now and
then. Where as many go on as may, it stops, and begins again when one has ended. A job that nobody waits for any more is
not begun; where it has begun it ends at its next look at the clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from sluicegate.grammar.compile_lane import TURN_S, CompileLane
from sluicegate.plugins.concurrency.fair_queue import FairQueue
from sluicegate.plugins.errors import RateLimited

WAITING = 64
"""Most waiting jobs of one tenant; further ones are refused."""
LONG_S = 0.03
"""A job that takes longer gives up its seat: 16 long ones of a tenant keep its next one waiting for half a second."""
EXTRA_THREADS = 16
"""Most jobs that may continue without a seat."""
LONG_OF_TENANT = 4
"""Most of them of one tenant: each has tables in the making, of a hundred MB and more."""
SLICE_S = 0.002
"""Seconds that a job without a seat works between two pauses: a thread that computes in Python gives up the interpreter
only when another asks for it, which then waits for the switch interval each time."""
REST = 0.5
"""Length of a pause relative to the time worked."""


def _nothing() -> None:
    pass


class JobAbandoned(Exception):
    """Nobody waits for the job any more."""


class _Postponed(Exception):
    """As many long jobs go on as may: this one begins again later."""


@dataclass(slots=True, eq=False)
class CompileJob:
    """Work that one or several callers wait for. `tenant`: the first of them, whose turn it takes."""

    tenant: str
    act: Callable[[], Any]
    done: asyncio.Future[Any]
    waiters: int | None = None
    """None until somebody waits: the thread may finish before that."""
    step_aside: Callable[[], None] = _nothing
    lane: CompileLane | None = None
    """Where it computes without a seat; None: it has one, or has not begun."""
    began: float | None = None
    rested: float = 0.0
    turn_began: float = 0.0
    has_turn: bool = False
    """Whether it has one to leave: one that waited in vain goes on without."""
    is_long: bool = False
    runs: bool = False
    must_stop: bool = False
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
        if self.must_stop:
            raise _Postponed
        now = time.perf_counter()
        if self.lane is not None:
            self._take_turns(self.lane, now)
        elif not self.is_long and now - (self.began or now) > LONG_S:
            self.is_long = True
            self.step_aside()

    def leave_lane(self) -> None:
        if self.has_turn and self.lane is not None:
            self.has_turn = False
            self.lane.leave(self.tenant)

    def _take_turns(self, lane: CompileLane, now: float) -> None:
        if now - self.rested < SLICE_S:
            return
        is_over = now - self.turn_began > TURN_S
        if is_over and (not self.has_turn or lane.is_wanted()):
            self.leave_lane()
            self.has_turn = lane.enter(self.tenant)
            self.turn_began = time.perf_counter()
        else:
            time.sleep((now - self.rested) * REST)
        self.rested = time.perf_counter()


class CompilePool:
    """Used on one event loop; threads start with the first job."""

    def __init__(self, threads: int, name: str) -> None:
        self._share = max(1, threads // 2)
        self._pool = ThreadPoolExecutor(threads + EXTRA_THREADS, thread_name_prefix=name)
        self._queue: FairQueue[CompileJob] = FairQueue(threads, self._share)
        self._long: FairQueue[CompileJob] = FairQueue(EXTRA_THREADS, LONG_OF_TENANT)
        """Jobs that took long: those that go on, and those that wait to begin again."""
        self._lane = CompileLane(self._share)
        self._usual_s = 0.05

    @property
    def waiting(self) -> int:
        return len(self._queue) + len(self._long)

    def add(self, tenant: str, act: Callable[[CompileJob], Any]) -> CompileJob:
        """Queue a job, to be waited for by `wait`. Raises `RateLimited` where too many of `tenant` wait."""
        waiting = self._queue.waiting(tenant) + self._long.waiting(tenant)
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
            if not job.waiters and not job.runs:
                self._withdraw(job)

    def close(self) -> None:
        for job in (*self._queue, *self._long):
            job.done.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _dispatch(self) -> None:
        while (turn := self._queue.next()) is not None:
            self._start(turn[1])
        while (turn := self._long.next()) is not None:
            job = turn[1]
            job.lane, job.must_stop = self._lane, False
            if not job.runs:
                self._start(job)

    def _start(self, job: CompileJob) -> None:
        began = job.began = time.perf_counter()
        job.runs = True
        loop = asyncio.get_running_loop()
        job.step_aside = lambda: _call_in(loop, self._set_aside, job)

        def work() -> None:
            try:
                found, error = job.act(), None
            except BaseException as failure:
                found, error = None, failure
            job.leave_lane()
            _call_in(loop, self._ended, job, found, error, time.perf_counter() - began)

        self._pool.submit(work)

    def _set_aside(self, job: CompileJob) -> None:
        """Free the seat of a job, and let the job go on, or stop until another long one has ended."""
        if job.runs:
            self._queue.ended(job.tenant)
            self._long.add(job.tenant, job)
            self._dispatch()
            job.must_stop = job.lane is None

    def _ended(self, job: CompileJob, found: Any, error: BaseException | None, took_s: float) -> None:
        job.runs = False
        if isinstance(error, _Postponed) and job.waiters != 0:
            if job.lane is not None:  # it may go on since
                self._start(job)
            return
        self._give_back(job)
        job.forget()
        self._usual_s += 0.1 * (took_s - self._usual_s)
        if isinstance(error, _Postponed):
            error = JobAbandoned()
        if not job.done.done():
            job.done.set_result(found) if error is None else job.done.set_exception(error)
        self._dispatch()

    def _give_back(self, job: CompileJob) -> None:
        """Free the place of a job that has ended, or take it out of the queue."""
        if job.lane is not None:
            self._long.ended(job.tenant)
        elif not self._long.withdraw(job.tenant, job):
            self._queue.ended(job.tenant)

    def _withdraw(self, job: CompileJob) -> None:
        if self._queue.withdraw(job.tenant, job) or self._long.withdraw(job.tenant, job):
            job.done.cancel()


def _retrieve(done: asyncio.Future[Any]) -> None:
    """Retrieve an error that nobody waits for, so that asyncio does not log it."""
    if not done.cancelled():
        done.exception()


def _call_in(loop: asyncio.AbstractEventLoop, act: Callable[..., object], *arguments: object) -> None:
    """Call `act` in `loop`, from a thread. A loop that is closed has nobody who waits."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(act, *arguments)
