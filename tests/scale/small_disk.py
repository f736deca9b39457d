"""A disk of a few megabytes, to be filled: a file system in memory, where this machine lets us mount one."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from functools import cache
from pathlib import Path


@cache
def can_mount() -> bool:
    """Return whether this process may mount anything: it is root, and not in a container that forbids it."""
    with tempfile.TemporaryDirectory() as folder:
        disk = SmallDisk(Path(folder), 1)
        disk.unmount()
        return disk.mounted


class SmallDisk:
    """At `folder`, which is made. Where nothing can be mounted it is a folder like others: `mounted` says so."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._filler = folder / "filler"
        command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
        self.mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0

    def fill(self) -> None:
        """Leave not a byte."""
        assert self.mounted, "this would fill the machine's own disk"
        with self._filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)

    def set_writable(self, writable: bool) -> None:
        """Mount it again, read-only or not. The kernel refuses that while a file is open to be written."""
        command = ["mount", "-o", f"remount,{'rw' if writable else 'ro'}", str(self._folder)]
        subprocess.run(command, capture_output=True, check=True)

    def unmount(self) -> None:
        if self.mounted:
            subprocess.run(["umount", "--lazy", str(self._folder)], check=False)
