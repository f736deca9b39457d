"""The connections to PostgreSQL. Calls block; their callers make them on threads of their own.

Whatever keeps the server from answering or writing is one error, `DatabaseUnavailable`, which is an `OSError`: who
knows how to wait for a disk can wait for it. Errors of a single row stay what the driver makes of them.
"""

from __future__ import annotations

import asyncio
import errno
import importlib
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Protocol, TypeVar

from sluicegate.gateway.database.migrations import migrate
from sluicegate.gateway.settings import DatabaseSettings
from sluicegate.plugins import ConfigurationError, Overloaded
from sluicegate.plugins.concurrency.thread_calls import ThreadCalls

log = logging.getLogger("sluicegate.database")
T = TypeVar("T")
CONNECT_S = 5
CALL_S = 15.0
STATEMENT_MS = 30_000
IDLE_MS = 30_000
"""How long a transaction may wait for its gateway: one that is stopped thereby gives its locks back."""
REFUSED_BY_THE_SERVER = ("25006", "53", "57", "58")
"""SQLSTATEs that concern the server rather than a row: read-only, out of resources, stopped, I/O errors."""


class DatabaseUnavailable(OSError):
    """Nothing was written, or nobody knows whether it was; the call may be made again."""

    def __str__(self) -> str:
        """Leave the number out that an `OSError` begins with: operators read this."""
        return str(self.strerror or super().__str__())


async def patient(running: Awaitable[T]) -> T:
    """Wait for a database call of `ThreadCalls`, which goes on where its caller leaves, for a limited time. Raises
    `DatabaseUnavailable`."""
    try:
        async with asyncio.timeout(CALL_S):
            return await running
    except TimeoutError as error:
        raise DatabaseUnavailable(errno.ETIMEDOUT, f"the database gave no answer for {CALL_S:g} s") from error


def unavailable(what: str) -> Overloaded:
    """Return the error for a caller of `what` while the database is unavailable."""
    error = Overloaded(f"{what} are kept in a database that does not answer now; try again", retry_after_s=2.0)
    error.code = "database_unavailable"
    return error


class Rows(Protocol):
    """The rows and row count of a statement."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> tuple[Any, ...] | None: ...

    def fetchall(self) -> list[tuple[Any, ...]]: ...


class Connection(Protocol):
    """As psycopg's, within a transaction."""

    def execute(self, query: str, params: Sequence[object] | None = None) -> Rows: ...

    def transaction(self) -> Any:
        """Return a context that ends in a savepoint's release or in its rollback."""


class Database:
    """Thread-safe. `open` before anything else; both `open` and `close` may be called again."""

    def __init__(self, settings: DatabaseSettings) -> None:
        self._settings = settings
        self._pool: Any = None
        self._errors: ModuleType | None = None
        self._lock = threading.Lock()
        self._threads = ThreadCalls(settings.connections, "database")

    def open(self, *, migrating: bool = True) -> None:
        """Connect and bring the tables to this release, or leave them as they are. Raises `ConfigurationError`: a
        gateway does not start without what it shares."""
        with self._lock:
            if self._pool is not None:
                return
            driver, pools = _driver()
            logging.getLogger("psycopg.pool").setLevel(logging.ERROR)  # who calls says what failed
            self._errors = driver
            try:
                with driver.connect(self._settings.url, **_options()) as first:
                    taken = migrate(first.execute) if migrating else 0
                pool = pools.ConnectionPool(
                    self._settings.url,
                    kwargs=_options(),
                    min_size=1,
                    max_size=self._settings.connections,
                    timeout=self._settings.patience_s,
                    reconnect_timeout=2.0,  # given up after that, and begun anew by the next call
                    check=pools.ConnectionPool.check_connection,
                    open=False,
                )
                pool.open()
            except (driver.Error, OSError, ValueError) as error:
                raise ConfigurationError(f"[database] url cannot be used: {_reason(error)}") from error
            self._pool = pool
        if taken:
            log.info("the tables of the database were brought to this release, in %d steps", taken)

    def close(self) -> None:
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close(timeout=1.0)
        self._threads.close()

    async def call(self, work: Callable[[], T]) -> T:
        """Run `work`, which blocks, beside the event loop, to its end even where the caller leaves. Raises
        `DatabaseUnavailable`, also where a server that is stopped keeps it for longer than `CALL_S`: nobody knows then
        what came of it."""
        return await patient(self._threads.run(work))

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Yield a connection; what was done is kept where the block ends well, else undone. Raises
        `DatabaseUnavailable`."""
        pool, driver = self._pool, self._errors
        if pool is None or driver is None:
            raise DatabaseUnavailable(errno.ENOTCONN, "the database is closed")
        try:
            with pool.connection() as connection:
                yield connection
        except driver.Error as error:
            if not _is_servers(driver, error):
                raise
            raise DatabaseUnavailable(_errno(error), f"the database does not answer: {_reason(error)}") from error

    def execute(self, query: str, params: Sequence[object] | None = None) -> Rows:
        """Execute one statement in a transaction of its own."""
        with self.transaction() as connection:
            return connection.execute(query, params)

    @property
    def row_errors(self) -> tuple[type[Exception], ...]:
        """Return the errors that one row can be refused with. After one of them the transaction goes on from its last
        savepoint only."""
        assert self._errors is not None, "open() comes first"
        return (self._errors.DataError, self._errors.IntegrityError, UnicodeError, OverflowError)

    def stats(self) -> dict[str, float]:
        """Return figures for metrics."""
        found = self._pool.get_stats() if self._pool is not None else {}
        names = {"connections": "pool_size", "waiting": "requests_waiting", "failures_total": "requests_errors"}
        return {name: float(found.get(of, 0)) for name, of in names.items()}


def _driver() -> tuple[ModuleType, ModuleType]:
    try:
        return importlib.import_module("psycopg"), importlib.import_module("psycopg_pool")
    except ImportError as error:
        raise ConfigurationError(
            "[database] url needs psycopg, which is not installed; `pip install 'sluicegate[postgres]'`"
        ) from error


def _options() -> dict[str, Any]:
    """Return the options of a connection. Statements are not prepared, so that a pooler may stand between; limits are
    set by `set`, for the same reason."""
    return {
        "connect_timeout": CONNECT_S,
        "prepare_threshold": None,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
        "options": f"-c statement_timeout={STATEMENT_MS} -c idle_in_transaction_session_timeout={IDLE_MS}",
    }


def _is_servers(driver: ModuleType, error: Exception) -> bool:
    state = str(getattr(error, "sqlstate", "") or "")
    return isinstance(error, driver.OperationalError) or state.startswith(REFUSED_BY_THE_SERVER)


def _errno(error: Exception) -> int:
    """Return the error number that a disk would give: a server without room, or one that only reads, takes no
    writes."""
    known = {"53100": errno.ENOSPC, "25006": errno.EROFS, "58030": errno.EIO}
    return known.get(str(getattr(error, "sqlstate", "") or ""), errno.ENOTCONN)


def _reason(error: BaseException) -> str:
    """Return the reason on one line, without the address: it may hold a password."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {(lines[0] if lines else 'no reason given')[:200]}"
