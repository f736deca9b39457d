"""Calls on threads go on where their caller leaves, except those that nobody waits for when their turn comes."""

from __future__ import annotations

import asyncio
import threading

import pytest

from sluicegate.plugins.concurrency.ending import end_tasks
from sluicegate.plugins.concurrency.thread_calls import ThreadCalls
from tests.waiting import LIMIT_S


async def test_what_was_not_begun_when_its_caller_left_is_never_begun() -> None:
    """A store that answers again is asked for those who wait, not for all that came while it was away."""
    calls, going_on, done = ThreadCalls(1, "test"), threading.Event(), list[str]()
    first = asyncio.create_task(calls.run_within(LIMIT_S, lambda: going_on.wait(LIMIT_S)))
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        await calls.run_within(0.01, lambda: done.append("late"))
    left = asyncio.create_task(calls.run_within(LIMIT_S, lambda: done.append("cancelled")))
    await asyncio.sleep(0)
    await end_tasks([left])
    going_on.set()
    assert await first
    await calls.run(lambda: done.append("waits"))
    assert done == ["waits"]
    calls.close()


async def test_what_runs_goes_on_without_its_caller_and_is_waited_for() -> None:
    calls, going_on, done = ThreadCalls(1, "test"), threading.Event(), list[str]()

    def work() -> None:
        going_on.wait(LIMIT_S)
        done.append("written")

    for waiting in (calls.run(work), calls.run_within(LIMIT_S, work)):
        going_on.clear()
        task = asyncio.create_task(waiting)
        await asyncio.sleep(0.05)
        await end_tasks([task])
        asyncio.get_running_loop().call_later(0.05, going_on.set)
        await calls.ended(LIMIT_S)
    assert done == ["written"] * 2
    calls.close()
