"""Waiting for a database's thread: not for ever, and no cancellation is lost on the way."""

from __future__ import annotations

import asyncio

import pytest

from sluicegate.gateway.database import DatabaseUnavailable, patient, postgres


@pytest.mark.parametrize("turns", range(8))
async def test_a_cancellation_that_comes_as_the_work_ends_is_no_answer(turns: int) -> None:
    """Whatever loops over calls would go on for ever, and the gateway with it, which waits for the loop to end."""
    work: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    waiting = asyncio.ensure_future(patient(work))
    await asyncio.sleep(0)
    work.set_result(1)
    for _ in range(turns):
        await asyncio.sleep(0)
    cancelled = waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled() == cancelled


async def test_an_answer_that_does_not_come_is_a_database_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "CALL_S", 0.01)
    with pytest.raises(DatabaseUnavailable, match=r"no answer for 0\.01 s"):
        await patient(asyncio.get_running_loop().create_future())
