"""The same tables and statements in PostgreSQL and, for one machine, in a file of SQLite.

Statements are written for PostgreSQL, with `%s` for parameters, in what both understand. Calls block.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sluicegate.gateway.database.migrations import KEPT_TABLES, KEPT_WRITERS
from sluicegate.gateway.database.postgres import Connection, Database, Rows, patient
from sluicegate.gateway.database.private_file import make_private
from sluicegate.gateway.database.sqlite_faults import concerns_file, fault_of, is_damaged
from sluicegate.plugins.concurrency.thread_calls import ThreadCalls
from sluicegate.plugins.disk.database_file import DatabaseFile, closed_on_error

T = TypeVar("T")
_AHEAD_S = 60.0
"""Clocks differ by less."""


class Tables(Protocol):
    """Tables in PostgreSQL or SQLite."""

    def transaction(self) -> AbstractContextManager[Connection]:
        """Return a context that keeps what was done where the block ends well, and undoes it otherwise. Raises
        `DatabaseUnavailable`."""

    def now_s(self, db: Connection) -> float:
        """Return the seconds since the epoch, by the clock that all who use the tables share."""

    async def call(self, work: Callable[[], T]) -> T:
        """Run `work`, which blocks, beside the event loop, to its end even where the caller leaves."""

    def close(self) -> None: ...


class PostgresTables:
    """Those of the database of the deployment, which is closed by who opened it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def transaction(self) -> AbstractContextManager[Connection]:
        return self._database.transaction()

    def now_s(self, db: Connection) -> float:
        [(now,)] = db.execute("select extract(epoch from clock_timestamp())::float8").fetchall()
        return float(now)

    async def call(self, work: Callable[[], T]) -> T:
        return await self._database.call(work)

    def close(self) -> None:
        """Do nothing: the database is not closed here."""


class SqliteTables:
    """One file, or memory where `path` is None. A transaction is on the disk when it ends; another process that writes
    is waited for. A file that is put in its place is used from the next transaction on."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._turn = threading.Lock()
        self._file = DatabaseFile(path, self._connected)
        self._thread = ThreadCalls(1, "tables")

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        with self._turn:
            try:
                db = self._file.connection()
                db.execute("begin immediate")
            except (sqlite3.Error, OSError) as error:
                self._drop_if_damaged(error)
                raise fault_of(self._path, error) from error
            try:
                yield _Sqlite(db)
                db.execute("commit")
            except BaseException as error:
                if db.in_transaction:
                    with contextlib.suppress(sqlite3.Error):  # of a damaged file; the first error says more
                        db.execute("rollback")
                if isinstance(error, sqlite3.Error) and concerns_file(error):
                    self._drop_if_damaged(error)
                    raise fault_of(self._path, error) from error
                raise

    def now_s(self, db: Connection) -> float:
        return time.time()

    async def call(self, work: Callable[[], T]) -> T:
        return await patient(self._thread.run(work))

    def close(self) -> None:
        self._thread.close(waiting=True)  # a write whose caller left is not lost
        with self._turn:
            self._file.close()

    def _connected(self) -> sqlite3.Connection:
        """Open the file. Its tables are named as in PostgreSQL: it is attached under the name of the schema."""
        if self._path is not None:
            make_private(self._path)
        db = sqlite3.connect(":memory:", timeout=5.0, check_same_thread=False, isolation_level=None)
        with closed_on_error(db):
            db.execute("attach ? as sluicegate", (str(self._path or ":memory:"),))
            db.execute("pragma sluicegate.journal_mode = wal")
            db.execute("pragma sluicegate.synchronous = full")
            db.execute("pragma sluicegate.secure_delete = on")
            db.executescript((KEPT_TABLES + KEPT_WRITERS).replace("create table", "create table if not exists"))
        return db

    def _drop_if_damaged(self, error: Exception) -> None:
        """Close the connection to a damaged file, so that the file that an operator puts in its place is taken without
        a restart."""
        if is_damaged(error) and self._path is not None:
            self._file.close()


def pull_back(db: Connection, table: str, now_s: float) -> None:
    """Let rows of the future be of now: a clock that was ahead, and was set back since, wrote them. They would be kept
    for as much longer, and what is written now would go before them where there is too much."""
    db.execute(f"update sluicegate.{table} set at_s = %s where at_s > %s", (now_s, now_s + _AHEAD_S))


class _Sqlite:
    """As psycopg's connection."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def execute(self, query: str, params: Sequence[object] | None = None) -> Rows:
        return self._db.execute(query.replace("%s", "?"), tuple(params or ()))

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        self._db.execute("savepoint inner_one")
        try:
            yield
        except BaseException:
            self._db.execute("rollback to inner_one")
            raise
        finally:
            self._db.execute("release inner_one")


def tables_of(database: Database | None, path: str) -> Tables:
    return PostgresTables(database) if database is not None else SqliteTables(Path(path) if path else None)
