"""Waiting for what comes true: a test that sleeps for a while and hopes fails on a busy machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

LIMIT_S = 300.0
"""Much longer than anything takes on a machine with twenty things to do; only what never comes true waits so long."""


def until(condition: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Block the thread until `condition` holds."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"the condition did not come true in {limit_s:g} s"
        time.sleep(0.005)


async def soon(condition: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Wait until `condition` holds, and let the event loop go on meanwhile."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"the condition did not come true in {limit_s:g} s"
        await asyncio.sleep(0.001)
