"""Current troubles of keys and usage, and counts of past ones, for `/readyz`, `/metrics` and the log."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
from collections.abc import Mapping
from typing import Literal

from sluicegate.cache.stores.redis_client import why_of
from sluicegate.plugins import BooksUnavailable, SluicegateError, Trouble

log = logging.getLogger("sluicegate.accounts")
Part = Literal["journal", "segments", "store", "keys", "leases", "runs"]
RETRY_S = 5.0
"""`Retry-After` of a refusal while the books cannot be written."""
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
UNWRITABLE = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY})
REDIS_FULL = ("OOM ", "MISCONF ")
"""Prefixes of the errors of a Redis whose memory or disk is full; its client library has a class only for the first."""
COUNTED = ("figures_bounded", "rows_set_aside", "lines_set_aside", "flush_failures", "journal_failures")
MORE_COUNTED = ("refresh_failures", "keys_set_aside", "keys_lost", "lease_failures", "refused")

MOST_SHOWN = 200
"""Characters of an error in the log; some of Redis name a whole client."""


class Health:
    """Used on the event loop. A trouble is logged when it begins and when it ends, not each time it is met."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys((*COUNTED, *MORE_COUNTED), 0)
        self._troubles: dict[Part, Trouble] = {}

    def begin(self, part: Part, reason: str, error: Exception | None = None, *, refuses: bool = False) -> None:
        """Note that `part` does not work; `reason` says what to do about it, to anybody: what `error` says of paths and
        addresses is only logged."""
        known = self._troubles.get(part)
        if known is None or known.refuses != refuses:
            log.error("the books: %s%s", reason, f" [{str(error)[:MOST_SHOWN]}]" if error is not None else "")
        self._troubles[part] = Trouble(reason, refuses)

    def end(self, part: Part) -> None:
        if self._troubles and self._troubles.pop(part, None) is not None:
            log.warning("the books: %s works again", part)

    def set_aside(self, what: str, count: int, where: str) -> None:
        """Count and log implausible rows."""
        if count:
            self.counts[what] += count
            log.error("the books: %d implausible %s set aside, see %s", count, what.split("_", 1)[0], where)

    def check(self) -> None:
        """Raise `BooksUnavailable` while something lasts that refuses."""
        if self._troubles:
            for trouble in self._troubles.values():
                if trouble.refuses:
                    raise self.unavailable()

    def unavailable(self) -> BooksUnavailable:
        self.counts["refused"] += 1
        return BooksUnavailable(
            "usage cannot be written down now, so that nothing is served that would be charged; try again (operators: "
            "/readyz says why)",
            retry_after_s=RETRY_S,
        )

    @property
    def is_well(self) -> bool:
        """Return whether no lasting trouble refuses requests."""
        return not any(trouble.refuses for trouble in self._troubles.values())

    @property
    def troubles(self) -> Mapping[Part, Trouble]:
        """Return the troubles that last now. While one of them refuses, nothing is served that would have to be
        charged."""
        return self._troubles


def cannot_be_written(error: BaseException) -> bool:
    """Return whether a store or a disk has no room or takes no writes, rather than being busy or out of reach."""
    if isinstance(error, sqlite3.Error):
        return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF in UNWRITABLE
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in FULL or error.errno in (errno.EIO, errno.EROFS)
    return type(error).__name__ == "OutOfMemoryError" or str(error).startswith(REDIS_FULL)


def fault_of_store(error: BaseException) -> str:
    """Return what is wrong with a store, to be shown to anybody: without paths and addresses, which errors of the
    system and of Redis hold."""
    if isinstance(error, SluicegateError):
        return error.message
    if isinstance(error, sqlite3.Error):
        return str(error)
    if isinstance(error, OSError) and error.errno is not None:
        return f"{os.strerror(error.errno)} ({type(error).__name__})"
    return why_of(error)
