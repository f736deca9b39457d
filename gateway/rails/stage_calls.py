"""Run a stage's call within a time limit, containing whatever it raises."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from types import CoroutineType
from typing import Any, Generic, TypeVar, cast

from sluicegate.plugins import Overloaded, ServiceError, SluicegateError, StageFailed
from sluicegate.plugins.errors import SEND_AGAIN
from sluicegate.safety import NoJudgement

T = TypeVar("T")
LONGEST_S = 60.0
"""Time limit of one call of a plug-in for which nobody set one, waiting for a thread included."""


class StageMisbehaved(RuntimeError):
    """What a plug-in's call did instead of answering. The words are ours: they hold nothing of a request."""


class OutOfTime(TimeoutError):
    """A call took longer than it may. The words are ours: they hold nothing of a request."""


def is_ours(stage: object) -> bool:
    """Return whether a stage is part of this package; others are plug-ins."""
    return type(stage).__module__.startswith("sluicegate.")


def answered(
    stage: object, call: Callable[[], Awaitable[T]], named: str, *, limit_s: float | None = None
) -> Awaitable[T]:
    """Make `call` on `stage`, to be awaited. A plug-in's is contained, and limited to `limit_s` (None: `LONGEST_S`):
    raises `OutOfTime`, `StageMisbehaved`, and any `Exception` of the plug-in."""
    return call() if is_ours(stage) else within(limit_s or LONGEST_S, call, named)


def expect(found: object, kind: type, named: str) -> None:
    """Check that `named` answered a `kind`. Raises `StageMisbehaved`."""
    if not isinstance(found, kind):
        raise StageMisbehaved(f"{named} answered {type(found).__name__}, expected {kind.__name__}")


def cause_of(error: BaseException) -> str:
    """Return why a stage failed, for operators, without words of a plug-in: those may hold what nobody else is to
    read."""
    if isinstance(error, SluicegateError):
        return getattr(error, "cause", "") or error.message
    return str(error) if isinstance(error, StageMisbehaved | OutOfTime | NoJudgement) else type(error).__name__


def reason_of(error: BaseException) -> str:
    """Return why a stage failed, for callers: they cannot mend the code, and are not shown its names."""
    what = "it took too long" if isinstance(error, TimeoutError) else "it could not do its work"
    return f"{what}; {SEND_AGAIN}"


def failed_stage(slot: str, stage: str, error: BaseException, reason: str = "") -> StageFailed:
    """Return the error for a request whose stage raised `error`. `reason`: other words for callers."""
    retry_after_s = error.retry_after_s if isinstance(error, Overloaded) else None
    told, cause = reason or reason_of(error), cause_of(error)
    return StageFailed(slot, stage, told, retry_after_s, cause=cause, status=_status_of(slot, error))


def _status_of(slot: str, error: BaseException) -> int:
    """Return 500 for a fault of the stage's own. Stages of slot `moderate` that are awaited are judges, which wait for
    a model or a server: what is late there is that."""
    if isinstance(error, ServiceError):
        return error.status
    return 504 if slot == "moderate" and isinstance(error, TimeoutError) else 500


async def within(budget_s: float | None, call: Callable[[], Awaitable[T]], named: str) -> T:
    """Return the result of `call`, contained. Raises `OutOfTime` after `budget_s` seconds, even if the call ignores its
    cancellation, and where it blocked the event loop for longer itself. Time in which others blocked the loop is not
    counted."""
    work = contained(call, named)
    if budget_s is None:
        return await work
    held = _TimedCoroutine(work)
    task = asyncio.ensure_future(held)
    task.add_done_callback(lambda _: work.close())  # one that was cancelled before it began was never awaited
    try:
        done, _ = await asyncio.wait((task,), timeout=budget_s)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not done:
        task.cancel()
        task.add_done_callback(_forget)
        raise OutOfTime(f"{named} took longer than {budget_s:g} s")
    if held.seconds > budget_s:
        raise OutOfTime(f"{named} took {held.seconds:.3f} s of {budget_s:g} s")
    return task.result()


class Unfinished(Generic[T]):
    """What is left of a call that waits, or that failed: `rest` goes on with it."""

    __slots__ = ("rest",)

    def __init__(self, rest: Callable[[], Awaitable[T]]) -> None:
        self.rest = rest


def begun(call: Callable[[], Awaitable[T]]) -> T | Unfinished[T]:
    """Make `call`, and run it up to where it first waits, as `at_once`."""
    try:
        work = call()
    except BaseException as error:
        return Unfinished(partial(_raise, error))
    if type(work) is CoroutineType or isinstance(work, Coroutine):
        return at_once(work)
    return Unfinished(lambda: work)


def at_once(work: Coroutine[Any, Any, T]) -> T | Unfinished[T]:
    """Run a coroutine up to where it first waits, and return its result if it has one by then: most have, and a timer,
    or `contained`, costs more than they do. Raises nothing: what the coroutine raised, `rest` raises again."""
    try:
        awaited = work.send(None)
    except StopIteration as ended:
        found: T = ended.value
        return found
    except BaseException as error:
        return Unfinished(partial(_raise, error))
    return Unfinished(partial(ResumedCoroutine, work, awaited))


def _raise(error: BaseException) -> Any:
    raise error


class ResumedCoroutine(Generic[T]):
    """Go on with a coroutine that waits for `awaited`, which it yielded to its first `send`."""

    def __init__(self, work: Coroutine[Any, Any, T], awaited: Any = None) -> None:
        self._work = work
        self._awaited = awaited

    def __await__(self) -> Generator[Any, None, T]:
        thrown: BaseException | None = None
        while True:
            try:
                yield self._awaited
            except BaseException as error:
                thrown = error
            try:
                self._awaited = self._step(thrown)
            except StopIteration as ended:
                return cast(T, ended.value)
            thrown = None

    def _step(self, thrown: BaseException | None) -> Any:
        """Run the coroutine up to where it waits next, and return for what. Raises `StopIteration` with its answer."""
        return self._work.send(None) if thrown is None else self._work.throw(thrown)


class _TimedCoroutine(ResumedCoroutine[T]):
    """Run a coroutine from its beginning, and add up the seconds for which it has the event loop."""

    seconds = 0.0

    def __await__(self) -> Generator[Any, None, T]:
        try:
            self._awaited = self._step(None)
        except StopIteration as ended:
            return cast(T, ended.value)
        return (yield from super().__await__())

    def _step(self, thrown: BaseException | None) -> Any:
        began = time.perf_counter()
        try:
            return super()._step(thrown)
        finally:
            self.seconds += time.perf_counter() - began


async def contained(call: Callable[[], Awaitable[T]], named: str) -> T:
    """Return the result of `call`. Turn an exception that would stop the event loop (`SystemExit`) or that looks like a
    client that left (a call that cancels itself, `GeneratorExit`) into a `StageMisbehaved` about `named`."""
    mine = asyncio.current_task()
    try:
        awaitable = call()
        if type(awaitable) is not CoroutineType and not inspect.isawaitable(awaitable):
            raise StageMisbehaved(f"{named} answered {type(awaitable).__name__}, nothing to await; write `async def`")
        return await awaitable
    except Exception:
        raise
    except BaseException as error:
        if _is_from_outside(error, mine):
            raise
        raise StageMisbehaved(f"{named} raised {type(error).__name__}") from error


def _is_from_outside(error: BaseException, mine: asyncio.Task[Any] | None) -> bool:
    """Return whether somebody cancels the task `mine`, or closes the coroutine that runs in it: that happens only while
    the task does not run."""
    if isinstance(error, asyncio.CancelledError):
        return mine is None or mine.cancelling() > 0
    return isinstance(error, GeneratorExit) and (mine is None or _running() is not mine)


def _running() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # the loop is gone
        return None


def _forget(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
