"""Answered requests and the feedback on them, in tables. Calls block."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sluicegate.gateway.database import Connection, Tables, pull_back
from sluicegate.plugins.frozen import frozen_when_checked


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """A request that feedback can be given on. `owner`: who asked. `version`, `share`: as they were drawn; `share` 1
    where there was no choice."""

    owner: str
    request: str
    model: str
    route: str = ""
    version: str = ""
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class KeptFeedback:
    """Feedback as it lies in the table. `comment` is sealed."""

    owner: str
    request: str
    at_s: float
    score: float | None
    label: str
    model: str
    version: str
    comment: bytes | None


class FeedbackStore:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def add_answered(self, found: Sequence[AnsweredRequest], most: int) -> None:
        """Add answered requests. An owner keeps at most `most`; the oldest are dropped."""
        put = "insert into sluicegate.answered values (%s, %s, %s, %s) on conflict (owner, request) do update set "
        put += "at_s = excluded.at_s, record = excluded.record"
        with self._tables.transaction() as db:
            now = self._tables.now_s(db)
            for number, one in enumerate(found):  # in order, although they are written at once
                record = json.dumps([one.model, one.route, one.version, one.share])
                db.execute(put, (one.owner, one.request, now + number * 1e-6, record))
            for owner in {one.owner for one in found}:
                _cut(db, owner, most, now)

    def answered(self, owner: str, request: str) -> AnsweredRequest | None:
        query = "select record from sluicegate.answered where owner = %s and request = %s"
        with self._tables.transaction() as db:
            row = db.execute(query, (owner, request)).fetchone()
        return None if row is None else AnsweredRequest(owner, request, *json.loads(row[0]))

    def put(self, asked: AnsweredRequest, score: float | None, label: str, comment: bytes | None) -> bool:
        """Keep feedback. Return whether it is the first on that request; a later one takes its place."""
        record = json.dumps([score, label, asked.model, asked.version])
        put = "insert into sluicegate.feedback values (%s, %s, %s, %s, %s) on conflict (owner, request) do update set "
        put += "at_s = excluded.at_s, record = excluded.record, comment = excluded.comment"
        with self._tables.transaction() as db:
            known = "select 1 from sluicegate.feedback where owner = %s and request = %s"
            first = db.execute(known, (asked.owner, asked.request)).fetchone() is None
            db.execute(put, (asked.owner, asked.request, self._tables.now_s(db), record, comment))
        return first

    def newest(self, limit: int, request: str = "") -> list[KeptFeedback]:
        """Return the newest feedback first, on all requests or on the one of this id."""
        query = "select owner, request, at_s, record, comment from sluicegate.feedback "
        query += "where request = %s " if request else ""
        values = (request, limit) if request else (limit,)
        with self._tables.transaction() as db:
            rows = db.execute(f"{query}order by at_s desc limit %s", values).fetchall()
        return [_kept(owner, request, at_s, record, comment) for owner, request, at_s, record, comment in rows]

    def forget(self, owner: str) -> int:
        """Delete everything of one owner. Return how many pieces of feedback that were."""
        with self._tables.transaction() as db:
            db.execute("delete from sluicegate.answered where owner = %s", (owner,))
            return db.execute("delete from sluicegate.feedback where owner = %s", (owner,)).rowcount

    def expire(self, keep_s: float) -> None:
        with self._tables.transaction() as db:
            now = self._tables.now_s(db)
            for table in ("answered", "feedback"):
                pull_back(db, table, now)
            before = now - keep_s
            db.execute("delete from sluicegate.answered where at_s < %s", (before,))
            db.execute("delete from sluicegate.feedback where at_s < %s", (before,))


def _kept(owner: str, request: str, at_s: float, record: str, comment: bytes | None) -> KeptFeedback:
    score, label, model, version = json.loads(record)
    return KeptFeedback(owner, request, at_s, score, label, model, version, None if comment is None else bytes(comment))


def _cut(db: Connection, owner: str, most: int, now_s: float) -> None:
    [(count,)] = db.execute("select count(*) from sluicegate.answered where owner = %s", (owner,)).fetchall()
    if int(count) > most:
        pull_back(db, "answered", now_s - 1)  # before those that came just now
        gone = (
            "delete from sluicegate.answered where owner = %s and request in "
            "(select request from sluicegate.answered where owner = %s order by at_s, request limit %s)"
        )
        db.execute(gone, (owner, owner, int(count) - most))
