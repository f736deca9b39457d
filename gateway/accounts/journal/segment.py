"""One file of the journal, open for appending. Writes after `close` raise, instead of reaching a reused descriptor."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path

from sluicegate.gateway.accounts.health import RETRY_S
from sluicegate.plugins import BooksUnavailable

PROBE = b"\n" * 4096
"""Blank lines: a disk with room for them has room for some requests."""


class JournalSegment:
    """Appends lines completely or not at all, as far as the disk allows."""

    def __init__(self, path: Path, *, sync: bool) -> None:
        """Create the file. Raises `OSError`, also if it exists."""
        self.path = path
        self._sync = sync
        self._length = 0
        self._torn = False
        self._file: io.FileIO | None = io.FileIO(path, "xb", opener=_private)

    def append(self, lines: bytes) -> None:
        """Append `lines`. Raises `OSError`, with nothing of `lines` in the file, or `BooksUnavailable` once closed."""
        file = self._opened()
        data = b"\n" + lines if self._torn else lines
        try:
            _write(file, data)
            if self._sync:
                os.fdatasync(file.fileno())
        except OSError:
            self._cut_back(file)
            raise
        self._length += len(data)
        self._torn = False

    def probe(self) -> None:
        """Raise `OSError` where the disk would not take a line now."""
        file = self._opened()
        try:
            _write(file, PROBE)
        finally:
            self._cut_back(file)

    def close(self) -> None:
        """Close the segment. Raises what the disk reports; the descriptor is closed in any case."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def remove(self) -> None:
        """Close and delete the file; failures are ignored."""
        with contextlib.suppress(OSError):
            self.close()
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _opened(self) -> io.FileIO:
        if self._file is None:
            raise BooksUnavailable("the journal is closed; the gateway is stopping", retry_after_s=RETRY_S)
        return self._file

    def _cut_back(self, file: io.FileIO) -> None:
        """Truncate a torn write; where that fails, let the next line begin on a line of its own."""
        try:
            os.ftruncate(file.fileno(), self._length)
        except OSError:
            self._torn = True
            with contextlib.suppress(OSError):
                self._length = os.fstat(file.fileno()).st_size


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_APPEND, 0o600)


def _write(file: io.FileIO, data: bytes) -> None:
    """Write all of `data`: a disk that fills up takes a part and fails with the next call."""
    written = file.write(data) or 0
    while written < len(data):
        written += file.write(data[written:]) or 0
