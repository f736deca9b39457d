"""Keep where a chain stands beside its file, in `NAME.last`: a file that begins anew continues it, whoever begins it.

Not covered: a crash between a line and its note, right before the file is moved away: the next file then continues one
line too early, and checking both says so.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from sluicegate.gateway.audit.chain import Anchor

LONGEST = 128
"""Bytes of a note, at most."""


class LastLine:
    """Read and written within `held`. Where the folder takes no file nothing is kept."""

    def __init__(self, log: Path) -> None:
        self._path = log.with_name(log.name + ".last")
        self._descriptor: int | None = None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Wait until no other process writes a line: the lock of the log itself is moved away with it."""
        self._descriptor = self._opened()
        try:
            yield
        finally:
            if self._descriptor is not None:
                os.close(self._descriptor)
            self._descriptor = None

    def read(self) -> Anchor:
        """Return where the chain stands; at its start where no note can be read."""
        if self._descriptor is None:
            return Anchor()
        seq, _, digest = os.pread(self._descriptor, LONGEST, 0).decode("ascii", "replace").strip().partition(":")
        if not (seq.isdecimal() and len(digest) == len(Anchor().digest)):
            return Anchor()
        return Anchor(int(seq), digest)

    def note(self, anchor: Anchor) -> None:
        """Note where the chain stands. The line is written by then: a disk that takes no note costs only that."""
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):
            content = f"{anchor}\n".encode("ascii")
            os.pwrite(self._descriptor, content, 0)
            os.ftruncate(self._descriptor, len(content))

    def _opened(self) -> int | None:
        try:
            found = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return None
        fcntl.flock(found, fcntl.LOCK_EX)
        return found
