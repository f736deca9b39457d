"""Keys and usage in one SQLite file, written by one gateway and by `sluicegate keys` beside it."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import orjson

from gateway.accounts.records import (
    USAGE_FIELDS,
    KeyRecord,
    Usage,
    UsageKey,
    UsageTable,
    decode_key,
    encode_key,
    limits_of,
)
from gateway.accounts.store import Spent
from gateway.settings import Limits
from plugins import ConfigurationError

BUSY_S = 5.0
FORMAT = 1
NAMED = ("day", "key_id", "team", "feature", "model")
_SUMS = ", ".join(f"{name} = {name} + excluded.{name}" for name in USAGE_FIELDS)
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
CREATE TABLE IF NOT EXISTS usage (
    {", ".join(f"{name} TEXT NOT NULL" for name in NAMED)},
    {", ".join(f"{name} INTEGER NOT NULL" for name in USAGE_FIELDS)},
    PRIMARY KEY ({", ".join(NAMED)})
) WITHOUT ROWID;
INSERT OR IGNORE INTO changes VALUES (1, 0);
"""


class SqliteStore:
    """A `Store`. Digests of keys are in it, so that the file is made readable for its owner only."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def open(self) -> None:
        """Raises `ConfigurationError` where the file cannot be used."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch(mode=0o600, exist_ok=True)
            made = sqlite3.connect(self._path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            made.execute("PRAGMA journal_mode = WAL")
            made.execute("PRAGMA synchronous = FULL")
            self._check_format(made)
            made.executescript(_TABLES)
        except (OSError, sqlite3.Error) as error:
            raise ConfigurationError(f"[accounts] path: {self._path} cannot be used: {error}") from error
        self._connection = made

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def version(self) -> str:
        return str(self._db.execute("SELECT count FROM changes").fetchone()[0])

    def keys(self) -> Sequence[KeyRecord]:
        return [decode_key(record) for (record,) in self._db.execute("SELECT record FROM keys ORDER BY id")]

    def teams(self) -> Mapping[str, Limits]:
        rows = self._db.execute("SELECT name, limits FROM teams")
        return {name: limits_of(orjson.loads(limits)) for name, limits in rows}

    def put_key(self, record: KeyRecord) -> None:
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO keys VALUES (?, ?)", (record.id, encode_key(record).decode()))
            db.execute("UPDATE changes SET count = count + 1")

    def put_team(self, name: str, limits: Limits) -> None:
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO teams VALUES (?, ?)", (name, orjson.dumps(limits).decode()))
            db.execute("UPDATE changes SET count = count + 1")

    def applied(self, journal: str) -> int:
        row = self._db.execute("SELECT applied FROM segments WHERE journal = ?", (journal,)).fetchone()
        return int(row[0]) if row else 0

    def add(self, journal: str, segment: int, table: UsageTable) -> None:
        with self._transaction() as db:
            if self.applied(journal) >= segment:
                return
            db.executemany(_ADD, [_row(key, usage) for key, usage in table.items()])
            db.execute("INSERT OR REPLACE INTO segments VALUES (?, ?)", (journal, segment))

    def usage(self, since: str, until: str) -> UsageTable:
        rows = self._db.execute("SELECT * FROM usage WHERE day BETWEEN ? AND ?", (since, until))
        return {UsageKey(*row[: len(NAMED)]): Usage(*row[len(NAMED) :]) for row in rows}

    def spent(self, day: str) -> Spent:
        found: dict[tuple[str, str], tuple[int, int]] = {}
        for kind, column in (("key", "key_id"), ("team", "team")):
            rows = self._db.execute(
                f"SELECT {column}, SUM(CASE WHEN day = ? THEN cost_nanos ELSE 0 END), SUM(cost_nanos) FROM usage "
                f"WHERE day BETWEEN ? AND ? GROUP BY {column}",
                (day, f"{day[:7]}-01", f"{day[:7]}-31"),
            )
            found |= {(kind, name): (today, month) for name, today, month in rows}
        return found

    @property
    def _db(self) -> sqlite3.Connection:
        assert self._connection is not None, "open() comes first"
        return self._connection

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            yield db
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")

    def _check_format(self, made: sqlite3.Connection) -> None:
        found = made.execute("PRAGMA user_version").fetchone()[0]
        if found > FORMAT:
            raise ConfigurationError(f"[accounts] path: {self._path} was written by a newer release (format {found})")
        made.execute(f"PRAGMA user_version = {FORMAT}")


def _row(key: UsageKey, usage: Usage) -> tuple[object, ...]:
    return (*dataclasses.astuple(key), *dataclasses.astuple(usage))
