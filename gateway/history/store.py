"""Requests in SQLite, bounded in rows, bytes and days: the oldest go first.

Full accounts of requests (`details`) are kept only in a file, and sealed per tenant where the operator gives a secret.
Not covered: names, times and figures of the lines, which whoever reads the file sees.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluicegate.gateway.database.private_file import make_private
from sluicegate.gateway.history.rail_counts import TABLE, RailKey, add_counts
from sluicegate.gateway.history.request_filter import HistoryFilter
from sluicegate.gateway.history.rows import COLUMNS, RequestLine, Verdict, values_of
from sluicegate.gateway.review.stores.base import Sealer
from sluicegate.plugins.disk.database_file import DatabaseFile, closed_on_error

FILE = "requests.sqlite3"
LAYOUT = 1
"""Version of the tables; a file with another version is replaced."""
TYPES = {"float": "real", "int": "integer", "bool": "integer", "str": "text"}
COLUMN_TYPES = {
    name: TYPES[RequestLine.__annotations__[name].split(" ")[0].replace("Ending", "str")] for name in COLUMNS
}
LINES = ("at_s", *(name for name in COLUMNS if name != "at_s"))
"""Columns of an index with everything except the full accounts, which are most of the bytes: figures read only the
index."""
SCHEMA = f"""
pragma journal_mode = wal;
pragma synchronous = normal;
create table if not exists requests (seq integer primary key autoincrement,
    {", ".join(f"{name} {kind}" for name, kind in COLUMN_TYPES.items())}, details blob);
create table if not exists verdicts (seq integer, slot text, rail text, verdict text);
create index if not exists verdicts_seq on verdicts (seq);
{TABLE}pragma user_version = {LAYOUT};
"""
FILE_INDEXES = f"""
create index if not exists requests_lines on requests ({", ".join(LINES)});
drop index if exists requests_at;
create index if not exists requests_id on requests (id);
create index if not exists requests_trace on requests (trace);
"""
MEMORY_INDEXES = "create index if not exists requests_at on requests (at_s);"
"""In memory there are no full accounts: nothing is looked up by name, and the table is as narrow as `LINES`."""
IN_LINES = "at_s > 0"
"""True of every line; a condition on its first column makes SQLite read `LINES` instead of the table."""
INSERT = f"insert into requests ({', '.join(COLUMNS)}, details) values ({', '.join('?' * len(COLUMNS))}, ?)"
FREED = 0.05
"""Share of the rows that is removed when there are too many bytes."""
MOST_DETAILS = 256 * 1024
"""Most compressed bytes of one request's account; of a larger one only the line is kept."""


@dataclass(frozen=True, slots=True)
class HistoryBounds:
    rows: int
    bytes: int
    days: float


class HistoryStore:
    """Used from any thread. `path` None: in memory. Raises `sqlite3.Error` and `OSError`."""

    def __init__(self, path: Path | None, bounds: HistoryBounds, sealer: Sealer | None = None) -> None:
        self._path = path
        self._bounds = bounds
        self._sealer = sealer
        self._lock = threading.Lock()
        self._file = DatabaseFile(path, self._connected)

    @property
    def keeps_details(self) -> bool:
        return self._path is not None

    @property
    def is_sealed(self) -> bool:
        return self._sealer is not None

    def add(
        self,
        lines: Iterable[tuple[RequestLine, list[Verdict], Any]],
        now_s: float,
        counts: Mapping[RailKey, int] | None = None,
    ) -> None:
        """Add lines, each with its verdicts, and its details or None. Then the oldest lines are deleted, as far as they
        are too many."""
        with self._lock, self._db as db:
            add_counts(db, counts or {}, now_s)
            said: list[tuple[int | None, str, str, str]] = []
            for row, verdicts, details in lines:
                packed = None if details is None else self._packed(row, details)
                number = db.execute(INSERT, (*values_of(row), packed)).lastrowid
                said += [(number, *verdict) for verdict in verdicts]
            db.executemany("insert into verdicts values (?, ?, ?, ?)", said)
            self._forget(db, now_s)

    def rows(self, wanted: HistoryFilter, before: int | None, limit: int) -> tuple[list[tuple[int, RequestLine]], int]:
        """Return (number and line of the newest, how many there are in all). `before`: only lines of lower numbers."""
        where, values = wanted.where()
        after = where if before is None else f"{where} and seq < {int(before)}"
        columns = ", ".join(("seq", *COLUMNS))
        with self._lock:
            found = self._db.execute(
                f"select {columns} from requests where {after} order by seq desc limit ?", (*values, limit)
            ).fetchall()
            [(total,)] = self._db.execute(
                f"select count(*) from requests where {IN_LINES} and {where}", values
            ).fetchall()
        return [(line[0], _row(line[1:])) for line in found], total

    def verdicts(self, numbers: Iterable[int]) -> dict[int, list[Verdict]]:
        """Return the verdicts of lines, by their number."""
        wanted = list(numbers)
        found: dict[int, list[Verdict]] = {number: [] for number in wanted}
        marks = ", ".join("?" * len(wanted))
        with self._lock:
            query = f"select seq, slot, rail, verdict from verdicts where seq in ({marks})"
            for seq, slot, rail, verdict in self._db.execute(query, wanted):
                found[seq].append((slot, rail, verdict))
        return found

    def details(self, name: str) -> Any:
        """Return the details of a request id or trace id; None where they are not kept."""
        with self._lock:
            query = "select tenant, id, details from requests where id = ?1 or trace = ?1 order by seq desc limit 1"
            found = self._db.execute(query, (name,)).fetchone()
        if found is None or found[2] is None:
            return None
        tenant, id, data = found
        packed = data if self._sealer is None else self._sealer.open(tenant, data, _bound(id))
        return json.loads(zlib.decompress(packed))

    def query(self, sql: str, values: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._db.execute(sql, list(values)).fetchall()

    def open(self) -> None:
        with self._lock:
            self._db  # noqa: B018

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def _packed(self, row: RequestLine, details: Any) -> bytes | None:
        packed = zlib.compress(json.dumps(details, default=str).encode(), 3)
        if len(packed) > MOST_DETAILS:
            return None
        return packed if self._sealer is None else self._sealer.seal(row.tenant, packed, _bound(row.id))

    def _forget(self, db: sqlite3.Connection, now_s: float) -> None:
        bounds = self._bounds
        [(first, last)] = db.execute("select min(seq), max(seq) from requests").fetchall()
        if first is None:
            return
        until = last - bounds.rows
        if self._used_bytes(db) > bounds.bytes:
            until = max(until, first + max(1, int((last - first) * FREED)))
        db.execute("delete from requests where seq <= ? or at_s < ?", (until, now_s - bounds.days * 86_400))
        [(first,)] = db.execute("select coalesce(min(seq), 0) from requests").fetchall()
        db.execute("delete from verdicts where seq < ?", (first or last + 1,))

    def _used_bytes(self, db: sqlite3.Connection) -> int:
        [(pages,)] = db.execute("pragma page_count").fetchall()
        [(free,)] = db.execute("pragma freelist_count").fetchall()
        [(size,)] = db.execute("pragma page_size").fetchall()
        return int(pages - free) * int(size)

    @property
    def _db(self) -> sqlite3.Connection:
        return self._file.connection()

    def _connected(self) -> sqlite3.Connection:
        if self._path is not None:
            make_private(self._path)
        return _opened(self._path)


def _opened(path: Path | None) -> sqlite3.Connection:
    database = sqlite3.connect(path or ":memory:", timeout=5.0, check_same_thread=False)
    with closed_on_error(database):
        [(layout,)] = database.execute("pragma user_version").fetchall()
        if layout not in (0, LAYOUT):
            database.executescript("drop table if exists requests; drop table if exists verdicts;")
        database.executescript(SCHEMA + (MEMORY_INDEXES if path is None else FILE_INDEXES))
    return database


def _row(values: tuple[Any, ...]) -> RequestLine:
    found = dict(zip(COLUMNS, values, strict=True))
    for name in ("stream", "cached", "sampled"):
        found[name] = bool(found[name])
    found["met"] = None if found["met"] is None else bool(found["met"])
    return RequestLine(**found)


def _bound(id: str) -> bytes:
    return b"history\0" + id.encode("utf-8", "surrogatepass")
