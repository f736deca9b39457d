"""Run a rail's call within a time limit, containing whatever it raises."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


async def within(budget_s: float | None, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`. Raises `TimeoutError` after `budget_s` seconds, even if `work` ignores its
    cancellation, and where it blocked the event loop for longer itself. Time in which others blocked the loop is not
    counted."""
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
        raise TimeoutError(f"took longer than {budget_s:g} s")
    if held.seconds > budget_s:
        raise TimeoutError(f"took {held.seconds:.3f} s of {budget_s:g} s")
    return task.result()


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
    """Return the result of `call`. Turn an exception that would stop the event loop (`SystemExit`), and a call that
    cancels itself, into a `RuntimeError` about `named`."""
    try:
        return await call()
    except (Exception, GeneratorExit):
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RuntimeError(f"{named} cancelled itself") from error
    except BaseException as error:
        raise RuntimeError(f"{named} raised {type(error).__name__}") from error


def _forget(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
