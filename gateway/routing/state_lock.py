"""Notice a second gateway on one file of weights: each would undo what the other changed."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

from sluicegate.plugins import Trouble

SHARED = (
    "another gateway uses the file of [routing] state: weights that one sets do not reach the other, and rollouts do "
    "not notice them; give each a file of its own, or all of them a [database]"
)


class StateLock:
    """Used on the event loop. The kernel releases the lock however its holder ends."""

    def __init__(self, path: Path) -> None:
        self._path = Path(f"{path}.lock")
        self._descriptor: int | None = None

    def troubles(self) -> Sequence[Trouble]:
        """Report a gateway that holds the lock; it is tried again at each call."""
        if self._descriptor is not None:
            return ()
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            return (Trouble(f"the folder of [routing] state cannot be written: {error.strerror}; correct its rights"),)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return (Trouble(SHARED),)
        self._descriptor = descriptor
        return ()

    def close(self) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None
