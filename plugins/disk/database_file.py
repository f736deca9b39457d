"""Hold a connection to a file of SQLite, and notice that another file lies in its place.

SQLite goes on with the file that it opened: what it writes then is gone with the process. The journal of that file
stays beside the path, and whoever opens the new file next would write its pages into that one, which damages it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

log = logging.getLogger("sluicegate.files")
_BESIDE = ("-wal", "-shm")
_Identity = tuple[int, int] | None


@contextlib.contextmanager
def closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    """Close a new connection if what prepares it fails."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


class DatabaseFile:
    """One connection, made when it is needed. Not thread-safe."""

    def __init__(self, path: Path | None, connect: Callable[[], sqlite3.Connection]) -> None:
        """Open nothing yet. `connect` opens `path` in WAL mode; without a path, a database in memory."""
        self._path = path
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._found: _Identity = None
        """Which file was opened."""
        self._beside: dict[Path, _Identity] = {}
        """Which journal lay beside it."""

    def connection(self) -> sqlite3.Connection:
        """Return the connection, to another file where one lies at the path now. Raises what `connect` raises, and
        `OSError`."""
        if self.was_replaced():
            self._let_go()
        if self._connection is None:
            self._connection = self._connect()
            self._note_opened()
        return self._connection

    def was_replaced(self) -> bool:
        """Return whether another file lies at the path than was opened: moved there, or on a disk that was mounted
        since. False where there is none: below a folder that is not mounted now, a new one would be hidden later."""
        if self._path is None or self._found is None:
            return False
        found = _identity(self._path)
        return found is not None and found != self._found

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._let_go()

    def _note_opened(self) -> None:
        """Note what lies at the path, to which connections are open."""
        if self._path is not None:
            self._found = _identity(self._path)
            beside = [self._path.with_name(f"{self._path.name}{end}") for end in _BESIDE]
            self._beside = {path: _identity(path) for path in beside}

    def _let_go(self) -> None:
        """Close the connection. Where the file is not at its path any more, rename what SQLite left of its journal: it
        belongs to no other. Raises `OSError` where that fails; nothing may be opened at the path then."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._path is not None and self._found is not None and _identity(self._path) != self._found:
            for path, noted in self._beside.items():
                if noted is not None and _identity(path) == noted:
                    path.replace(path.with_name(f"{path.name}.replaced"))
            log.warning(
                "%s is not the file that was opened; that one's journal is beside it, if any is left", self._path
            )
        self._found = None


def _identity(path: Path) -> _Identity:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
