"""Answers in a file: they survive, are shared between processes, stay within a budget, and a broken file is no end."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path

import pytest

from sluicegate.cache import SqliteStore, TieredCache, label
from sluicegate.plugins import Caller, Overloaded
from tests.cache.examples import ANSWERS, answer, asked


def opened(path: Path, budget_bytes: int = 10_000_000, deadline_s: float = 2.0) -> TieredCache:
    return TieredCache(SqliteStore(path, budget_bytes, 60, deadline_s=deadline_s))


def others_rights(folder: Path) -> set[int]:
    return {path.stat().st_mode & 0o077 for path in folder.iterdir()}


async def test_answers_survive_a_restart(tmp_path: Path) -> None:
    for expected in (False, True):
        cache = opened(tmp_path / "a.db")
        recall = await cache.recall(asked())
        assert (recall.found is not None) is expected
        await cache.remember(asked(), ANSWERS, recall)
        await cache.close()


async def test_its_file_is_for_its_user_alone(tmp_path: Path) -> None:
    """Answers lie in it; the log of SQLite beside it, too."""
    cache = opened(tmp_path / "a.db")
    await cache.remember(asked(), ANSWERS, await cache.recall(asked()))
    assert others_rights(tmp_path) == {0}
    await cache.close()


async def test_two_stores_on_one_file_see_each_others_answers_and_purges(tmp_path: Path) -> None:
    one, other = opened(tmp_path / "a.db"), opened(tmp_path / "a.db")
    await one.remember(asked(tags=["t"]), ANSWERS, await one.recall(asked(tags=["t"])))
    assert (await other.recall(asked())).found is not None
    await other.purge(Caller("acme"), tenant="acme", label=label("tag", "t"))
    assert (await one.recall(asked())).found is None
    await one.close()
    await other.close()


async def test_the_least_recently_used_go_when_the_budget_is_spent(tmp_path: Path) -> None:
    clock = [time.time()]
    store = SqliteStore(tmp_path / "a.db", 100_000, 60_000, deadline_s=2, clock=lambda: clock[0])
    for number in range(120):
        await store.store(asked(f"q{number}").key, answer("x" * 2000))
        clock[0] += 100
        assert await store.look_up(asked("q0").key) is not None
    assert await store.look_up(asked("q1").key) is None
    assert await store.look_up(asked("q119").key) is not None
    assert store.stats()["evicted_total"] > 50
    await store.close()


async def test_what_a_clock_wrote_that_was_set_back_since_is_not_kept_for_as_long(tmp_path: Path) -> None:
    """An answer stayed for the year that the clock was ahead, and was the last to be evicted."""
    clock = [time.time() + 365 * 86_400]
    store = SqliteStore(tmp_path / "a.db", 100_000, 60, deadline_s=2, clock=lambda: clock[0])
    await store.store(asked("q").key, answer("x"))
    assert await store.look_up(asked("q").key) is not None
    clock[0] -= 365 * 86_400
    assert await store.look_up(asked("q").key) is None
    assert await store.held([]) == []
    for number in range(16):  # room is made now and then
        await store.store(asked(f"q{number}").key, answer("x"))
    await store.close()
    with sqlite3.connect(tmp_path / "a.db") as file:
        assert file.execute("select max(expires_s) from entries").fetchone()[0] <= clock[0] + 60
    file.close()


async def test_a_clock_that_is_set_back_a_little_costs_no_answer(tmp_path: Path) -> None:
    clock = [time.time()]
    store = SqliteStore(tmp_path / "a.db", 100_000, 60, deadline_s=2, clock=lambda: clock[0])
    await store.store(asked("q").key, answer("x"))
    clock[0] -= 30
    assert await store.look_up(asked("q").key) is not None
    await store.close()


@pytest.mark.parametrize("garbage", [b"", b"no database at all" * 100])
async def test_a_file_that_is_no_database_is_set_aside(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(garbage)
    cache = opened(path)
    await cache.remember(asked(), ANSWERS, await cache.recall(asked()))
    assert (await cache.recall(asked())).found is not None
    assert (tmp_path / "a.db.damaged").exists() is bool(garbage)
    await cache.close()


async def test_a_file_that_is_locked_costs_its_deadline_and_heals(tmp_path: Path) -> None:
    cache = opened(tmp_path / "a.db", deadline_s=0.05)
    await cache.start()
    locker = sqlite3.connect(tmp_path / "a.db")
    locker.execute("begin immediate")
    recall = await cache.recall(asked())
    assert not await cache.remember(asked(), ANSWERS, recall)
    stats = cache.stats()
    assert stats["store_timeouts_total"] + stats["store_errors_total"] == 1, "the lock, held for ever, was given up"
    with pytest.raises(Overloaded, match="nothing was withdrawn"):
        await cache.purge(Caller("acme"), tenant="acme")
    locker.rollback()
    locker.close()
    for _ in range(20):  # on a busy machine a write may take longer than its deadline
        if await cache.remember(asked(), ANSWERS, await cache.recall(asked())):
            break
    else:
        pytest.fail("nothing is kept after the lock was given up")
    await cache.close()


async def test_a_file_that_takes_no_answers_is_reported_until_it_does(tmp_path: Path) -> None:
    """SQLite's own bound of a file stands for a full disk: the same error, and reads go on."""
    store = SqliteStore(tmp_path / "a.db", 10_000_000, 60, deadline_s=2)
    await store.start()
    await store.store(asked("q0").key, ANSWERS)
    assert store.troubles() == ()
    database = store._file.connection()

    async def bounded(pages: int) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(store._thread, lambda: database.execute(f"pragma max_page_count = {pages}"))

    await bounded(1)  # no fewer than there are
    await store.store(asked("q1").key, answer("x" * 100_000))
    [trouble] = store.troubles()
    assert "takes no answers (database or disk is full)" in trouble.reason
    assert not trouble.refuses
    assert await store.look_up(asked("q0").key) is not None
    await bounded(1_000_000)
    await store.store(asked("q2").key, ANSWERS)
    assert store.troubles() == ()
    await store.close()
