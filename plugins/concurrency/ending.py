"""End tasks that run for as long as their owner does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

AGAIN_S = 0.5


async def end_tasks(tasks: Iterable[asyncio.Task[Any] | None]) -> None:
    """Cancel tasks until all have ended, however they end; None is none.

    Again every `AGAIN_S` seconds, since a library may lose a cancellation: in Python 3.11 `asyncio.wait_for` returns
    its result where both come at once, as in the Redis client, and a loop around it would go on for ever.
    """
    left = {task for task in tasks if task is not None}
    while left:
        for task in left:
            task.cancel()
        ended, left = await asyncio.wait(left, timeout=AGAIN_S)
        for task in ended:
            if not task.cancelled():
                task.exception()  # noted as seen
