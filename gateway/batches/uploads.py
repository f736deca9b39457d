"""Write one upload to the disk as it comes; its bytes are counted before they are written."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

from sluicegate.gateway.batches.file_store import write_all
from sluicegate.gateway.batches.quotas import PendingUploads, Quotas
from sluicegate.gateway.batches.records import FileRecord
from sluicegate.gateway.batches.stores.base import BatchStore

PART_BYTES = 1 << 20
"""Bytes written at once."""


class IncomingFile:
    """Owned by one task. Raises `QuotaExceeded`, `StorageFailed`, and what the disk raises."""

    def __init__(
        self,
        file_id: str,
        tenant: str,
        store: BatchStore,
        quotas: Quotas,
        coming: PendingUploads,
        call: Callable[[Callable[[], Any]], Awaitable[Any]],
    ) -> None:
        self.id = file_id
        self._tenant = tenant
        self._store = store
        self._quotas = quotas
        self._coming = coming
        self._disk = call
        self._working: asyncio.Future[Any] | None = None
        self._descriptor: int | None = None
        self._waiting = bytearray()
        self._size = 0

    async def begin(self) -> None:
        kept, free = await self._call(lambda: (self._store.kept(self._tenant), self._store.contents.free_bytes()))
        self._quotas.check_files(self._tenant, kept)
        self._quotas.check_disk(free)
        self._descriptor = await self._call(lambda: self._store.contents.begin(self.id))

    async def write(self, data: bytes) -> None:
        self._waiting += data
        if len(self._waiting) >= PART_BYTES:
            await self._flush()

    async def keep(self, filename: str, purpose: str) -> FileRecord:
        """Sync and record the file."""
        await self._flush()
        record = FileRecord(self.id, self._tenant, filename[:255], purpose, self._size, int(time.time()))
        descriptor = self._descriptor
        assert descriptor is not None
        self._descriptor = None  # `keep` closes it

        def kept() -> None:
            self._store.contents.keep(self.id, descriptor)
            self._store.name_file(record)

        await self._call(kept)
        return record

    async def end(self) -> None:
        """Remove what was not kept."""
        descriptor, self._descriptor = self._descriptor, None
        if self._working is not None and not self._working.done():  # a descriptor is closed when nothing uses it
            await asyncio.wait((self._working,))
        self._coming.bytes -= self._size
        await self._disk(lambda: self._store.contents.drop(self.id, descriptor))

    async def _call(self, work: Callable[[], Any]) -> Any:
        """Run `work` to its end even where the caller disconnects; `end` waits for it."""
        self._working = asyncio.ensure_future(self._disk(work))
        return await asyncio.shield(self._working)

    async def _flush(self) -> None:
        part, self._waiting = bytes(self._waiting), bytearray()
        kept = await self._call(lambda: self._store.kept(self._tenant))
        self._quotas.check_files(self._tenant, kept, len(part))
        self._coming.bytes += len(part)
        self._size += len(part)
        descriptor = self._descriptor
        assert descriptor is not None

        def written() -> int:
            write_all(descriptor, part)
            return self._store.contents.free_bytes()

        self._quotas.check_disk(await self._call(written))


def usable(name: str) -> str:
    """Return a file's name as it may be shown: nothing of a path, nothing that does not print."""
    return "".join(letter for letter in os.path.basename(name.replace("\\", "/")) if letter.isprintable()) or "file"
