"""Open the store of files and batches, and tell whether this gateway may change it now."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Protocol

from sluicegate.gateway.batches.folder import FolderLock
from sluicegate.gateway.batches.stores.base import BatchStore
from sluicegate.gateway.batches.stores.postgres import PostgresBatchStore
from sluicegate.gateway.batches.stores.sqlite import SqliteBatchStore
from sluicegate.gateway.database import Database
from sluicegate.gateway.settings import BatchSettings, DatabaseSettings

log = logging.getLogger("sluicegate.batches")
DAY_S = 24 * 3600.0


class StoreOwnership(Protocol):
    """Tells whether this gateway may change the store of batches. Calls block, except `may_ask`. They raise
    `ConfigurationError` for a setting that can never work, else what the disk raises."""

    def look(self) -> tuple[BatchStore, bool]:
        """Return the store, opened if needed, and whether this gateway may change it."""

    def renewed(self, asked: float) -> None:
        """Record that the store accepted a renewal sent at `asked` (`time.monotonic`)."""

    def may_ask(self) -> bool:
        """Return whether this gateway certainly still holds its batches, so that it may send a line's request."""

    def holder(self) -> str:
        """Return a description of the gateway that holds the batches."""

    def give_back(self) -> None: ...


class FolderOwnership:
    """One gateway at a time holds the folder and everything in it, until its process ends."""

    def __init__(self, settings: BatchSettings) -> None:
        self._folder = Path(settings.path)
        self._keep_s = settings.keep_days * DAY_S
        self._lock = FolderLock(self._folder)
        self._store: SqliteBatchStore | None = None
        self._holds = False

    def look(self) -> tuple[BatchStore, bool]:
        if self._holds and self._store is not None:
            replaced = "database" if self._store.was_replaced() else "" if self._lock.is_held() else "lock"
            if not replaced:
                return self._store, True
            log.error("the %s of %s is not the one that was taken: batches stop here", replaced, self._folder)
            self._holds = False
            self._lock.give_back()
            return self._store, False
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        held = self._lock.is_held() or self._lock.take()
        if held and self._store is not None:  # read until now; who holds the folder looks at it again
            store, self._store = self._store, None
            store.close()
        if self._store is None:
            self._store = SqliteBatchStore(self._folder, repair=held)
        if held:
            self._store.tidy(self._keep_s)
        self._holds = held
        return self._store, held

    def renewed(self, asked: float) -> None:
        """Do nothing: the kernel keeps the lock."""

    def may_ask(self) -> bool:
        return True

    def holder(self) -> str:
        return self._lock.holder()

    def give_back(self) -> None:
        store, self._store, self._holds = self._store, None, False
        if store is not None:
            store.close()
        self._lock.give_back()


class SharedOwnership:
    """Every gateway of the database may change the store; each batch is run by the gateway that holds and renews its
    lease."""

    def __init__(self, settings: BatchSettings, shared: DatabaseSettings, database: Database) -> None:
        self._settings = settings
        self._lease_s = shared.lease_s
        self._database = database
        self._store: PostgresBatchStore | None = None
        self._sure_until = 0.0

    def look(self) -> tuple[BatchStore, bool]:
        if self._store is None:
            self._database.open()
            self._store = PostgresBatchStore(
                self._database,
                Path(self._settings.path),
                lease_s=self._lease_s,
                places=self._settings.concurrency,
                keep_s=self._settings.keep_days * DAY_S,
            )
        return self._store, True

    def renewed(self, asked: float) -> None:
        self._sure_until = asked + self._lease_s

    def may_ask(self) -> bool:
        return time.monotonic() < self._sure_until

    def holder(self) -> str:
        return "another gateway"

    def give_back(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.give_back()


def tenure_of(settings: BatchSettings, shared: DatabaseSettings, database: Database | None) -> StoreOwnership:
    return FolderOwnership(settings) if database is None else SharedOwnership(settings, shared, database)
