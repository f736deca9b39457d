"""Run the engine thread: take posted calls, compute one step of every model that has work, deliver.

Other threads reach it through an inbox alone (a deque and an event); it never waits for any of them.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Protocol
from weakref import WeakSet, finalize

import torch

from sluicegate.engine.failures import as_failure
from sluicegate.engine.loop.core import EngineCore
from sluicegate.engine.loop.requests import Submission
from sluicegate.engine.loop.token_readings import TokenQuestion, TokenReadings
from sluicegate.engine.sequences.delivery import Outbox
from sluicegate.engine.settings import EngineSettings, thread_count
from sluicegate.plugins import GenerationFailed, Overloaded

EXIT_PATIENCE_S = 10.0
"""How long the process waits at exit for a step that was not stopped before."""
_LOG = logging.getLogger(__name__)


class Waiter(Protocol):
    """An object on an event loop that can be failed from any thread, when its result will never come."""

    def fail(self, error: Exception) -> None: ...


class Task(Waiter, Protocol):
    """Work other than generation, done in slices: one slice of one task per turn, so as not to delay decode steps."""

    def advance(self) -> bool:
        """Compute one slice; return True when the task is finished. Exceptions are passed to `fail`."""


@dataclass(frozen=True, slots=True)
class _Retiring:
    """A core that takes no new requests and is dropped once it has no work, or at `deadline` (monotonic)."""

    core: EngineCore
    deadline: float
    gone: Callable[[], None]


@dataclass(slots=True, weakref_slot=True)
class Worker:
    """Owns the cores while it runs. Used by the engine thread alone except where marked."""

    settings: EngineSettings
    outbox: Outbox = field(default_factory=Outbox)
    _cores: list[EngineCore] = field(default_factory=list)
    _retiring: list[_Retiring] = field(default_factory=list)
    _tasks: deque[Task] = field(default_factory=deque)
    _inbox: deque[Callable[[], None]] = field(default_factory=deque)
    _posted: int = 0
    """Number of jobs put into the inbox; written on the event loop only."""
    _taken: int = 0
    """Number of jobs taken out of it; written by the engine thread only."""
    _wake: threading.Event = field(default_factory=threading.Event)
    _closing: threading.Event = field(default_factory=threading.Event)
    _abandoned: threading.Event = field(default_factory=threading.Event)
    _turn_began: float | None = None
    """Start of the current turn on the monotonic clock; None while there is no work."""
    _waiters: WeakSet[Waiter] = field(default_factory=WeakSet)
    """Objects that may wait for a result; belongs to the event loop."""
    _dismissals: set[asyncio.Event] = field(default_factory=set)
    _thread: threading.Thread | None = None

    # --- from the event loop -----------------------------------------------------------------------------------

    @property
    def arriving(self) -> int:
        """Count jobs that no scheduler has seen yet."""
        return self._posted - self._taken

    @property
    def is_closing(self) -> bool:
        return self._closing.is_set()

    @property
    def is_serving(self) -> bool:
        return self._thread is not None and self._thread.is_alive() and not self.is_closing

    @property
    def is_started(self) -> bool:
        return self._thread is not None

    @property
    def task_count(self) -> int:
        return len(self._tasks)

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="engine", daemon=True)
            self._thread.start()
            finalize(self, _end, self._thread, self._abandoned, self._closing, self._wake)

    async def close(self) -> None:
        """Drain running requests for `drain_s`, cancel the rest and join the thread; abandon a thread that does not
        stop."""
        self._closing.set()
        self._wake.set()
        if self._thread is not None:
            patience_s = None if self.settings.watchdog_s is None else self.settings.drain_s + self.settings.watchdog_s
            await asyncio.to_thread(self._thread.join, patience_s)
            if self._thread.is_alive():
                self.abandon(Overloaded("the engine is shutting down; send the request elsewhere", retry_after_s=5.0))

    def stuck_s(self) -> float:
        """Return the seconds the current turn has lasted; infinite if the thread has died."""
        if self._thread is not None and not self._thread.is_alive() and not self.is_closing:
            return inf
        began = self._turn_began
        return 0.0 if began is None else time.monotonic() - began

    def where(self) -> str:
        """Return the stack of the thread, for the log."""
        frame = sys._current_frames().get(self._thread.ident or 0) if self._thread is not None else None
        return "the thread has died" if frame is None else "".join(traceback.format_stack(frame))

    def abandon(self, error: Exception) -> None:
        """Give up a thread that hangs: ignore its results, and fail everyone waiting for it with `error`."""
        self._abandoned.set()
        self._closing.set()
        self._wake.set()
        for waiter in self._waiters:
            waiter.fail(error)
        for gone in self._dismissals:
            gone.set()

    def submit(self, core: EngineCore, submission: Submission) -> None:
        self._posted += 1
        self._waiters.add(submission.generation)
        self.post(lambda: self._take_in(core, submission))

    def ask(self, readings: TokenReadings, question: TokenQuestion) -> None:
        """Pass a question to a guard; it fails if this thread is abandoned."""
        self._waiters.add(question)
        self.post(lambda: readings.add(question))

    def adopt(self, core: EngineCore) -> None:
        self.post(lambda: self._take_over(core))

    async def dismiss(self, core: EngineCore, drain_s: float) -> None:
        """Drain a core for at most `drain_s`, then remove it. Its blocks are free when this returns."""
        loop = asyncio.get_running_loop()
        gone = asyncio.Event()

        def tell() -> None:
            loop.call_soon_threadsafe(gone.set)

        retiring = _Retiring(core, time.monotonic() + drain_s, tell)
        self.post(lambda: self._retiring.append(retiring))
        if self._thread is not None and not self.is_closing:
            self._dismissals.add(gone)
            await gone.wait()
            self._dismissals.discard(gone)

    def add_task(self, task: Task) -> None:
        self._waiters.add(task)
        self.post(lambda: self._tasks.append(task))

    def post(self, act: Callable[[], None]) -> None:
        """Have the engine thread call `act` before its next step."""
        self._inbox.append(act)
        self._wake.set()

    # --- the engine thread -------------------------------------------------------------------------------------

    @torch.inference_mode()
    def _serve(self) -> None:
        self._use_threads()
        try:
            while not self._closing.is_set():
                self._turn()
            deadline = time.monotonic() + self.settings.drain_s
            while self._has_work() and time.monotonic() < deadline and not self._abandoned.is_set():
                self._turn()
            if not self._abandoned.is_set():
                self._stop()
        finally:
            for core in self._cores:
                core.close()

    def _turn(self) -> None:
        self._turn_began = time.monotonic()
        self._take_inbox()
        for core in self._cores:
            if core.has_work and not self._abandoned.is_set():
                self._step(core)
        self._advance_task()
        self._flush()
        self._let_go()
        if not self._has_work() and not self._closing.is_set():
            self._turn_began = None
            self._wake.wait()

    def _stop(self) -> None:
        self._take_inbox()
        closing = Overloaded("the engine is shutting down; send the request elsewhere", retry_after_s=5.0)
        for core in self._cores:
            core.end_all(closing)
        for task in self._tasks:
            task.fail(closing)
        self._flush()
        self._let_go(all_of_them=True)

    def _step(self, core: EngineCore) -> None:
        try:
            core.step()
        except Exception as error:  # our own bug: nobody may be left waiting for a thread that died
            _LOG.exception("a step of model %s failed; its requests are ended", core.model.name)
            failure = as_failure(error, "the engine step")
            core.requests.fail_all(failure)
            core.end_all(failure)

    def _advance_task(self) -> None:
        if not self._tasks:
            return
        task = self._tasks.popleft()
        try:
            finished = task.advance()
        except Exception as error:
            task.fail(error)
        else:
            if not finished:
                self._tasks.append(task)

    def _take_inbox(self) -> None:
        self._wake.clear()
        while self._inbox:
            act = self._inbox.popleft()
            try:
                act()
            except Exception:  # our own bug: the thread must not die of it
                _LOG.exception("a request could not be let go")

    def _take_in(self, core: EngineCore, submission: Submission) -> None:
        self._taken += 1
        try:
            core.requests.submit(submission)
        except Exception as error:
            self.outbox.fail(submission.generation, as_failure(error, "taking the request in"))

    def _take_over(self, core: EngineCore) -> None:
        core.requests.outbox = self.outbox
        self._cores.append(core)
        self._use_threads()

    def _flush(self) -> None:
        if self._abandoned.is_set():
            return
        for generation in self.outbox.flush():
            for core in self._cores:
                core.requests.cancel(generation)

    def _let_go(self, *, all_of_them: bool = False) -> None:
        """Remove retiring cores that have no work or are past their deadline."""
        now = time.monotonic()
        for retiring in [x for x in self._retiring if all_of_them or not x.core.has_work or now >= x.deadline]:
            retiring.core.end_all(GenerationFailed("the model was taken out; send the request again"))
            self._flush()
            self._retiring.remove(retiring)
            self._cores.remove(retiring.core)
            retiring.core.close()
            retiring.gone()

    def _has_work(self) -> bool:
        return bool(self._inbox or self._tasks) or any(core.has_work for core in self._cores)

    def _use_threads(self) -> None:
        largest = max((core.model.parameter_count for core in self._cores), default=0)
        sharers = max((1 if core.model.group is None else core.model.group.size for core in self._cores), default=1)
        torch.set_num_threads(self.settings.threads or max(1, thread_count(largest) // sharers))


def _end(thread: threading.Thread, abandoned: threading.Event, closing: threading.Event, wake: threading.Event) -> None:
    """Stop an engine thread that `close` did not, before the interpreter ends: compiled code that still ran then would
    abort the process, or read freed memory."""
    for event in (abandoned, closing, wake):
        event.set()
    thread.join(EXIT_PATIENCE_S)
