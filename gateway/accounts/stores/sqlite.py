"""Keys and usage in one SQLite file, written by one gateway and by `sluicegate keys` beside it."""

from __future__ import annotations

import dataclasses
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sluicegate.gateway.accounts.bounds import MAX_SUM
from sluicegate.gateway.accounts.parsing import (
    known_key,
    parse_rows,
    read_count,
    read_key,
    read_limits,
    read_usage_rows,
)
from sluicegate.gateway.accounts.records import (
    USAGE_FIELDS,
    KeyRecord,
    UsageKey,
    UsageSum,
    UsageTable,
    encode_key,
    encode_limits,
)
from sluicegate.gateway.accounts.stores.base import ChangeKey, ImplausibleRows, Spent, Version, spent_of
from sluicegate.gateway.database import fault_of
from sluicegate.gateway.settings import Limits
from sluicegate.plugins import BooksUnavailable, ConfigurationError
from sluicegate.plugins.disk.database_file import DatabaseFile, closed_on_error

BUSY_S = 5.0
RETRY_S = 60.0
"""`Retry-After` of what waits for a restart."""
REPLACED = "the file of [accounts] path was replaced under the running gateway; restart it"
FORMAT = 1
NAMED = ("day", "key_id", "team", "feature", "model")
_SUMS = ", ".join(
    f"{name} = CASE WHEN typeof({name}) = 'integer' AND {name} BETWEEN 0 AND {MAX_SUM} "
    f"THEN min({name} + excluded.{name}, {MAX_SUM}) ELSE excluded.{name} END"
    for name in USAGE_FIELDS
)
_COLUMNS = NAMED + USAGE_FIELDS
_ADD = (
    f"INSERT INTO usage ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
    f" ON CONFLICT ({', '.join(NAMED)}) DO UPDATE SET {_SUMS}"
)
_TABLES = f"""
CREATE TABLE IF NOT EXISTS keys (id TEXT PRIMARY KEY, record TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS teams (name TEXT PRIMARY KEY, limits TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS changes (one INTEGER PRIMARY KEY CHECK (one = 1), count INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS segments (journal TEXT PRIMARY KEY, applied INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS origin (one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS set_aside (
    at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, row TEXT NOT NULL, reason TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS usage (
    {", ".join(f"{name} TEXT NOT NULL" for name in NAMED)},
    {", ".join(f"{name} INTEGER NOT NULL" for name in USAGE_FIELDS)},
    PRIMARY KEY ({", ".join(NAMED)})
) WITHOUT ROWID;
INSERT OR IGNORE INTO changes VALUES (1, 0);
INSERT OR IGNORE INTO origin VALUES (1, lower(hex(randomblob(8))));
"""
_EXPECTED = {
    "keys": ("id", "record"),
    "teams": ("name", "limits"),
    "segments": ("journal", "applied"),
    "usage": _COLUMNS,
}
BAD_ROW = (OverflowError, UnicodeError, sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError)
"""Errors that concern one row; all others concern the file."""


class SqliteAccountStore:
    """A `Store`. Digests of keys are in it, so that the file is made readable for its owner only. Keys are read over a
    connection of their own: readers wait for no writer."""

    def __init__(self, path: Path) -> None:
        self.set_aside = ImplausibleRows()
        self._path = path
        self._file = DatabaseFile(path, self._opened)
        self._reader: sqlite3.Connection | None = None
        self._reading = threading.Lock()

    def open(self) -> None:
        """Open the file and create its tables. Raises `ConfigurationError` where the file cannot be used."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch(mode=0o600, exist_ok=True)
            self._file.connection()
            self._reader = self._connected()
        except (OSError, sqlite3.Error) as error:
            raise ConfigurationError(f"[accounts] path: {fault_of(self._path, error)}") from error

    def close(self) -> None:
        with self._reading:  # a connection closed under a thread that reads ends the process
            if self._reader is not None:
                self._reader.close()
            self._reader = None
            self._file.close()

    # --- who may ask, over the reader ----------------------------------------------------------------------------

    def version(self) -> Version:
        self._path.stat()
        self._check_place()
        origin = self._read("SELECT name FROM origin")
        change = self._read("SELECT count FROM changes")
        return Version(str(origin[0][0]) if origin else "", str(change[0][0]) if change else "")

    def keys(self) -> Sequence[KeyRecord]:
        found, strange = parse_rows(self._read("SELECT id, record FROM keys ORDER BY id"), read_key)
        self.set_aside.keys = strange
        return list(found.values())

    def teams(self) -> Mapping[str, Limits]:
        found, strange = parse_rows(self._read("SELECT name, limits FROM teams"), lambda name, data: read_limits(data))
        self.set_aside.teams = strange
        return found

    # --- all else ----------------------------------------------------------------------------------------------

    def edit_key(self, key_id: str, change: ChangeKey) -> KeyRecord:
        with self._transaction() as db:
            row = db.execute("SELECT record FROM keys WHERE id = ?", (key_id,)).fetchone()
            record = change(known_key(key_id, row and row[0]))
            db.execute("INSERT OR REPLACE INTO keys VALUES (?, ?)", (key_id, encode_key(record).decode()))
            db.execute("UPDATE changes SET count = count + 1")
        return record

    def put_team(self, name: str, limits: Limits) -> None:
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO teams VALUES (?, ?)", (name, encode_limits(limits).decode()))
            db.execute("UPDATE changes SET count = count + 1")

    def applied(self, journal: str) -> int:
        row = self._db.execute("SELECT applied FROM segments WHERE journal = ?", (journal,)).fetchone()
        return (read_count(row[0]) or 0) if row else 0

    def add(self, journal: str, segment: int, table: UsageTable) -> int:
        with self._transaction() as db:
            if self.applied(journal) >= segment:
                return 0
            refused = self._add_rows(db, [_row(key, usage) for key, usage in table.items()])
            db.execute("INSERT OR REPLACE INTO segments VALUES (?, ?)", (journal, segment))
        return refused

    def usage(self, since: str, until: str) -> UsageTable:
        query = f"SELECT {', '.join(_COLUMNS)} FROM usage WHERE day BETWEEN ? AND ?"
        found, self.set_aside.usage = read_usage_rows(self._db.execute(query, (since, until)))
        return found

    def spent(self, day: str) -> Spent:
        return spent_of(self.usage(f"{day[:7]}-01", f"{day[:7]}-31"), day)

    def _add_rows(self, db: sqlite3.Connection, rows: Sequence[tuple[object, ...]]) -> int:
        """Add all rows at once; where that fails, add them one by one and set aside those that fail. Returns how many
        were."""
        db.execute("SAVEPOINT rows")
        try:
            db.executemany(_ADD, rows)
            return 0
        except BAD_ROW:
            db.execute("ROLLBACK TO rows")
        return sum(self._add_row(db, row) for row in rows)

    def _add_row(self, db: sqlite3.Connection, row: tuple[object, ...]) -> int:
        try:
            db.execute(_ADD, row)
            return 0
        except BAD_ROW as error:
            shown = ascii(row)[:4096]
            db.execute("INSERT INTO set_aside (row, reason) VALUES (?, ?)", (shown, ascii(str(error))[:256]))
            return 1

    @property
    def _db(self) -> sqlite3.Connection:
        assert self._reader is not None, "open() comes first"
        self._check_place()
        return self._file.connection()

    def _check_place(self) -> None:
        """Raise `BooksUnavailable` where another file lies at the path: what is written into the opened one, as a
        revocation, would be gone with this process."""
        if self._file.was_replaced():
            raise BooksUnavailable(REPLACED, retry_after_s=RETRY_S)

    def _read(self, statement: str) -> list[tuple[Any, ...]]:
        with self._reading:
            assert self._reader is not None, "open() comes first"
            return self._reader.execute(statement).fetchall()

    def _connected(self) -> sqlite3.Connection:
        made = sqlite3.connect(self._path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        made.text_factory = lambda data: data.decode("utf-8", "replace")
        return made

    def _opened(self) -> sqlite3.Connection:
        made = self._connected()
        with closed_on_error(made):
            made.execute("PRAGMA journal_mode = WAL")
            made.execute("PRAGMA synchronous = FULL")
            self._check_format(made)
            made.executescript(_TABLES)
            self._check_columns(made)
        return made

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit what is done inside, or roll it back. A disk that fills up may have ended the transaction by
        itself."""
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            yield db
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _check_format(self, made: sqlite3.Connection) -> None:
        found = made.execute("PRAGMA user_version").fetchone()[0]
        if found > FORMAT:
            raise ConfigurationError(f"[accounts] path: {self._path} was written by a newer release (format {found})")
        if found != FORMAT:
            made.execute(f"PRAGMA user_version = {FORMAT}")

    def _check_columns(self, made: sqlite3.Connection) -> None:
        for table, columns in _EXPECTED.items():
            found = {row[1] for row in made.execute(f"PRAGMA table_info({table})")}
            if missing := set(columns) - found:
                raise ConfigurationError(
                    f"[accounts] path: {self._path} is not this product's: its table {table!r} has no column "
                    f"{', '.join(sorted(missing))}; name another file"
                )


def _row(key: UsageKey, usage: UsageSum) -> tuple[object, ...]:
    return (*key, *dataclasses.astuple(usage))
