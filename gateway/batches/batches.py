"""Keep the files and batches of all tenants, and run what is open.

On a folder of one machine one gateway at a time runs the batches; another reads, refuses what would change anything,
and takes over once the first is gone. On a shared database every gateway takes every call, and runs what nobody else
does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from sluicegate.gateway.batches.disk_retry import STORAGE, DiskRetry, RetryState
from sluicegate.gateway.batches.merging import count_unasked
from sluicegate.gateway.batches.open_batches import OpenBatches
from sluicegate.gateway.batches.ownership import tenure_of
from sluicegate.gateway.batches.quotas import Quotas
from sluicegate.gateway.batches.records import OPEN, BatchRecord, FileRecord
from sluicegate.gateway.batches.runner import BatchRunner, Run
from sluicegate.gateway.batches.stores.base import BatchStore
from sluicegate.gateway.batches.stores.sqlite import NAME
from sluicegate.gateway.batches.uploads import IncomingFile, usable
from sluicegate.gateway.database import Database, DatabaseUnavailable, fault_of, patient, unavailable
from sluicegate.gateway.settings import BatchSettings, DatabaseSettings
from sluicegate.plugins import ConfigurationError, NotFound, Overloaded, RequestError, StorageFailed, Trouble
from sluicegate.plugins.concurrency.ending import end_tasks
from sluicegate.plugins.concurrency.thread_calls import ThreadCalls

log = logging.getLogger("sluicegate.batches")
T = TypeVar("T")
WINDOW_S = 24 * 3600
PURPOSES = ("batch", "user_data")
WATCH_S = 1.0
"""How often a gateway checks whether it owns the folder."""
FORGET_S = 3600.0
THREADS = 4
PATIENCE_S = 5.0
"""How long a gateway that stops waits for calls under way."""


class Batches:
    """Used on the event loop. Without a path nothing is kept, and every call is refused with the reason."""

    def __init__(
        self,
        settings: BatchSettings,
        database: Database | None = None,
        shared: DatabaseSettings = DatabaseSettings(),
    ) -> None:
        """Keep the settings; nothing is opened yet. `database` is where all gateways of the deployment keep the
        records; None: in the folder."""
        self._settings = settings
        self._shared = database is not None
        self._tenure = tenure_of(settings, shared, database)
        self._store: BatchStore | None = None
        self._run: Run | None = None
        self._retry = DiskRetry()
        self._quotas = Quotas(settings)
        self._open = OpenBatches(self._tenure, self._retry, self._on_disk, self._opened)
        self._watcher: asyncio.Task[None] | None = None
        self._threads = ThreadCalls(THREADS, "batches")
        self._failure = ""
        """Why the store cannot be opened; '' = it can."""
        self._forgot_s = -math.inf
        self._said = ""

    async def start(self, run: Run) -> None:
        """Resume every batch that was open when a gateway last ended. Raises `ConfigurationError` where the folder can
        never be used; a disk that fails now is waited for."""
        if not self._settings.path:
            return
        self._run = run
        await self._look()
        self._watcher = asyncio.ensure_future(self._watch())

    async def close(self) -> None:
        await end_tasks((self._watcher,))
        self._watcher = None
        await self._put_down()
        await self._threads.ended(PATIENCE_S)  # else one that takes batches could take them after they were given back
        self._store = None
        try:
            await self._on_disk(self._tenure.give_back)
        except STORAGE as error:  # others find out by themselves
            log.warning("batches were not given back: %s", error)
        self._threads.close()

    def stats(self) -> Mapping[str, float]:
        """Return figures for metrics."""
        return {
            "holds_folder": float(self._open.runner is not None),
            "open": len(self._open),
            "waiting_for_disk": len(self._retry.waiting),
            "disk_failures_total": self._retry.failures,
        }

    def troubles(self) -> Sequence[Trouble]:
        """Report a folder that cannot be opened, and batches that wait for their disk."""
        waiting = list(self._retry.waiting.values())
        found = [Trouble(f"{len(waiting)} batches wait for their disk ({waiting[0].reason})")] if waiting else []
        if self._failure:
            found.append(Trouble(f"the folder of batches cannot be used now and is tried again: {self._failure}"))
        return found

    # --- files ---

    @asynccontextmanager
    async def upload(self, tenant: str) -> AsyncIterator[IncomingFile]:
        """Yield an upload; what is not kept inside is removed afterwards."""
        self._check_holder()
        with self._quotas.upload(tenant) as coming:
            store = self._opened()
            upload = IncomingFile(new_id("file"), tenant, store, self._quotas, coming, self._disk_call)
            try:
                await upload.begin()
                yield upload
            finally:
                await asyncio.shield(upload.end())

    async def keep(self, upload: IncomingFile, filename: str, purpose: str) -> FileRecord:
        if purpose not in PURPOSES:
            raise RequestError(
                f"`purpose` must be one of {', '.join(PURPOSES)}, found {purpose[:100]!r}", param="purpose"
            )
        return await upload.keep(usable(filename), purpose)

    async def file(self, file_id: str, tenant: str) -> FileRecord:
        found = await self._call(lambda store: store.file(file_id, tenant))
        if found is None:
            raise _no_file(file_id)
        return found

    async def files(self, tenant: str) -> list[FileRecord]:
        return await self._call(lambda store: store.files(tenant))

    async def content(self, file_id: str, tenant: str) -> Path:
        await self.file(file_id, tenant)
        path = await self._call(lambda store: store.content(file_id))
        if not await self._call(lambda store: path.is_file()):
            raise _no_file(file_id)
        return path

    async def remove_file(self, file_id: str, tenant: str) -> None:
        await self.file(file_id, tenant)
        self._check_holder()
        needed = await self._call(lambda store: store.remove_file(file_id))
        if needed is not None:
            raise RequestError(f"batch {needed!r} still reads this file; cancel it first", code="file_in_use")

    # --- batches ---

    async def create(self, record: BatchRecord) -> BatchRecord:
        self._check_holder()
        await self.file(record.input_file_id, record.tenant)

        def put(store: BatchStore) -> bool:
            self._quotas.check_disk(store.contents.free_bytes())
            return store.add_batch(record, self._quotas.check_batches)

        if not await self._call(put):
            raise _no_file(record.input_file_id)
        with contextlib.suppress(*STORAGE):  # it is kept: who looks next begins it
            if self._store is not None:
                await self._open.take(self._store)
        return record

    async def batch(self, batch_id: str, tenant: str) -> BatchRecord:
        found = await self._call(lambda store: store.batch(batch_id, tenant))
        if found is None:
            raise NotFound(f"there is no batch {batch_id[:100]!r} here", param="batch_id", code="batch_not_found")
        return found

    async def batches(self, tenant: str) -> list[BatchRecord]:
        return await self._call(lambda store: store.batches(tenant))

    async def counts(self, record: BatchRecord) -> tuple[int, int, int, int]:
        """Return (answered well, failed, prompt tokens, completion tokens) so far."""
        if record.counts is not None:
            return record.counts
        return await self._call(lambda store: store.counts(record.id))

    async def expired(self, record: BatchRecord) -> int:
        """Return how many of the lines that failed were never asked."""
        if record.error_file_id is None:
            return 0
        path = await self.content(record.error_file_id, record.tenant)
        return await self._call(lambda _: count_unasked(path))

    def waiting(self, batch_id: str) -> RetryState | None:
        """Return why a batch does not go on now."""
        return self._retry.waiting.get(batch_id)

    async def cancel(self, batch_id: str, tenant: str) -> BatchRecord:
        """End a batch, and write out what was answered so far."""
        record = await self.batch(batch_id, tenant)
        if record.status not in OPEN:
            raise RequestError(f"batch {batch_id!r} is {record.status}; only one that runs can be cancelled")
        self._check_holder()
        return await self._open.cancel(
            record, lambda: self._call(lambda store: store.cancel(batch_id, int(time.time())))
        )

    async def remove(self, batch_id: str, tenant: str, *also: str | None) -> None:
        """Forget a batch that has ended, and the files that it wrote, and those of `also`."""
        record = await self.batch(batch_id, tenant)
        self._check_holder()
        if not await self._call(lambda store: store.remove_batch(batch_id)):
            record = await self.batch(batch_id, tenant)  # unless somebody else has removed it meanwhile
            raise RequestError(f"batch {batch_id!r} is {record.status}; cancel it, and remove it when it has ended")
        for file_id in (record.output_file_id, record.error_file_id, *also):
            if file_id is not None:
                await self._call(lambda store, file_id=file_id: store.remove_file(file_id))  # type: ignore[misc]

    # --- running what is open ---

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            try:
                await self._look()
            except ConfigurationError as error:
                self._failed(error.message)
            except Exception:
                log.exception("the folder of the batches could not be looked at")

    async def _look(self) -> None:
        """Open the store if it is not open, renew the leases of running batches, and take batches that nobody runs."""
        try:
            store, may_change = await self._on_disk(self._tenure.look, setting=True)
            self._store, self._failure = store, ""
            if not may_change:
                await self._wait_for_holder()
                return
            await self._begin_work(store)
            await self._open.renew(store)
            await self._open.take(store)
        except STORAGE as error:
            self._failed(self._said_of(error))

    async def _wait_for_holder(self) -> None:
        if self._open.runner is not None:
            await self._put_down()
        if self._said != (holder := self._tenure.holder()):
            self._said = holder
            log.warning("%s runs the batches of %s; this gateway waits for it", holder, self._settings.path)

    async def _begin_work(self, store: BatchStore) -> None:
        if self._open.runner is None:
            assert self._run is not None
            places, may_ask = self._settings.concurrency, self._tenure.may_ask
            self._open.runner = BatchRunner(store, self._run, places, self._retry, self._on_disk, may_ask)
            log.info("this gateway runs batches of %s", self._settings.path)
        if time.monotonic() - self._forgot_s > FORGET_S:
            before_s = int(time.time()) - self._settings.keep_days * 24 * 3600
            await self._on_disk(lambda: store.forget(before_s))
            self._forgot_s = time.monotonic()

    async def _put_down(self) -> None:
        self._forgot_s = -math.inf
        await self._open.put_down()

    # --- shared ---

    def _check_holder(self) -> None:
        """Check that this gateway may change the folder. Raises `Overloaded` where another holds it, or
        `StorageFailed`."""
        self._opened()
        if self._open.runner is None:
            error = Overloaded(
                f"files and batches of this gateway are run by {self._tenure.holder()}, which holds the same folder; "
                "ask that gateway, or come back when it has ended",
                retry_after_s=5.0,
            )
            error.code = "batches_elsewhere"
            raise error

    def _opened(self) -> BatchStore:
        if not self._settings.path:
            raise RequestError("this gateway keeps no files; set [batches] path in its configuration", code="no_store")
        if self._store is None:
            raise StorageFailed("the store of files and batches cannot be opened now; it is tried again")
        return self._store

    def _said_of(self, error: Exception) -> str:
        if isinstance(error, DatabaseUnavailable):
            return str(error)
        named = getattr(error, "filename", None)
        return str(fault_of(Path(named) if named else Path(self._settings.path) / NAME, error))

    def _failed(self, reason: str) -> None:
        if reason != self._failure:
            log.error("batches cannot run in %s: %s", self._settings.path, reason)
        self._failure = reason
        self._retry.failures += 1

    async def _call(self, work: Callable[[BatchStore], T]) -> T:
        store = self._opened()
        return await self._disk_call(lambda: work(store))

    async def _disk_call(self, work: Callable[[], T]) -> T:
        """Run `work` for a caller. Raises `StorageFailed`, or `Overloaded` for the database, with the reason."""
        try:
            return await (patient(self._on_disk(work)) if self._shared else self._on_disk(work))
        except DatabaseUnavailable as error:
            self._retry.failures += 1
            log.error("a call for a file or batch failed: %s", error)
            raise unavailable("files and batches") from error
        except STORAGE as error:
            self._retry.failures += 1
            log.error("a call for a file or batch failed: %s: %s", type(error).__name__, error)
            reason = getattr(error, "strerror", None) or str(error)
            raise StorageFailed(f"the disk of the files does not do: {reason[:200]}") from error

    async def _on_disk(self, work: Callable[[], T], *, setting: bool = False) -> T:
        """Run `work` on a thread, to its end even where the caller disconnects. `setting`: raise `ConfigurationError`
        for a path that an operator has to correct."""
        try:
            return await self._threads.run(work)
        except (FileExistsError, NotADirectoryError, PermissionError) as error:
            if not setting:
                raise
            raise ConfigurationError(f"[batches] path {self._settings.path!r} cannot be used: {error}") from error


def new_id(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex}"


def _no_file(file_id: str) -> NotFound:
    return NotFound(f"there is no file {file_id[:100]!r} here", param="file_id", code="file_not_found")
