"""Held texts in one SQLite file: what was written is on the disk before the caller hears of it.

Texts are sealed per tenant where the operator gives a secret. Not covered: names, reasons and times, which whoever
reads the file sees; and several gateways on several machines, which each have a file of their own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

from sluicegate.gateway.database.private_file import make_private
from sluicegate.gateway.review.items import FalsePositiveReport, ReviewItem, Status
from sluicegate.gateway.review.stores.base import Sealer, Sealing
from sluicegate.plugins.disk.database_file import DatabaseFile, closed_on_error

ITEM_COLUMNS = ", ".join(field.name for field in fields(ReviewItem))
REPORT_COLUMNS = ", ".join(field.name for field in fields(FalsePositiveReport))
SCHEMA = """
pragma journal_mode = wal;
pragma synchronous = full;
create table if not exists reviews (
    id text primary key, tenant text not null, key_id text, kind text not null, model text not null, rail text not null,
    reason text not null, request_id text not null, created_s real not null, expires_s real not null,
    status text not null, decided_s real, decided_by text, note text not null, body blob not null
) without rowid;
create index if not exists reviews_status on reviews (status, created_s);
create table if not exists reports (
    id text primary key, tenant text not null, key_id text, created_s real not null, rail text not null,
    request_id text not null, note text not null, body blob not null
) without rowid;
"""


class SqliteReviewStore:
    """A `ReviewStore`. `path` None: in memory, gone with the process. Raises `sqlite3.Error`."""

    def __init__(self, path: Path | None, sealer: Sealer | None = None) -> None:
        self._path = path
        self._sealing = Sealing(sealer)
        self._file = DatabaseFile(path, self._connected)

    def put(self, item: ReviewItem, body: Any) -> None:
        self._insert("reviews", item, body)

    def put_report(self, report: FalsePositiveReport, body: Any) -> None:
        self._insert("reports", report, body)

    def get(self, id: str) -> tuple[ReviewItem, Any] | None:
        found = self._db.execute(f"select {ITEM_COLUMNS}, body from reviews where id = ?", (id,)).fetchone()
        if found is None:
            return None
        item = ReviewItem(*found[:-1])
        return item, self._sealing.opened(item, found[-1])

    def items(self, status: Status | None, tenant: str | None, limit: int) -> list[tuple[ReviewItem, Any]]:
        chosen = "(?1 is null or status = ?1) and (?2 is null or tenant = ?2)"
        asked = f"select {ITEM_COLUMNS}, body from reviews where {chosen} order by created_s limit ?3"
        rows = self._db.execute(asked, (status, tenant, limit)).fetchall()
        items = [(ReviewItem(*row[:-1]), row[-1]) for row in rows]
        return [(item, self._sealing.opened(item, body)) for item, body in items]

    def reported(self, tenant: str) -> tuple[int, int]:
        query = "select count(*), coalesce(sum(length(body)), 0) from reports where tenant = ?"
        count, size = self._db.execute(query, (tenant,)).fetchone()
        return count, size

    def remove_report(self, id: str) -> bool:
        with self._db as db:
            return db.execute("delete from reports where id = ?", (id,)).rowcount == 1

    def reports(self, limit: int) -> list[tuple[FalsePositiveReport, Any]]:
        query = f"select {REPORT_COLUMNS}, body from reports order by created_s desc limit ?"
        rows = self._db.execute(query, (limit,)).fetchall()[::-1]
        found = [(FalsePositiveReport(*row[:-1]), row[-1]) for row in rows]
        return [(report, self._sealing.opened(report, body)) for report, body in found]

    def decide(self, id: str, status: Status, by: str, note: str, now_s: float) -> bool:
        change = "update reviews set status = ?, decided_s = ?, decided_by = ?, note = ? where id = ? and status = ?"
        with self._db as db:
            return db.execute(change, (status, now_s, by, note, id, "pending")).rowcount == 1

    def replace_body(self, item: ReviewItem, body: Any) -> None:
        with self._db as db:
            db.execute("update reviews set body = ? where id = ?", (self._sealing.sealed(item, body), item.id))

    def claim(self, id: str, who: str, for_s: float) -> bool:
        """Return True: there is one gateway, whose queue lets one task at a time answer."""
        return True

    def release(self, id: str, who: str) -> None:
        """Do nothing: nothing was claimed."""

    def expire(self, now_s: float, keep_s: float) -> int:
        late = "update reviews set status = 'expired', decided_s = expires_s where status = 'pending'"
        with self._db as db:
            db.execute("delete from reviews where status != 'pending' and decided_s <= ?", (now_s - keep_s,))
            return db.execute(f"{late} and expires_s <= ?", (now_s,)).rowcount

    def counts(self) -> dict[str, int]:
        found = dict(self._db.execute("select status, count(*) from reviews group by status").fetchall())
        [(reports,)] = self._db.execute("select count(*) from reports").fetchall()
        return {**found, "reports": reports}

    def close(self) -> None:
        self._file.close()

    @property
    def _db(self) -> sqlite3.Connection:
        return self._file.connection()

    def _connected(self) -> sqlite3.Connection:
        if self._path is not None:
            make_private(self._path)
        database = sqlite3.connect(self._path or ":memory:", timeout=5.0, check_same_thread=False)
        with closed_on_error(database):
            database.executescript(SCHEMA)
        return database

    def _insert(self, table: str, facts: ReviewItem | FalsePositiveReport, body: Any) -> None:
        values: Sequence[Any] = (*astuple(facts), self._sealing.sealed(facts, body))
        with self._db as db:
            db.execute(f"insert into {table} values ({', '.join('?' * len(values))})", values)
