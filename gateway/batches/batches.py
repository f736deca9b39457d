"""Files and batches of all tenants, and the worker that runs what is open, from start to close."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from gateway.batches.records import OPEN, BatchRecord, FileRecord
from gateway.batches.runner import Run, Runner
from gateway.batches.store import BatchStore
from gateway.settings import BatchSettings
from plugins import NotFound, RequestError

log = logging.getLogger("sluicegate.batches")
T = TypeVar("T")
WINDOW_S = 24 * 3600
PURPOSES = ("batch", "user_data")


class Batches:
    """Without a path nothing is kept and every call is refused with the reason."""

    def __init__(self, settings: BatchSettings) -> None:
        self._settings = settings
        self._store: BatchStore | None = None
        self._runner: Runner | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self, run: Run) -> None:
        """Go on with every batch that was open when the gateway last ended."""
        if not self._settings.path:
            return
        self._store = await asyncio.to_thread(BatchStore, Path(self._settings.path))
        self._runner = Runner(self._store, run, asyncio.Semaphore(self._settings.concurrency), new_id)
        await asyncio.to_thread(self._forget_old)
        for record in await asyncio.to_thread(self._store.open_batches):
            self._begin(record)

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        if self._store is not None:
            await asyncio.to_thread(self._store.close)
            self._store = None

    # --- files ---

    async def add_file(self, tenant: str, filename: str, purpose: str, parts: Iterable[bytes], size: int) -> FileRecord:
        if purpose not in PURPOSES:
            raise RequestError(f"`purpose` must be one of {', '.join(PURPOSES)}, found {purpose!r}", param="purpose")
        record = FileRecord(new_id("file"), tenant, filename[:255], purpose, size, int(time.time()))
        await self._call(lambda store: store.add_file(record, parts))
        return record

    async def file(self, file_id: str, tenant: str) -> FileRecord:
        found = await self._call(lambda store: store.file(file_id, tenant))
        if found is None:
            raise NotFound(f"there is no file {file_id!r} here", param="file_id", code="file_not_found")
        return found

    async def files(self, tenant: str) -> list[FileRecord]:
        return await self._call(lambda store: store.files(tenant))

    async def content(self, file_id: str, tenant: str) -> Path:
        await self.file(file_id, tenant)
        return await self._call(lambda store: store.content(file_id))

    async def remove_file(self, file_id: str, tenant: str) -> None:
        await self.file(file_id, tenant)
        needed = [b.id for b in await self.batches(tenant) if b.status in OPEN and b.input_file_id == file_id]
        if needed:
            raise RequestError(f"batch {needed[0]!r} still reads this file; cancel it first", code="file_in_use")
        await self._call(lambda store: store.remove_file(file_id))

    # --- batches ---

    async def create(self, record: BatchRecord) -> BatchRecord:
        await self.file(record.input_file_id, record.tenant)
        await self._call(lambda store: store.put_batch(record))
        self._begin(record)
        return record

    async def batch(self, batch_id: str, tenant: str) -> BatchRecord:
        found = await self._call(lambda store: store.batch(batch_id, tenant))
        if found is None:
            raise NotFound(f"there is no batch {batch_id!r} here", param="batch_id", code="batch_not_found")
        return found

    async def batches(self, tenant: str) -> list[BatchRecord]:
        return await self._call(lambda store: store.batches(tenant))

    async def counts(self, batch_id: str) -> tuple[int, int, int, int]:
        return await self._call(lambda store: store.counts(batch_id))

    async def cancel(self, batch_id: str, tenant: str) -> BatchRecord:
        """What was answered so far is written out."""
        record = await self.batch(batch_id, tenant)
        if record.status not in OPEN:
            raise RequestError(f"batch {batch_id!r} is {record.status}; only one that runs can be cancelled")
        task = self._tasks.pop(batch_id, None)
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
        record = await self.batch(batch_id, tenant)
        if record.status not in OPEN or self._runner is None:  # it ended in the meantime
            return record
        record = await self._runner.move(record, "cancelling")
        self._begin(record)
        return record

    # --- what they share ---

    def _begin(self, record: BatchRecord) -> None:
        assert self._runner is not None
        task = self._tasks[record.id] = asyncio.ensure_future(self._run(self._runner, record))
        task.add_done_callback(lambda done: self._tasks.pop(record.id, None) if self._is(record.id, done) else None)

    def _is(self, batch_id: str, task: asyncio.Task[None]) -> bool:
        return self._tasks.get(batch_id) is task

    async def _run(self, runner: Runner, record: BatchRecord) -> None:
        try:
            await runner.finish(record)
        except Exception:
            log.exception("batch %s broke; it is gone on with after a restart", record.id)

    async def _call(self, work: Callable[[BatchStore], T]) -> T:
        if self._store is None:
            raise RequestError("this gateway keeps no files; set [batches] path in its configuration", code="no_store")
        return await asyncio.to_thread(work, self._store)

    def _forget_old(self) -> None:
        assert self._store is not None
        needed = {record.input_file_id for record in self._store.open_batches()}
        for record in self._store.stale_files(int(time.time()) - self._settings.keep_days * 24 * 3600):
            if record.id not in needed:
                self._store.remove_file(record.id)


def new_id(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex}"
