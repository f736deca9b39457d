"""One folder: SQLite for what is known of files and batches, and each file's bytes beside it.

Calls block for as long as the disk takes; `Batches` makes them on a thread. Prompts and answers lie here unencrypted,
readable by the gateway's own user only.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

from gateway.batches.records import OPEN, BatchRecord, FileRecord, LineResult
from plugins import ConfigurationError

R = TypeVar("R", FileRecord, BatchRecord)
_SCHEMA = """
create table if not exists files (id text primary key, tenant text, created_s integer, record text);
create table if not exists batches (id text primary key, tenant text, created_s integer, status text, record text);
create table if not exists results (batch text, line integer, custom_id text, status integer, body blob,
    prompt_tokens integer, completion_tokens integer, primary key (batch, line));
"""


class BatchStore:
    """Thread-safe: one connection behind one lock."""

    def __init__(self, folder: Path) -> None:
        """Raises `ConfigurationError` where the folder cannot be used."""
        self._folder = folder
        self._lock = threading.Lock()
        try:
            (folder / "files").mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = sqlite3.connect(folder / "batches.sqlite", check_same_thread=False)
            os.chmod(folder / "batches.sqlite", 0o600)
            self._db.execute("pragma journal_mode=wal")
            self._db.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise ConfigurationError(f"[batches] path {str(folder)!r} cannot be used: {error}") from error

    def close(self) -> None:
        with self._lock:
            self._db.close()

    # --- files ---

    def add_file(self, record: FileRecord, parts: Iterable[bytes]) -> None:
        """The bytes are on the disk before the record names them."""
        path = self._path(record.id)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            out.writelines(parts)
            out.flush()
            os.fsync(out.fileno())
        with self._writing() as db:
            row = (record.id, record.tenant, record.created_s, json.dumps(asdict(record)))
            db.execute("insert or replace into files values (?, ?, ?, ?)", row)

    def file(self, file_id: str, tenant: str) -> FileRecord | None:
        return self._one(FileRecord, "select record from files where id = ? and tenant = ?", (file_id, tenant))

    def files(self, tenant: str) -> list[FileRecord]:
        """Newest first."""
        return self._all(FileRecord, "select record from files where tenant = ? order by created_s desc, id", (tenant,))

    def content(self, file_id: str) -> Path:
        return self._path(file_id)

    def remove_file(self, file_id: str) -> None:
        with self._writing() as db:
            db.execute("delete from files where id = ?", (file_id,))
        self._path(file_id).unlink(missing_ok=True)

    def stale_files(self, before_s: int) -> list[FileRecord]:
        return self._all(FileRecord, "select record from files where created_s < ?", (before_s,))

    # --- batches ---

    def put_batch(self, record: BatchRecord) -> None:
        row = (record.id, record.tenant, record.created_s, record.status, json.dumps(asdict(record)))
        with self._writing() as db:
            db.execute("insert or replace into batches values (?, ?, ?, ?, ?)", row)

    def batch(self, batch_id: str, tenant: str) -> BatchRecord | None:
        return self._one(BatchRecord, "select record from batches where id = ? and tenant = ?", (batch_id, tenant))

    def batches(self, tenant: str) -> list[BatchRecord]:
        """Newest first."""
        query = "select record from batches where tenant = ? order by created_s desc, rowid desc"
        return self._all(BatchRecord, query, (tenant,))

    def open_batches(self) -> list[BatchRecord]:
        """Oldest first: what a restart has to go on with."""
        marks = ",".join("?" * len(OPEN))
        return self._all(BatchRecord, f"select record from batches where status in ({marks}) order by created_s", OPEN)

    # --- results ---

    def add_result(self, batch_id: str, result: LineResult) -> None:
        values = (result.line, result.custom_id, result.status, result.body)
        tokens = (result.prompt_tokens, result.completion_tokens)
        with self._writing() as db:
            db.execute("insert or replace into results values (?, ?, ?, ?, ?, ?, ?)", (batch_id, *values, *tokens))

    def results(self, batch_id: str) -> Iterator[LineResult]:
        """In the order of the lines."""
        columns = ", ".join(f.name for f in fields(LineResult))
        with self._lock:
            rows = self._db.execute(
                f"select {columns} from results where batch = ? order by line", (batch_id,)
            ).fetchall()
        return (LineResult(*row) for row in rows)

    def counts(self, batch_id: str) -> tuple[int, int, int, int]:
        """(answered well, failed, prompt tokens, completion tokens) so far."""
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

    # --- what they share ---

    def _path(self, file_id: str) -> Path:
        return self._folder / "files" / file_id

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._db:
            yield self._db

    def _one(self, kind: type[R], query: str, values: tuple[Any, ...]) -> R | None:
        found = self._all(kind, query, values)
        return found[0] if found else None

    def _all(self, kind: type[R], query: str, values: tuple[Any, ...]) -> list[R]:
        with self._lock:
            rows = self._db.execute(query, values).fetchall()
        return [kind(**json.loads(row[0])) for row in rows]
