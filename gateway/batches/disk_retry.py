"""Repeat a disk operation until it succeeds, and report why a batch waits."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

log = logging.getLogger("sluicegate.batches")
T = TypeVar("T")
STORAGE = (OSError, sqlite3.Error)
"""Errors of a disk, or of the database on it."""
FIRST_S, LONGEST_S = 0.5, 30.0


@dataclass(frozen=True, slots=True)
class RetryState:
    """Why a batch waits, since when, and when it is tried again (Unix seconds)."""

    reason: str
    since_s: int
    again_s: int


class DiskRetry:
    """Used on the event loop."""

    def __init__(self, first_s: float = FIRST_S, longest_s: float = LONGEST_S) -> None:
        self.waiting: dict[str, RetryState] = {}
        """Retries by batch."""
        self.failures = 0
        self._first_s, self._longest_s = first_s, longest_s

    async def until_kept(self, batch_id: str, work: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `work`, once the disk accepts it. `work` is repeated, so it must be idempotent."""
        wait_s = self._first_s
        while True:
            try:
                found = await work()
            except STORAGE as error:
                await self.pause(batch_id, error, wait_s)
                wait_s = min(self._longest_s, 2 * wait_s)
            else:
                self.waiting.pop(batch_id, None)
                return found

    async def pause(self, batch_id: str, error: BaseException, wait_s: float) -> None:
        now_s = time.time()
        before = self.waiting.get(batch_id)
        self.failures += 1
        reason = f"{type(error).__name__}: {getattr(error, 'strerror', None) or error}"[:200]
        since_s = int(now_s) if before is None else before.since_s
        self.waiting[batch_id] = RetryState(reason, since_s, int(now_s + wait_s) + 1)
        if before is None:
            log.error("batch %s waits, its disk does not do: %s", batch_id, reason)
        await asyncio.sleep(wait_s)
