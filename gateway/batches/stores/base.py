"""Protocols of the stores that keep the records of files and batches, and assign each batch to one gateway."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from sluicegate.gateway.batches.file_store import FileStore
from sluicegate.gateway.batches.records import BatchRecord, FileRecord, LineResult, Status


class BatchMoved(Exception):
    """Another gateway runs the batch now, or its status has changed: read it again. Nothing was written."""


class BatchStore(Protocol):
    """Thread-safe. Calls block, and raise `OSError` or what the library of the store raises."""

    contents: FileStore

    def close(self) -> None: ...

    # --- files ---

    def add_file(self, record: FileRecord, parts: Iterable[bytes], batch: BatchRecord) -> bool:
        """Keep what `batch` wrote: bytes first, then the record that names them; where either fails, neither is there.
        `record.bytes` is set here. Return False, and keep nothing, where there are no bytes. Raises `BatchMoved`."""

    def name_file(self, record: FileRecord) -> None:
        """Record a file whose bytes are there."""

    def file(self, file_id: str, tenant: str) -> FileRecord | None: ...

    def files(self, tenant: str) -> list[FileRecord]:
        """Return them newest first."""

    def kept(self, tenant: str) -> tuple[int, int]:
        """Return (files, bytes) of a tenant."""

    def content(self, file_id: str) -> Path: ...

    def remove_file(self, file_id: str) -> str | None:
        """Remove a file, unless an open batch reads it: return that batch's id."""

    def forget(self, before_s: int) -> None:
        """Remove files, and batches that have ended, of before that time; not what an open batch reads."""

    # --- batches ---

    def add_batch(self, record: BatchRecord, check: Callable[[int], None]) -> bool:
        """Add a batch once `check`, given how many the tenant has open, raises nothing. Return False where its input
        file is gone."""

    def batch(self, batch_id: str, tenant: str | None = None) -> BatchRecord | None:
        """Return a batch, of any tenant where none is named."""

    def batches(self, tenant: str) -> list[BatchRecord]:
        """Return them newest first."""

    def remove_batch(self, batch_id: str) -> bool:
        """Forget a batch; return False, and do nothing, where it is open or there is none."""

    def move(self, before: BatchRecord, after: BatchRecord) -> None:
        """Replace the record. Raises `BatchMoved` where its status is no longer that of `before`, or another gateway
        runs the batch."""

    def end(self, before: BatchRecord, after: BatchRecord) -> None:
        """Replace the record as `move` does, and drop the results, which are in files now."""

    def cancel(self, batch_id: str, at_s: int) -> BatchRecord | None:
        """Mark an open batch, whoever runs it, and return it as it is now; None where there is none."""

    # --- who runs them ---

    def take(self, held: Collection[str]) -> list[BatchRecord]:
        """Take open batches that no gateway runs, in addition to those in `held`, and return them, oldest first."""

    def renew(self, held: Collection[str]) -> Mapping[str, Status]:
        """Renew the caller's leases. Return the status of those in `held` that are still its own."""

    def give_back(self) -> None:
        """Release the batches that the caller has not ended, for other gateways to run."""

    # --- results ---

    def add_result(self, batch_id: str, result: LineResult) -> None:
        """Store the answer to a line; an answer that exists stays. Raises `BatchMoved`."""

    def results(self, batch_id: str) -> Iterator[LineResult]:
        """Yield results in the order of the lines. Read a page at a time: together they may be larger than memory."""

    def counts(self, batch_id: str) -> tuple[int, int, int, int]:
        """Return (answered well, failed, prompt tokens, completion tokens) so far."""

    def done(self, batch_id: str) -> set[int]:
        """Return the numbers of the lines that have an answer."""
