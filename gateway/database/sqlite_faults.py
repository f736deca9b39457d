"""What is wrong with a file of SQLite, in a sentence that says what to do."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from sluicegate.gateway.database.postgres import DatabaseUnavailable

_DAMAGED = "is damaged or no file of SQLite; move it away to begin a new one, or bring its last copy back"
_CLOSED = "cannot be opened; it has to be a file, in a folder, that the gateway's user may write"
_TO_DO: Mapping[int, str] = {
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_CANTOPEN: _CLOSED,
    sqlite3.SQLITE_PERM: _CLOSED,
    sqlite3.SQLITE_READONLY: "cannot be written; let the gateway's user write it, its folder and its file system",
    sqlite3.SQLITE_FULL: "finds no room on its disk; make room",
    sqlite3.SQLITE_IOERR: "cannot be read or written by its disk; see whether that is full, and the log of the system",
    sqlite3.SQLITE_BUSY: "is locked by another process; end that process, or wait for it",
}
"""What to do, by primary result code."""


def fault_of(path: Path | None, error: Exception) -> DatabaseUnavailable:
    """Return what a failure of SQLite, or of the system below it, means for the file (None: in memory)."""
    number = getattr(error, "errno", None) or 0
    return DatabaseUnavailable(number, f"{path or 'the tables in memory'} {_sentence(error)}")


def concerns_file(error: BaseException) -> bool:
    """Return whether the whole file is concerned, rather than one statement or row."""
    return isinstance(error, sqlite3.OperationalError) or type(error) is sqlite3.DatabaseError


def is_damaged(error: BaseException) -> bool:
    """Return whether the file's own bytes are at fault: an open connection has no more use."""
    return _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _sentence(error: Exception) -> str:
    words = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    code = sqlite3.SQLITE_CANTOPEN if isinstance(error, OSError) else _code(error)
    return f"{_TO_DO.get(code, 'cannot be used')} ({words})"


def _code(error: BaseException) -> int:
    """Return the primary code of an error, which the low byte holds; -1 where SQLite gave none.

    A file attached to another fails with SQLITE_ERROR whatever is wrong with it; only the message then tells that it
    cannot be opened."""
    code = getattr(error, "sqlite_errorcode", -1)
    if type(error) is sqlite3.DatabaseError and code < 0:  # of a check that was made of it
        return sqlite3.SQLITE_CORRUPT
    attached = code == sqlite3.SQLITE_ERROR and str(error).startswith("unable to open database")
    return sqlite3.SQLITE_CANTOPEN if attached else code & 0xFF if code >= 0 else -1
