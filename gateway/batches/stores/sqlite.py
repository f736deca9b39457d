"""Records of files and batches, in one SQLite file beside the bytes of the files, for who holds their folder.

Calls block for as long as the disk takes; `Batches` makes them on threads of its own. They raise `sqlite3.Error` and
`OSError`. Prompts and answers lie here unencrypted, readable by the gateway's own user only.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from sluicegate.gateway.batches.file_store import FileStore
from sluicegate.gateway.batches.records import (
    OPEN,
    BatchRecord,
    FileRecord,
    LineResult,
    Status,
    batch_of,
    check_result,
    file_of,
)
from sluicegate.gateway.batches.stores.base import BatchMoved
from sluicegate.plugins import ConfigurationError
from sluicegate.plugins.disk.database_file import DatabaseFile

log = logging.getLogger("sluicegate.batches")
R = TypeVar("R", FileRecord, BatchRecord)
NAME = "batches.sqlite"
_SCHEMA = """
create table if not exists files (id text primary key, tenant text, created_s integer, record text);
create table if not exists batches (id text primary key, tenant text, created_s integer, status text, record text);
create table if not exists results (batch text, line integer, custom_id text, status integer, body blob,
    prompt_tokens integer, completion_tokens integer, primary key (batch, line));
create table if not exists aside (kind text, id text, reason text, at_s integer, row text);
"""
_RESULT = ", ".join(f.name for f in fields(LineResult))
_PAGE = 200
"""Most results in memory at a time."""
_MARKS = ",".join("?" * len(OPEN))
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
"""Error codes of a file that is no database, or not one of ours; any other error may pass."""


class SqliteBatchStore:
    """A `BatchStore`: one connection behind one lock."""

    def __init__(self, folder: Path, *, repair: bool = True) -> None:
        """Open the database in `folder`. `repair`: put a file that is no database of ours aside and begin a new one;
        only for the gateway that holds the folder. Raises `ConfigurationError` where the folder cannot be used at
        all."""
        self._path = folder / NAME
        self._lock = threading.Lock()
        self._adding = threading.Lock()
        try:
            self.contents = FileStore(folder)
            self._file = DatabaseFile(self._path, lambda: _opened(self._path, repair))
            self._db = self._file.connection()
        except (FileExistsError, NotADirectoryError, PermissionError) as error:
            raise ConfigurationError(f"[batches] path {str(folder)!r} cannot be used: {error}") from error

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def was_replaced(self) -> bool:
        """Return whether another database lies in the folder than the one that is open."""
        return self._file.was_replaced()

    # --- files ---

    def add_file(self, record: FileRecord, parts: Iterable[bytes], batch: BatchRecord) -> bool:
        size = self.contents.put(record.id, parts)
        if not size:
            self.contents.remove(record.id)
            return False
        self.name_file(replace(record, bytes=size))
        return True

    def name_file(self, record: FileRecord) -> None:
        row = (record.id, record.tenant, record.created_s, json.dumps(asdict(record)))
        try:
            with self._writing() as db:
                db.execute("insert or replace into files values (?, ?, ?, ?)", row)
        except BaseException:
            with contextlib.suppress(OSError):
                self.contents.remove(record.id)
            raise

    def file(self, file_id: str, tenant: str) -> FileRecord | None:
        return self._one(file_of, "select record from files where id = ? and tenant = ?", (file_id, tenant))

    def files(self, tenant: str) -> list[FileRecord]:
        return self._all(file_of, "select record from files where tenant = ? order by created_s desc, id", (tenant,))

    def kept(self, tenant: str) -> tuple[int, int]:
        query = "select count(*), coalesce(sum(json_extract(record, '$.bytes')), 0) from files where tenant = ?"
        with self._lock:
            count, size = self._db.execute(query, (tenant,)).fetchone()
        return count, size

    def content(self, file_id: str) -> Path:
        return self.contents.path(file_id)

    def remove_file(self, file_id: str) -> str | None:
        needed = [batch.id for batch in self.open_batches() if batch.input_file_id == file_id]
        if needed:
            return needed[0]
        with self._writing() as db:
            db.execute("delete from files where id = ?", (file_id,))
        self.contents.remove(file_id)
        return None

    def forget(self, before_s: int) -> None:
        for record in self._all(file_of, "select record from files where created_s < ?", (before_s,)):
            self.remove_file(record.id)
        with self._writing() as db:
            db.execute(f"delete from batches where created_s < ? and status not in ({_MARKS})", (before_s, *OPEN))
            db.execute("delete from results where batch not in (select id from batches)")
            db.execute("delete from aside where at_s < ?", (before_s,))

    # --- batches ---

    def add_batch(self, record: BatchRecord, check: Callable[[int], None]) -> bool:
        with self._adding:
            check(self._open_count(record.tenant))
            if self.file(record.input_file_id, record.tenant) is None:
                return False
            with self._writing() as db:
                _put(db, record)
        return True

    def remove_batch(self, batch_id: str) -> bool:
        with self._writing() as db:
            gone = db.execute(f"delete from batches where id = ? and status not in ({_MARKS})", (batch_id, *OPEN))
            return gone.rowcount > 0

    def move(self, before: BatchRecord, after: BatchRecord) -> None:
        with self._writing() as db:
            self._check_status(before)
            _put(db, after)

    def end(self, before: BatchRecord, after: BatchRecord) -> None:
        with self._writing() as db:
            self._check_status(before)
            _put(db, after)
            db.execute("delete from results where batch = ?", (after.id,))

    def cancel(self, batch_id: str, at_s: int) -> BatchRecord | None:
        found = self.batch(batch_id)
        if found is None or found.status not in OPEN or found.status == "cancelling":
            return found
        moved = replace(found, status="cancelling", times={**found.times, "cancelling_at": at_s})
        try:
            self.move(found, moved)
        except BatchMoved:
            return self.cancel(batch_id, at_s)
        return moved

    def batch(self, batch_id: str, tenant: str | None = None) -> BatchRecord | None:
        query = "select record from batches where id = ?1 and (?2 is null or tenant = ?2)"
        return self._one(batch_of, query, (batch_id, tenant))

    def batches(self, tenant: str) -> list[BatchRecord]:
        query = "select record from batches where tenant = ? order by created_s desc, rowid desc"
        return self._all(batch_of, query, (tenant,))

    def _open_count(self, tenant: str) -> int:
        query = f"select count(*) from batches where tenant = ? and status in ({_MARKS})"
        with self._lock:
            return int(self._db.execute(query, (tenant, *OPEN)).fetchone()[0])

    def open_batches(self) -> list[BatchRecord]:
        """Return what a restart has to resume, oldest first."""
        query = f"select record from batches where status in ({_MARKS}) order by created_s"
        return self._all(batch_of, query, OPEN)

    # --- who runs them: whoever holds the folder ---

    def take(self, held: Collection[str]) -> list[BatchRecord]:
        return [record for record in self.open_batches() if record.id not in held]

    def renew(self, held: Collection[str]) -> Mapping[str, Status]:
        return {record.id: record.status for record in self.open_batches() if record.id in held}

    def give_back(self) -> None:
        """Do nothing: giving back the lock of the folder is enough."""

    # --- results ---

    def add_result(self, batch_id: str, result: LineResult) -> None:
        values = (result.line, result.custom_id, result.status, result.body)
        tokens = (result.prompt_tokens, result.completion_tokens)
        with self._writing() as db:
            db.execute("insert or ignore into results values (?, ?, ?, ?, ?, ?, ?)", (batch_id, *values, *tokens))

    def results(self, batch_id: str) -> Iterator[LineResult]:
        query = f"select {_RESULT} from results where batch = ? and line > ? order by line limit {_PAGE}"
        last = -1
        while True:
            with self._lock:
                rows = self._db.execute(query, (batch_id, last)).fetchall()
            yield from (LineResult(*row) for row in rows)
            if len(rows) < _PAGE:
                return
            last = rows[-1][0]

    def counts(self, batch_id: str) -> tuple[int, int, int, int]:
        query = (
            "select count(*), coalesce(sum(status = 200), 0), coalesce(sum(prompt_tokens), 0), "
            "coalesce(sum(completion_tokens), 0) from results where batch = ?"
        )
        with self._lock:
            total, good, prompt, completion = self._db.execute(query, (batch_id,)).fetchone()
        return good, total - good, prompt, completion

    def done(self, batch_id: str) -> set[int]:
        with self._lock:
            return {row[0] for row in self._db.execute("select line from results where batch = ?", (batch_id,))}

    # --- checks at a start ---

    def tidy(self, keep_s: float) -> None:
        """Check all that is kept, set aside what no gateway wrote, and remove what was never finished."""
        self._set_aside("files", "select id, record from files", lambda row: file_of(row[1]).id == row[0])
        self._set_aside("batches", "select id, record from batches", lambda row: batch_of(row[1]).id == row[0])
        with self._lock:
            known = {row[0] for row in self._db.execute("select id from files")}
        self.contents.tidy(known, keep_s)
        for record in self.open_batches():
            self._check_results(record.id)

    def _set_aside(self, table: str, query: str, holds: Callable[[Any], bool]) -> None:
        with self._lock:
            rows = self._db.execute(query).fetchall()
        for row in rows:
            try:
                reason = "" if holds(row) else "it is kept under another id"
            except (ValueError, TypeError, RecursionError) as error:
                reason = str(error)[:200]
            if reason:
                self._move_aside(table, row[0], reason, repr(row[1])[:10_000], f"delete from {table} where id is ?")

    def _check_results(self, batch_id: str) -> None:
        query = f"select rowid, {_RESULT} from results where batch = ? and rowid > ? order by rowid limit {_PAGE}"
        last = -(1 << 63)
        while True:
            with self._lock:
                found = self._db.execute(query, (batch_id, last)).fetchall()
            for rowid, *row in found:
                try:
                    check_result(tuple(row))
                except (ValueError, TypeError) as error:
                    shown = repr(row)[:10_000]
                    self._move_aside("results", rowid, str(error)[:200], shown, "delete from results where rowid = ?")
            if len(found) < _PAGE:
                return
            last = found[-1][0]

    def _move_aside(self, kind: str, key: Any, reason: str, shown: str, delete: str) -> None:
        log.error("batches: a row of %s is set aside, it is none of ours: %r: %s", kind, key, reason)
        with self._writing() as db:
            db.execute("insert into aside values (?, ?, ?, ?, ?)", (kind, str(key), reason, int(time.time()), shown))
            db.execute(delete, (key,))

    # --- shared ---

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._db:
            yield self._db

    def _check_status(self, before: BatchRecord) -> None:
        """Check that the status is still that of `before`. Raises `BatchMoved`. The caller holds the lock."""
        query = "select 1 from batches where id = ? and status = ?"
        if self._db.execute(query, (before.id, before.status)).fetchone() is None:
            raise BatchMoved(before.id)

    def _one(self, read: Callable[[Any], R], query: str, values: tuple[Any, ...]) -> R | None:
        found = self._all(read, query, values)
        return found[0] if found else None

    def _all(self, read: Callable[[Any], R], query: str, values: tuple[Any, ...]) -> list[R]:
        """Leave out what cannot be read; the next start sets it aside."""
        with self._lock:
            rows = self._db.execute(query, values).fetchall()
        found = []
        for row in rows:
            try:
                found.append(read(row[0]))
            except (ValueError, TypeError, RecursionError) as error:
                log.error("batches: a record cannot be read and is left out: %s", error)
        return found


def _put(db: sqlite3.Connection, record: BatchRecord) -> None:
    row = (record.id, record.tenant, record.created_s, record.status, json.dumps(asdict(record)))
    # not `insert or replace`, which gives the row a new number: batches of one second would change places as they run
    new = "tenant = excluded.tenant, created_s = excluded.created_s, status = excluded.status, record = excluded.record"
    db.execute(f"insert into batches values (?, ?, ?, ?, ?) on conflict (id) do update set {new}", row)


def _opened(path: Path, repair: bool) -> sqlite3.Connection:
    try:
        return _checked(path, look=repair)
    except sqlite3.DatabaseError as error:
        if not repair or getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF not in DAMAGED:
            raise
        log.error(
            "%s is damaged or no database of this gateway (%s); it is set aside and a new one is begun", path, error
        )
        for end in ("", "-wal", "-shm"):
            old = path.with_name(path.name + end)
            if old.exists():
                os.rename(old, path.with_name(f"{path.name}{end}.damaged-{int(time.time())}"))
        return _checked(path, look=True)


def _checked(path: Path, *, look: bool) -> sqlite3.Connection:
    db = sqlite3.connect(path, check_same_thread=False)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.chmod(path, 0o600)
        db.execute("pragma journal_mode=wal")
        db.executescript(_SCHEMA)
        if look:
            found = db.execute("pragma quick_check(1)").fetchone()[0]
            if found != "ok":
                raise sqlite3.DatabaseError(found)
            db.execute(f"select {_RESULT}, batch from results limit 1")
            db.execute("select id, tenant, created_s, record from files limit 1")
            db.execute("select id, tenant, created_s, status, record from batches limit 1")
    except BaseException:
        db.close()
        raise
    return db
