"""Answers in one file: they survive a restart, and processes of one machine share them.

All work is done in one thread of the store's own. Not covered: network file systems, whose locks SQLite cannot trust.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from sluicegate.cache.entries import GENERATION, CacheEntry, Counts, IndexPoll, IndexRow, LookupResult, StoreTotals
from sluicegate.cache.stores.codec import HEAD_BYTES, EntrySealer, decode_row, encode, encode_row, has_label, mark, read
from sluicegate.cache.stores.entry_check import MAX_ENTRY_BYTES, CorruptEntry
from sluicegate.cache.stores.memory import keepable
from sluicegate.cache.stores.resilient_calls import ResilientCalls
from sluicegate.plugins import Answer, CacheKey, Trouble
from sluicegate.plugins.disk.database_file import DatabaseFile, closed_on_error
from sluicegate.plugins.errors import Overloaded

T = TypeVar("T")
log = logging.getLogger("sluicegate.cache")
ROWS_A_LOOK = 1000
TOUCH_S = 60
"""Accuracy of the time of last use: writing it at each hit would cost more than the hit."""
PURGE_DEADLINE_S = 10.0
SCHEMA = """
pragma journal_mode = wal;
pragma synchronous = normal;
create table if not exists entries (
    tenant text not null, model text not null, digest text not null, body blob not null, size integer not null,
    expires_s real not null, used_s real not null, primary key (tenant, model, digest)
) without rowid;
create index if not exists entries_used on entries (used_s, size);
create table if not exists epochs (
    tenant text not null, label text not null, epoch integer not null, primary key (tenant, label)
) without rowid;
create table if not exists rows (
    id integer primary key autoincrement, tenant text not null, scope text not null, data blob not null,
    expires_s real not null
);
create index if not exists rows_scope on rows (tenant, scope, id);
"""
EVERYONE = ""
"""Used in place of a tenant for epochs that apply to all tenants."""


class SqliteStore:
    """`budget_bytes` counts the bodies of entries; the least recently used go first. Rows of the semantic index (0.8 kB
    each) are bounded by their time to live alone. Used from one event loop."""

    def __init__(
        self,
        path: Path,
        budget_bytes: int,
        ttl_s: float,
        *,
        sealer: EntrySealer | None = None,
        deadline_s: float = 0.05,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._budget_bytes = budget_bytes
        self._ttl_s = ttl_s
        self._sealer = sealer
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "cache-sqlite")
        self._file = DatabaseFile(path, self._connected)
        self._puts = 0
        self._fault = ""
        """Why the last answer could not be written."""
        names = ("hits", "misses", "stored", "refused", "damaged", "withdrawn", "purged", "evicted", "reset")
        self._counts = Counts({f"{name}_total": 0 for name in (*names, "errors", "timeouts", "skipped", "opened")})
        self._calls = ResilientCalls(f"SQLite at {path.name}", self._ping, self._counts, deadline_s=deadline_s)

    async def get(self, key: CacheKey, feed: IndexPoll | None = None) -> LookupResult:
        look = await self._call(lambda db: self._get(db, key, feed), LookupResult(cursor=feed.cursor if feed else ""))
        self._counts.add("misses_total" if look.kept is None else "hits_total")
        return look

    async def put(
        self,
        key: CacheKey,
        kept: CacheEntry,
        epochs: Mapping[str, str] | None,
        scope: str = "",
        row: IndexRow | None = None,
    ) -> bool:
        stored = keepable(kept.answers) and await self._call(
            lambda db: self._noted(lambda: self._put(db, key, kept, epochs, scope, row)), False
        )
        self._counts.add("stored_total" if stored else "refused_total")
        return stored

    async def drop(self, key: CacheKey) -> None:
        await self._call(lambda db: _write(db, f"delete from entries where {OF_KEY}", _place(key)), None)

    async def purge(self, tenant: str | None, label: str | None) -> int:
        """Withdraw entries and return how many were deleted. Raises `Overloaded` where the file could not be written:
        nothing was withdrawn then."""
        deleted = await self._call(lambda db: self._purge(db, tenant, label), None, PURGE_DEADLINE_S)
        if deleted is None:
            raise Overloaded("the cache's file could not be written, nothing was withdrawn; ask again", retry_after_s=1)
        self._counts.add("purged_total", deleted)
        return deleted

    async def held(self, tenants: Iterable[str]) -> list[StoreTotals] | None:
        """Count the entries in the store's thread. A file of a million entries takes it a second."""
        return await self._call(self._held, None, PURGE_DEADLINE_S)

    async def look_up(self, key: CacheKey) -> tuple[Answer, ...] | None:
        kept = (await self.get(key)).kept
        return None if kept is None else kept.answers

    async def store(self, key: CacheKey, answers: tuple[Answer, ...]) -> None:
        await self.put(key, CacheEntry(answers, self._clock()), None)

    def stats(self) -> Mapping[str, float]:
        return {**self._counts.values, "open": float(self._calls.is_open)}

    def troubles(self) -> Sequence[Trouble]:
        """Report a file that takes no answers, or is not asked after failures in a row."""
        if self._fault:
            return (Trouble(f"the cache's file takes no answers ({self._fault}): make room, or let it be written"),)
        if self._calls.is_open:
            return (Trouble("the cache's file fails again and again; answers are made anew until it can be used"),)
        return ()

    async def start(self) -> None:
        """Open the file ahead of the first request."""
        await self._calls.call(self._ping, None, 5.0)

    async def close(self) -> None:
        await self._calls.close()
        await asyncio.to_thread(self._thread.shutdown)
        self._file.close()

    # --- in the thread -----------------------------------------------------------------------------------------

    def _noted(self, write: Callable[[], bool]) -> bool:
        """Write an answer, and keep what prevented it. A reader sees nothing of a disk that is full."""
        try:
            done = write()
        except sqlite3.Error as error:
            self._fault = str(error)
            raise
        self._fault = ""
        return done

    def _get(self, db: sqlite3.Connection, key: CacheKey, feed: IndexPoll | None) -> LookupResult:
        now = self._clock()
        columns = f"iif(length(body) <= {MAX_ENTRY_BYTES}, body, 0), used_s"
        lives = (now, self._latest(now))
        found = db.execute(f"select {columns} from entries where {OF_KEY} and {LIVES}", (*_place(key), *lives))
        body, used_s = found.fetchone() or (None, now)
        epochs = self._epochs(db, key.tenant)
        kept = None if body is None else read(key, body, epochs, self._sealer, self._counts)
        if kept is not None and not (isinstance(used_s, float) and abs(now - used_s) <= TOUCH_S):
            _write(db, f"update entries set used_s = ? where {OF_KEY}", (now, *_place(key)))
        rows, cursor, more = self._rows(db, key.tenant, feed, now)
        return LookupResult(kept, epochs, rows, cursor, more)

    def _put(
        self,
        db: sqlite3.Connection,
        key: CacheKey,
        kept: CacheEntry,
        epochs: Mapping[str, str] | None,
        scope: str,
        row: IndexRow | None,
    ) -> bool:
        under = self._epochs(db, key.tenant) if epochs is None else epochs
        body, now = encode(key, kept, under, self._sealer), self._clock()
        if len(body) > min(self._budget_bytes, MAX_ENTRY_BYTES):
            return False
        values = (*_place(key), body, len(body), now + self._ttl_s, now)
        with db:
            db.execute("insert or replace into entries values (?, ?, ?, ?, ?, ?, ?)", values)
            if row is not None:
                data = encode_row(key.tenant, scope, row, self._sealer)
                columns = "insert into rows (tenant, scope, data, expires_s) values (?, ?, ?, ?)"
                db.execute(columns, (key.tenant, scope, data, now + self._ttl_s))
            self._puts += 1
            if self._puts % 16 == 1:
                self._make_room(db, now)
        return True

    def _make_room(self, db: sqlite3.Connection, now: float) -> None:
        for table in ("entries", "rows"):
            db.execute(f"delete from {table} where not ({LIVES})", (now, self._latest(now)))
        used = db.execute("select total(size) from entries").fetchone()[0]
        if used <= self._budget_bytes:
            return
        surplus, doomed = used - self._budget_bytes * 0.9, []
        for tenant, model, digest, size in db.execute(
            "select tenant, model, digest, cast(size as real) from entries order by used_s"
        ):
            if surplus <= 0:
                break
            surplus -= size
            doomed.append((tenant, model, digest))
        db.executemany(f"delete from entries where {OF_KEY}", doomed)
        self._counts.add("evicted_total", len(doomed))

    def _purge(self, db: sqlite3.Connection, tenant: str | None, label: str | None) -> int:
        name, whose = label or GENERATION, EVERYONE if tenant is None else tenant
        scope, values = ("true", ()) if tenant is None else ("tenant = ?", (tenant,))
        with db:
            raised = "insert into epochs values (?, ?, 1) on conflict do update set epoch = epoch + 1"
            db.execute(raised, (whose, name))
            if label is None:
                db.execute(f"delete from rows where {scope}", values)
                return db.execute(f"delete from entries where {scope}", values).rowcount
            heads = db.execute(
                f"select tenant, model, digest, substr(body, 1, {HEAD_BYTES}) from entries where {scope}", values
            )
            marked = mark(label)
            doomed = [key for *key, head in heads if has_label(head, marked)]
            db.executemany(f"delete from entries where {OF_KEY}", doomed)
            return len(doomed)

    def _held(self, db: sqlite3.Connection) -> list[StoreTotals] | None:
        asked = (
            f"select tenant, model, count(*), cast(total(size) as integer) from entries where {LIVES} "
            "group by tenant, model order by tenant, model"
        )
        now = self._clock()
        return [StoreTotals(*row) for row in db.execute(asked, (now, self._latest(now)))]

    def _latest(self, now: float) -> float:
        """Return the latest end of an entry that is written now. A later one was written by a clock that was ahead, and
        set back since, or under a longer time to live: it would stay for as long."""
        return now + self._ttl_s + TOUCH_S

    def _epochs(self, db: sqlite3.Connection, tenant: str) -> dict[str, str]:
        """Return the tenant's epochs. Each combines two counters: purges of the tenant, and purges of all tenants."""
        found: dict[str, list[int]] = {}
        asked = "select tenant, label, epoch from epochs where tenant in (?, ?)"
        for whose, name, epoch in db.execute(asked, (tenant, EVERYONE)):
            found.setdefault(name, [0, 0])[whose != EVERYONE] = epoch
        return {name: f"{everyones}.{own}" for name, (everyones, own) in found.items()}

    def _rows(
        self, db: sqlite3.Connection, tenant: str, feed: IndexPoll | None, now: float
    ) -> tuple[tuple[IndexRow, ...], str, bool]:
        if feed is None:
            return (), "", False
        asked = f"select id, data from rows where tenant = ? and scope = ? and id > ? and {LIVES} order by id limit ?"
        wanted = (tenant, feed.scope, int(feed.cursor or 0), now, self._latest(now), ROWS_A_LOOK)
        found = db.execute(asked, wanted).fetchall()
        rows = []
        for _, data in found:
            try:
                rows.append(decode_row(tenant, feed.scope, data, self._sealer))
            except CorruptEntry:
                self._counts.add("damaged_total")
        return tuple(rows), str(found[-1][0]) if found else feed.cursor, len(found) == ROWS_A_LOOK

    # --- the thread and the file -------------------------------------------------------------------------------

    async def _call(self, work: Callable[[sqlite3.Connection], T], otherwise: T, deadline_s: float = 0) -> T:
        async def run() -> T:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._work, work)

        return await self._calls.call(run, otherwise, deadline_s)

    async def _ping(self) -> None:
        def ask(db: sqlite3.Connection) -> None:
            db.execute("select count(*) from epochs").fetchone()

        await asyncio.get_running_loop().run_in_executor(self._thread, self._work, ask)

    def _work(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work`. A corrupt database file is moved aside, once, and a new one begun."""
        try:
            return work(self._file.connection())
        except sqlite3.OperationalError:
            raise  # locked, read-only, full: the file itself is in order
        except sqlite3.DatabaseError as error:
            self._set_aside(error)
            return work(self._file.connection())

    def _connected(self) -> sqlite3.Connection:
        with suppress(OSError):  # the next line says what is wrong
            self._path.touch(mode=0o600)
        database = sqlite3.connect(self._path, timeout=0.03, isolation_level="IMMEDIATE", check_same_thread=False)
        database.text_factory = lambda data: data.decode("utf-8", "replace")
        with closed_on_error(database):
            database.executescript(SCHEMA)
        return database

    def _set_aside(self, error: sqlite3.DatabaseError) -> None:
        log.error("the cache's file %s is damaged (%s); set aside, a new one is begun", self._path.name, error)
        self._file.close()
        for suffix in ("-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        self._path.replace(self._path.with_name(self._path.name + ".damaged"))
        self._counts.add("reset_total")


OF_KEY = "tenant = ? and model = ? and digest = ?"
LIVES = "expires_s > ? and expires_s <= ?"


def _place(key: CacheKey) -> tuple[str, str, str]:
    return key.tenant, key.model, key.digest


def _write(db: sqlite3.Connection, statement: str, values: tuple[object, ...]) -> None:
    with db:
        db.execute(statement, values)
