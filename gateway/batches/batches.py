"""Keep the files and batches of all tenants, and run what is open.

One gateway at a time runs the batches of a folder. Another on the same folder reads, refuses what would change
anything, and takes over once the first is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from sluicegate.gateway.batches.disk_retry import STORAGE, DiskRetry, Waiting
from sluicegate.gateway.batches.folder import FolderLock
from sluicegate.gateway.batches.quotas import Quotas
from sluicegate.gateway.batches.records import OPEN, BatchRecord, FileRecord
from sluicegate.gateway.batches.runner import BatchRunner, Run
from sluicegate.gateway.batches.store import BatchStore
from sluicegate.gateway.batches.uploads import IncomingFile, usable
from sluicegate.gateway.settings import BatchSettings
from sluicegate.plugins import ConfigurationError, NotFound, Overloaded, RequestError, StorageFailed

log = logging.getLogger("sluicegate.batches")
T = TypeVar("T")
WINDOW_S = 24 * 3600
PURPOSES = ("batch", "user_data")
WATCH_S = 1.0
"""How often a gateway looks whether the folder is its own."""
FORGET_S = 3600.0
TRIES = 5
"""How often a batch is resumed that broke, by something else than its disk."""
THREADS = 4


class Batches:
    """Used on the event loop. Without a path nothing is kept, and every call is refused with the reason."""

    def __init__(self, settings: BatchSettings) -> None:
        self._settings = settings
        self._folder = Path(settings.path)
        self._store: BatchStore | None = None
        self._runner: BatchRunner | None = None
        """While this gateway holds the folder."""
        self._run: Run | None = None
        self._lock = FolderLock(self._folder)
        self._retry = DiskRetry()
        self._quotas = Quotas(settings)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._watcher: asyncio.Task[None] | None = None
        self._threads = ThreadPoolExecutor(THREADS, "batches")
        self._failure = ""
        """Why the folder cannot be opened now."""
        self._forgot_s = 0.0
        self._said = ""
        self._creating = asyncio.Lock()

    async def start(self, run: Run) -> None:
        """Resume every batch that was open when a gateway last ended. Raises `ConfigurationError` where the folder can
        never be used; a disk that fails now is waited for."""
        if not self._settings.path:
            return
        self._run = run
        await self._look()
        self._watcher = asyncio.ensure_future(self._watch())

    async def close(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
            self._watcher = None
        await self._put_down()
        if self._store is not None:
            store, self._store = self._store, None
            await self._on_disk(store.close)
        self._lock.give_back()
        self._threads.shutdown(wait=False)

    def stats(self) -> Mapping[str, float]:
        """For metrics."""
        return {
            "holds_folder": float(self._runner is not None),
            "open": len(self._tasks),
            "waiting_for_disk": len(self._retry.waiting),
            "disk_failures_total": self._retry.failures,
        }

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
        needed = [b.id for b in await self.batches(tenant) if b.status in OPEN and b.input_file_id == file_id]
        if needed:
            raise RequestError(f"batch {needed[0]!r} still reads this file; cancel it first", code="file_in_use")
        await self._call(lambda store: store.remove_file(file_id))

    # --- batches ---

    async def create(self, record: BatchRecord) -> BatchRecord:
        self._check_holder()
        await self.file(record.input_file_id, record.tenant)

        def put(store: BatchStore) -> None:
            self._quotas.check_batches(store.open_count(record.tenant))
            self._quotas.check_disk(store.contents.free_bytes())
            store.put_batch(record)

        async with self._creating:  # who counts, adds before the next one counts
            await self._call(put)
        self._begin(record)
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

    def waiting(self, batch_id: str) -> Waiting | None:
        """Return why a batch does not go on now."""
        return self._retry.waiting.get(batch_id)

    async def cancel(self, batch_id: str, tenant: str) -> BatchRecord:
        """End a batch, and write out what was answered so far."""
        record = await self.batch(batch_id, tenant)
        if record.status not in OPEN:
            raise RequestError(f"batch {batch_id!r} is {record.status}; only one that runs can be cancelled")
        self._check_holder()
        task = self._tasks.pop(batch_id, None)
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
        try:
            record = await self.batch(batch_id, tenant)
            if record.status in OPEN:  # it has not ended in the meantime
                times = {**record.times, "cancelling_at": int(time.time())}
                moved = replace(record, status="cancelling", times=times)
                await self._call(lambda store: store.put_batch(moved))
                record = moved
        finally:
            if record.status in OPEN and self._runner is not None:
                self._begin(record)
        return record

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
        """Take the folder if nobody has it, or give it up if it is another's now."""
        if self._runner is not None:
            if not await self._on_disk(self._lock.is_held):
                log.error("the lock of %s is not the one that was taken: batches stop here", self._folder)
                await self._put_down()
                self._lock.give_back()
            elif time.monotonic() - self._forgot_s > FORGET_S:
                await self._forget_old()
            return
        try:
            await self._open()
        except STORAGE as error:
            self._failed(f"{type(error).__name__}: {error}")

    async def _open(self) -> None:
        await self._on_disk(lambda: self._folder.mkdir(parents=True, exist_ok=True, mode=0o700), setting=True)
        held = await self._on_disk(self._lock.is_held) or await self._on_disk(self._lock.take, setting=True)
        if held and self._store is not None:  # read until now; who holds the folder looks at it again
            store, self._store = self._store, None
            await self._on_disk(store.close)
        if self._store is None:
            self._store = await self._on_disk(lambda: BatchStore(self._folder, repair=held))
        self._failure = ""
        if held:
            await self._take_over(self._store)
        elif self._said != (holder := self._lock.holder()):
            self._said = holder
            log.warning("%s runs the batches of %s; this gateway waits for it", holder, self._folder)

    async def _take_over(self, store: BatchStore) -> None:
        await self._on_disk(lambda: store.tidy(self._settings.keep_days * 24 * 3600))
        await self._forget_old()
        found = await self._on_disk(store.open_batches)
        assert self._run is not None
        self._runner = BatchRunner(store, self._run, self._settings.concurrency, self._retry, self._on_disk)
        log.info("this gateway runs the batches of %s: %d are open", self._folder, len(found))
        for record in found:
            self._begin(record)

    async def _put_down(self) -> None:
        self._runner = None
        tasks, self._tasks = self._tasks, {}
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        self._retry.waiting.clear()

    async def _forget_old(self) -> None:
        self._forgot_s = time.monotonic()
        before_s = int(time.time()) - self._settings.keep_days * 24 * 3600
        await self._on_disk(lambda: self._opened().forget(before_s))

    def _begin(self, record: BatchRecord) -> None:
        runner = self._runner
        if runner is None:  # put down in the meantime
            return
        task = self._tasks[record.id] = asyncio.ensure_future(self._finish(runner, record))
        task.add_done_callback(lambda done: self._ended(record.id, done))

    def _ended(self, batch_id: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(batch_id) is task:
            del self._tasks[batch_id]
            self._retry.waiting.pop(batch_id, None)

    async def _finish(self, runner: BatchRunner, record: BatchRecord) -> None:
        """Run a batch to its end, whatever happens to the disk. It fails where something else breaks `TRIES` times."""
        broke = 0
        while True:
            try:
                return await runner.finish(record)
            except STORAGE as error:
                await self._retry.pause(record.id, error, self._pause_s(broke))
            except Exception as error:
                broke += 1
                log.exception("batch %s broke (%d of %d)", record.id, broke, TRIES)
                if broke >= TRIES:
                    await runner.move(record, "failed", error=f"the gateway failed on it: {type(error).__name__}")
                    return None
                await asyncio.sleep(self._pause_s(broke))
            found = await self._retry.until_kept(record.id, partial(self._on_disk, partial(self._again, record.id)))
            if found is None or found.status not in OPEN:
                return None
            record = found

    def _pause_s(self, broke: int) -> float:
        return float(min(30, 2**broke))

    def _again(self, batch_id: str) -> BatchRecord | None:
        return self._opened().batch(batch_id)

    # --- shared ---

    def _check_holder(self) -> None:
        """Raises `Overloaded`, or `StorageFailed`, where this gateway may change nothing in the folder."""
        self._opened()
        if self._runner is None:
            error = Overloaded(
                f"files and batches of this gateway are run by {self._lock.holder()}, which holds the same folder; ask "
                "that gateway, or come back when it has ended",
                retry_after_s=5.0,
            )
            error.code = "batches_elsewhere"
            raise error

    def _opened(self) -> BatchStore:
        if not self._settings.path:
            raise RequestError("this gateway keeps no files; set [batches] path in its configuration", code="no_store")
        if self._store is None:
            raise StorageFailed(f"the folder of the files cannot be opened now: {self._failure or 'not started yet'}")
        return self._store

    def _failed(self, reason: str) -> None:
        if reason != self._failure:
            log.error("batches cannot run in %s: %s", self._folder, reason)
        self._failure = reason
        self._retry.failures += 1

    async def _call(self, work: Callable[[BatchStore], T]) -> T:
        store = self._opened()
        return await self._disk_call(lambda: work(store))

    async def _disk_call(self, work: Callable[[], T]) -> T:
        """Run `work` for a caller, who reads why a disk fails."""
        try:
            return await self._on_disk(work)
        except STORAGE as error:
            self._retry.failures += 1
            log.error("a call for a file or batch failed: %s: %s", type(error).__name__, error)
            reason = getattr(error, "strerror", None) or str(error)
            raise StorageFailed(f"the disk of the files does not do: {reason[:200]}") from error

    async def _on_disk(self, work: Callable[[], T], *, setting: bool = False) -> T:
        """Run `work` on a thread, to its end even where the caller disconnects. With `setting` what an operator has to
        mend is a `ConfigurationError`."""
        try:
            return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._threads, work))
        except (FileExistsError, NotADirectoryError, PermissionError) as error:
            if not setting:
                raise
            raise ConfigurationError(f"[batches] path {str(self._folder)!r} cannot be used: {error}") from error


def new_id(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex}"


def _no_file(file_id: str) -> NotFound:
    return NotFound(f"there is no file {file_id[:100]!r} here", param="file_id", code="file_not_found")
