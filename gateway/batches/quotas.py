"""Bound how much a tenant may keep, before it is kept: what is being uploaded counts already."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sluicegate.gateway.settings import BatchSettings
from sluicegate.plugins import QuotaExceeded, RateLimited, StorageFailed

UPLOADS_AT_ONCE = 16


@dataclass(slots=True)
class PendingUploads:
    """Uploads of one tenant that have not ended."""

    uploads: int = 0
    bytes: int = 0


class Quotas:
    """Used on the event loop. A limit of 0 is none."""

    def __init__(self, settings: BatchSettings) -> None:
        self._settings = settings
        self._coming: dict[str, PendingUploads] = {}

    @contextmanager
    def upload(self, tenant: str) -> Iterator[PendingUploads]:
        """Count an upload as running until the block ends. Raises `RateLimited` where too many run."""
        coming = self._coming.setdefault(tenant, PendingUploads())
        if coming.uploads >= UPLOADS_AT_ONCE:
            raise RateLimited(f"{UPLOADS_AT_ONCE} files are being uploaded already; wait for one", retry_after_s=1.0)
        coming.uploads += 1
        try:
            yield coming
        finally:
            coming.uploads -= 1
            if not coming.uploads:
                self._coming.pop(tenant, None)

    def check_files(self, tenant: str, kept: tuple[int, int], more: int = 0) -> None:
        """Refuse `more` bytes that do not fit beside `kept` (files, bytes) and what is coming: raises
        `QuotaExceeded`."""
        coming = self._coming.get(tenant, PendingUploads())
        files, size = kept[0] + coming.uploads, kept[1] + coming.bytes + more
        if (most := self._settings.max_files) and files > most:
            raise _exceeded(f"{kept[0]} files are kept here, the quota ([batches] max_files) is {most}", "file")
        if (most := self._settings.max_bytes) and size > most:
            raise _exceeded(f"{kept[1]} bytes are kept here, the quota ([batches] max_bytes) is {most}", "file")

    def check_batches(self, open_now: int) -> None:
        if (most := self._settings.max_open) and open_now >= most:
            error = RateLimited(
                f"{open_now} batches are open, the quota ([batches] max_open) is {most}; wait until one has ended, or "
                "cancel one with POST /v1/batches/ID/cancel",
                retry_after_s=60.0,
            )
            error.code = "batch_quota_exceeded"
            raise error

    def check_disk(self, free_bytes: int) -> None:
        """Refuse uploads where the disk is short: raises `StorageFailed`. The rest of the disk is for the books and for
        answers."""
        if free_bytes < self._settings.min_free_bytes:
            raise StorageFailed(
                f"the disk of the files has {free_bytes} bytes left, and takes no uploads below "
                f"{self._settings.min_free_bytes} ([batches] min_free_bytes)"
            )


def _exceeded(what: str, kind: str) -> QuotaExceeded:
    return QuotaExceeded(
        f"{what}; remove some that nothing needs any more, with DELETE /v1/files/ID (GET /v1/files lists them)",
        param=kind,
        code="file_quota_exceeded",
    )
