"""Wait for what a rail answers, and no longer than it may take."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
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


def _forget(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
