"""Lock a folder of batches: one gateway runs them, for as long as its process lives.

The kernel releases the lock however the holder ends. On NFS that holds where the server keeps locks and the mount does
not switch them off (`nolock`, `local_lock`); give several machines a folder each.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from pathlib import Path

from sluicegate.plugins import ConfigurationError

NAME = "batches.lock"
LONGEST_NOTE = 512


class FolderLock:
    """Not thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._descriptor: int | None = None

    def take(self) -> bool:
        """Take the lock if it is free; return whether this process holds it. Raises `ConfigurationError` where nothing
        can be locked there."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not _locked(descriptor) or not self._is_there(descriptor):
                os.close(descriptor)
                return False
        except OSError as error:
            os.close(descriptor)
            raise ConfigurationError(f"[batches] path: {str(self._path)!r} cannot be locked: {error}") from error
        self._descriptor = descriptor
        self._sign(descriptor)
        return True

    def is_held(self) -> bool:
        """Return False also where somebody put another file in the place of the locked one."""
        return self._descriptor is not None and self._is_there(self._descriptor)

    def holder(self) -> str:
        """Return who holds it, in words, from the note in the file."""
        try:
            with self._path.open("rb") as opened:
                note = json.loads(opened.read(LONGEST_NOTE))
            since = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(int(note["since_s"])))
            return f"process {int(note['pid'])} on {str(note['host'])[:100]!r}, since {since}"
        except (OSError, ValueError, TypeError, KeyError, OverflowError):
            return "another process"

    def give_back(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _is_there(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self._path))
        except OSError:
            return False

    def _sign(self, descriptor: int) -> None:
        note = {"pid": os.getpid(), "host": socket.gethostname(), "since_s": int(time.time())}
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(note).encode(), 0)
        except OSError:  # a full disk takes no note; the lock holds without
            pass


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
