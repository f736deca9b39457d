"""Rows that a clock wrote which was ahead: they do not outlive what is kept, nor drive out what is written now."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sluicegate.gateway.database import SqliteTables
from sluicegate.gateway.feedback.store import AnsweredRequest, FeedbackStore
from sluicegate.gateway.recording.store import Chosen, Recording, RecordingStore

DAY_S = 86_400.0


class Clock(SqliteTables):
    """Tables whose clock the test sets."""

    now = 0.0

    def now_s(self, db: object) -> float:
        return self.now


@pytest.fixture
def tables(tmp_path: Path) -> Clock:
    found = Clock(tmp_path / "kept.db")
    found.now = time.time()
    return found


def answered(store: FeedbackStore, ids: list[str], most: int = 3) -> None:
    store.add_answered([AnsweredRequest("key a", id, "m") for id in ids], most)


def test_requests_of_a_day_ahead_do_not_keep_new_ones_from_feedback(tables: Clock) -> None:
    """They counted as the newest for a day: each new request was dropped at once."""
    store = FeedbackStore(tables)
    tables.now += DAY_S
    answered(store, ["ahead 1", "ahead 2", "ahead 3"])
    tables.now -= DAY_S
    for number in range(3):
        answered(store, [f"now {number}"])
        assert store.answered("key a", f"now {number}") is not None
    assert store.answered("key a", "ahead 3") is None
    assert all(store.answered("key a", f"now {number}") is not None for number in range(3))


def test_feedback_of_the_future_is_kept_no_longer_than_other(tables: Clock) -> None:
    store = FeedbackStore(tables)
    tables.now += 365 * DAY_S
    asked = AnsweredRequest("key a", "r", "m")
    store.add_answered([asked], 10)
    store.put(asked, 1.0, "", None)
    tables.now -= 365 * DAY_S
    store.expire(DAY_S)
    assert len(store.newest(10)) == 1
    tables.now += DAY_S + 1
    store.expire(DAY_S)
    assert store.newest(10) == []
    assert store.answered("key a", "r") is None


def test_recordings_of_the_future_go_first_and_no_later_than_others(tables: Clock) -> None:
    store = RecordingStore(tables, bytes(range(32)))

    def record(id: str) -> None:
        store.add([Recording(id, "t", "k", "", {}, b"{}" * 500)])

    tables.now += 365 * DAY_S
    record("ahead")
    tables.now -= 365 * DAY_S
    store.trim(DAY_S, 10**9)
    tables.now += 1
    record("now")
    store.trim(DAY_S, 1500)
    assert [one.id for one in store.listed(Chosen(), 0, 10)] == ["now"]
    tables.now += DAY_S + 1
    store.trim(DAY_S, 10**9)
    assert store.listed(Chosen(), 0, 10) == []
