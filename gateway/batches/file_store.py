"""Store the bytes of files. A file is written under a temporary name and renamed once synced, so it is never
incomplete.

Calls block for as long as the disk takes, and raise `OSError`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

log = logging.getLogger("sluicegate.batches")


class FileStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files, self._incoming, self._aside = (folder / name for name in ("files", "incoming", "aside"))
        for place in (self._files, self._incoming, self._aside):
            place.mkdir(parents=True, exist_ok=True, mode=0o700)

    def path(self, file_id: str) -> Path:
        return self._files / file_id

    def begin(self, name: str) -> int:
        """Return a descriptor to write to; `keep` or `drop` follows."""
        return os.open(self._incoming / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def keep(self, file_id: str, descriptor: int) -> None:
        """Sync and close the file, and give it its own name."""
        self._sync(descriptor)
        self.publish(file_id, file_id)

    def drop(self, name: str, descriptor: int | None = None) -> None:
        """Remove what was begun. Never raises."""
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        with contextlib.suppress(OSError):
            (self._incoming / name).unlink(missing_ok=True)

    def put(self, file_id: str, parts: Iterable[bytes]) -> int:
        """Write a whole file and return its size; one of that name is replaced atomically."""
        size = self.prepare(file_id, parts)
        self.publish(file_id, file_id)
        return size

    def prepare(self, name: str, parts: Iterable[bytes]) -> int:
        """Write and sync a whole file; `publish` or `drop` follows. Return its size."""
        descriptor: int | None = self.begin(name)
        size = 0
        try:
            assert descriptor is not None
            for part in parts:
                write_all(descriptor, part)
                size += len(part)
            whole, descriptor = descriptor, None  # `_sync` closes it
            self._sync(whole)
        except BaseException:
            self.drop(name, descriptor)
            raise
        return size

    def publish(self, name: str, file_id: str) -> None:
        """Give what is on the disk the name of the file; one of that name is replaced."""
        os.rename(self._incoming / name, self.path(file_id))
        _sync_folder(self._files)

    def _sync(self, descriptor: int) -> None:
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, file_id: str) -> None:
        self.path(file_id).unlink(missing_ok=True)

    def free_bytes(self) -> int:
        found = os.statvfs(self._folder)
        return found.f_bavail * found.f_frsize

    def tidy(self, known: Collection[str], keep_s: float, younger_s: float = 0.0) -> None:
        """Remove what was never finished, set aside files that no record names, and remove these after `keep_s`. What
        is not older than `younger_s` stays: another gateway may be writing it."""
        for left in _older(self._incoming, younger_s):
            log.warning("removed an upload that was never finished: %s", left.name)
            left.unlink(missing_ok=True)
        for path in _older(self._files, younger_s):
            if path.name not in known:
                log.warning("no record names the file %s; it is set aside", path.name)
                with contextlib.suppress(FileNotFoundError):
                    os.utime(path)
                    os.rename(path, self._aside / path.name)
        for path in _older(self._aside, keep_s):
            path.unlink(missing_ok=True)


def _older(folder: Path, age_s: float) -> Iterator[Path]:
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime <= time.time() - age_s or age_s <= 0:
                yield path


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
