"""Waiting for a database's thread: not for ever, no cancellation is lost on the way, and no write whose caller left."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.database import Connection, Database, DatabaseUnavailable, patient, postgres
from sluicegate.gateway.database.tables import SqliteTables
from sluicegate.gateway.review.queue import ReviewQueue
from sluicegate.gateway.settings import DatabaseSettings
from sluicegate.plugins.concurrency.ending import end_tasks
from sluicegate.plugins.concurrency.thread_calls import ThreadCalls
from tests.gateway.stores.postgres_server import needs_postgres
from tests.waiting import LIMIT_S


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


class Slow:
    """Work that begins, and goes on only when it may."""

    def __init__(self, work: Callable[[], Any] = lambda: None) -> None:
        self.begun, self.may_go_on = threading.Event(), threading.Event()
        self._work = work

    def __call__(self) -> None:
        self.begun.set()
        assert self.may_go_on.wait(LIMIT_S)
        self._work()


async def left_by_its_caller(call: Callable[[Callable[[], Any]], Any], work: Slow, *behind: Callable[[], Any]) -> None:
    """Begin `work`, and `behind` it calls whose turn has not come; then leave all of them. Nothing has gone on yet."""
    tasks = [asyncio.ensure_future(call(one)) for one in (work, *behind)]
    await asyncio.to_thread(work.begun.wait, LIMIT_S)
    await end_tasks(tasks)
    assert all(task.cancelled() for task in tasks)


def insert(db: Connection, name: str) -> None:
    db.execute("create table if not exists sluicegate.left_behind (name text)")
    db.execute(f"insert into sluicegate.left_behind values ('{name}')")


def names(db: Connection) -> list[tuple[Any, ...]]:
    return sorted(db.execute("select name from sluicegate.left_behind").fetchall())


async def test_a_write_whose_caller_left_is_in_the_file_when_it_is_closed(tmp_path: Path) -> None:
    """The one that runs, and the one that waits behind it: closing waits for both."""
    tables = SqliteTables(tmp_path / "kept.sqlite3")

    def write(name: str) -> None:
        with tables.transaction() as db:
            insert(db, name)

    slow = Slow(lambda: write("running"))
    await left_by_its_caller(tables.call, slow, lambda: write("waiting"))
    closing = asyncio.create_task(asyncio.to_thread(tables.close))
    await asyncio.wait({closing}, timeout=0.05)
    assert not closing.done()
    slow.may_go_on.set()
    await closing
    again = SqliteTables(tmp_path / "kept.sqlite3")
    with again.transaction() as db:
        assert names(db) == [("running",), ("waiting",)]
    again.close()


@needs_postgres
async def test_a_write_whose_caller_left_is_in_the_database(url: str) -> None:
    database = Database(DatabaseSettings(url=url, connections=1))
    await asyncio.to_thread(database.open)

    def write(name: str) -> None:
        with database.transaction() as db:
            insert(db, name)

    slow = Slow(lambda: write("running"))
    await left_by_its_caller(database.call, slow, lambda: write("waiting"))
    slow.may_go_on.set()

    def written() -> list[tuple[Any, ...]]:
        with database.transaction() as db:
            return names(db)

    assert await database.call(written) == [("running",), ("waiting",)]  # one connection: after both
    await asyncio.to_thread(database.close)


async def test_a_write_of_reviews_whose_caller_left_is_done_before_their_store_is_closed() -> None:
    """A reviewer who goes away has decided all the same."""
    done: list[str] = []

    class Store:
        def close(self) -> None:
            done.append("closed")

    queue = ReviewQueue(Store())  # type: ignore[arg-type]
    slow = Slow(lambda: done.append("running"))
    await left_by_its_caller(queue._call, slow, lambda: done.append("waiting"))
    slow.may_go_on.set()
    await queue.close()
    assert done == ["running", "waiting", "closed"]


async def test_calls_that_nobody_waits_for_are_done_when_their_threads_are_closed_waiting() -> None:
    calls, done = ThreadCalls(1, "test"), list[str]()
    slow = Slow(lambda: done.append("first"))
    calls.begin(slow)
    calls.begin(lambda: done.append("second"))
    slow.may_go_on.set()
    await asyncio.to_thread(calls.close, waiting=True)
    assert done == ["first", "second"]
