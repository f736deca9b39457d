"""Move counted usage into the store, segment by segment, until the store has confirmed each."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from sluicegate.gateway.accounts.bounds import bounded_sums
from sluicegate.gateway.accounts.health import Health, cannot_be_written, fault_of_store
from sluicegate.gateway.accounts.journal.journal import Journal
from sluicegate.gateway.accounts.records import UsageKey, UsageSum, UsageTable, add_usage
from sluicegate.gateway.accounts.stores.base import AccountStore
from sluicegate.gateway.accounts.stores.redis import FOR_ONE_PROCESS


class RunOnThread(Protocol):
    """Calls something of the store beside the event loop."""

    def __call__(self, call: Callable[..., int], *arguments: object) -> Awaitable[int]: ...


class Flusher:
    """Used on the event loop. Resends sums that a store did not confirm under the same number, which the store adds
    only once."""

    def __init__(self, store: AccountStore, journal: Journal | None, health: Health, on_thread: RunOnThread) -> None:
        self._store = store
        self._journal = journal
        self._health = health
        self._on_thread = on_thread
        self._alone = FOR_ONE_PROCESS + os.urandom(8).hex()
        self._number = 0
        self._pending: UsageTable = {}
        self._unsaved: list[tuple[int, UsageTable]] = []
        """At most the recovered sums and one more: the next is not begun before the last is in the store."""
        self._flushing = asyncio.Lock()

    def add(self, key: UsageKey, usage: UsageSum) -> None:
        add_usage(self._pending, key, usage)

    def recovered(self, number: int, table: UsageTable) -> None:
        """Take over what a killed gateway left in its journal up to segment `number`, to be sent to the store."""
        self._unsaved.append((number, table))

    @property
    def waiting(self) -> Iterable[UsageTable]:
        """Return the tables that the store does not have yet."""
        return [*(table for _, table in self._unsaved), self._pending]

    async def flush(self) -> None:
        """Move what was counted into the store; what cannot be moved stays in the journal and is tried again."""
        async with self._flushing:
            if self._journal is not None:
                self._journal.heal()
            try:
                await self._save()
                if self._pending or (self._journal is not None and self._journal.dirty):
                    self._unsaved.append((self._finished(), self._pending))
                    self._pending = {}
                    await self._save()
            except Exception as error:
                self._failed(error)
                raise
            self._health.end("store")

    def _finished(self) -> int:
        if self._journal is not None:
            return self._journal.finish()
        self._number += 1
        return self._number

    async def _save(self) -> None:
        while self._unsaved:
            number, table = self._unsaved[0]
            identity = self._journal.identity if self._journal is not None else self._alone
            refused = await self._on_thread(self._store.add, identity, number, bounded_sums(table))
            self._health.set_aside("rows_set_aside", refused, "`set_aside` in the store")
            self._unsaved.pop(0)
            if self._journal is not None:
                self._journal.delete(number)

    def _failed(self, error: Exception) -> None:
        self._health.counts["flush_failures"] += 1
        if "segments" in self._health.troubles and not self._unsaved:
            return  # the journal said so
        full = cannot_be_written(error)
        waits = "in the journal" if self._journal is not None else "in memory"
        todo = "make room, or let it take writes again (a replica takes none)" if full else "it is tried again"
        reason = f"the store does not take usage: {fault_of_store(error)}; it waits {waits}: {todo}"
        self._health.begin("store", reason, error, refuses=full)
