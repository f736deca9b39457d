"""Tasks end although a cancellation was lost."""

from __future__ import annotations

import asyncio

import pytest

from sluicegate.plugins.concurrency import ending
from sluicegate.plugins.concurrency.ending import end_tasks


@pytest.mark.asyncio
@pytest.mark.parametrize("lost", [0, 1, 3])
async def test_a_task_that_loses_cancellations_ends_all_the_same(lost: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a loop around `asyncio.wait_for` of Python 3.11, which returns its result where both come at once: a gateway
    with its accounts in Redis sometimes never stopped."""
    monkeypatch.setattr(ending, "AGAIN_S", 0.01)
    left = lost

    async def go_on() -> None:
        nonlocal left
        while True:
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                if not left:
                    raise
                left -= 1

    task = asyncio.create_task(go_on())
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        await end_tasks((None, task))
    assert task.cancelled()
    assert left == 0


@pytest.mark.asyncio
async def test_tasks_that_ended_or_fail_are_no_trouble() -> None:
    async def fail() -> None:
        raise ValueError

    ended, failing = asyncio.create_task(asyncio.sleep(0)), asyncio.create_task(fail())
    await asyncio.wait((ended,))
    await end_tasks((ended, failing))
    await end_tasks(())
    assert ended.done()
    assert failing.done()
