"""The open batches that this gateway runs: taken where no gateway runs them, and dropped where another one took
them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from sluicegate.gateway.batches.disk_retry import STORAGE, DiskRetry
from sluicegate.gateway.batches.ownership import StoreOwnership
from sluicegate.gateway.batches.records import OPEN, BatchRecord
from sluicegate.gateway.batches.runner import BatchRunner
from sluicegate.gateway.batches.stores.base import BatchMoved, BatchStore

log = logging.getLogger("sluicegate.batches")
T = TypeVar("T")
TRIES = 5
"""How often a batch is resumed after a failure other than its disk's."""


@dataclass(frozen=True, slots=True)
class RunningBatch:
    """`cancelling`: what runs writes out what a cancelled batch has."""

    task: asyncio.Task[None]
    cancelling: bool


class RunOnDisk(Protocol):
    """Run work on a thread, to its end."""

    def __call__(self, work: Callable[[], T]) -> Awaitable[T]: ...


class OpenBatches:
    """Used on the event loop. `opened` returns the store, or raises where there is none."""

    def __init__(
        self, tenure: StoreOwnership, retry: DiskRetry, on_disk: RunOnDisk, opened: Callable[[], BatchStore]
    ) -> None:
        self.runner: BatchRunner | None = None
        """Set while this gateway owns the store."""
        self._tenure = tenure
        self._retry = retry
        self._on_disk = on_disk
        self._opened = opened
        self._running: dict[str, RunningBatch] = {}
        self._taking = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._running)

    async def cancel(self, record: BatchRecord, move: Callable[[], Awaitable[BatchRecord | None]]) -> BatchRecord:
        """Stop the running batch, `move` it to its next status, and return it. Its runner still writes the finished
        answers out."""
        async with self._taking:
            running = self._running.get(record.id)
            if running is not None:
                running.task.cancel()
                await asyncio.gather(running.task, return_exceptions=True)
            try:
                record = await move() or record
            finally:
                if running is not None and record.status in OPEN:
                    self._begin(record)
        return record

    async def renew(self, store: BatchStore) -> None:
        """Renew this gateway's leases; stop batches that another gateway runs now, and those cancelled elsewhere."""
        async with self._taking:
            asked, held = time.monotonic(), dict(self._running)
            ours = await self._on_disk(lambda: store.renew(held))
            self._tenure.renewed(asked)
            for batch_id, running in held.items():
                cancelled = ours.get(batch_id) == "cancelling" and not running.cancelling
                if running.task.done() or (batch_id in ours and not cancelled):
                    continue
                log.info("batch %s was %s elsewhere", batch_id, "cancelled" if cancelled else "taken or ended")
                running.task.cancel()  # what is still this gateway's is taken again

    async def take(self, store: BatchStore) -> None:
        """Run the batches that no gateway runs."""
        async with self._taking:  # else two calls would begin the same batch
            if self.runner is None:
                return
            asked, held = time.monotonic(), set(self._running)
            for record in await self._on_disk(lambda: store.take(held)):
                if not held:
                    self._tenure.renewed(asked)
                self._begin(record)

    async def put_down(self) -> None:
        self.runner = None
        held, self._running = self._running, {}
        for running in held.values():
            running.task.cancel()
        await asyncio.gather(*(running.task for running in held.values()), return_exceptions=True)
        self._retry.waiting.clear()

    def _begin(self, record: BatchRecord) -> None:
        runner = self.runner
        if runner is None:  # put down in the meantime
            return
        task = asyncio.ensure_future(self._finish(runner, record))
        self._running[record.id] = RunningBatch(task, record.status == "cancelling")
        task.add_done_callback(lambda done: self._ended(record.id, done))

    def _ended(self, batch_id: str, task: asyncio.Task[None]) -> None:
        if batch_id in self._running and self._running[batch_id].task is task:
            del self._running[batch_id]
            self._retry.waiting.pop(batch_id, None)

    async def _finish(self, runner: BatchRunner, record: BatchRecord) -> None:
        """Run a batch to its end, whatever happens to the disk. It fails where something else breaks `TRIES` times."""
        broke = 0
        while True:
            try:
                return await runner.finish(record)
            except STORAGE as error:
                await self._retry.pause(record.id, error, self._pause_s(broke))
            except BatchMoved:
                log.info("batch %s was moved on by another call, or by another gateway", record.id)
            except Exception:
                broke += 1
                log.exception("batch %s broke (%d of %d)", record.id, broke, TRIES)
                if broke >= TRIES:
                    await runner.move(record, "failed", error="the gateway failed on it, and its log has why")
                    return None
                await asyncio.sleep(self._pause_s(broke))
            found = await self._retry.until_kept(record.id, partial(self._on_disk, partial(self._again, record.id)))
            if found is None or found.status not in OPEN:
                return None
            record = found

    def _pause_s(self, broke: int) -> float:
        return float(min(30, 2**broke))

    def _again(self, batch_id: str) -> BatchRecord | None:
        """Return the current record of a batch; None where another gateway runs it."""
        store = self._opened()
        return store.batch(batch_id) if batch_id in store.renew([batch_id]) else None
