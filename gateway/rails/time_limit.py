"""Wait for what a rail answers, no longer than it may take, whatever it raises."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def within(budget_s: float | None, work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` answers. Raises `TimeoutError` after `budget_s`, even if `work` ignores its cancellation."""
    if budget_s is None:
        return await work
    began = time.perf_counter()
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait((task,), timeout=budget_s)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not done:
        task.cancel()
        task.add_done_callback(_forget)
        raise TimeoutError(f"took longer than {budget_s:g} s")
    if (took := time.perf_counter() - began) > budget_s:  # it kept the event loop to itself
        raise TimeoutError(f"took {took:.3f} s of {budget_s:g} s")
    return task.result()


async def contained(call: Callable[[], Awaitable[T]], named: str) -> T:
    """Return what `call` answers. What would stop the event loop (`SystemExit`) becomes a `RuntimeError` about `named`,
    and so does a call that cancels itself."""
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
