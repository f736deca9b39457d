"""A disk that turns read-only after an error, with files open on it: ext4 on a loop device, told that it found one."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from functools import cache
from pathlib import Path


@cache
def can_fail() -> bool:
    """Return whether this process may mount such a disk, and its kernel lets it fail."""
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(OSError, subprocess.CalledProcessError):
        disk = FailingDisk(Path(folder))
        try:
            return disk.error.exists()
        finally:
            disk.unmount()
    return False


class FailingDisk:
    """At `folder / "disk"`, with its image beside it. Raises `CalledProcessError` where nothing can be mounted."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "disk"
        self.path.mkdir()
        image = folder / "disk.image"
        with image.open("wb") as opened:
            opened.truncate(16 << 20)
        _run("mkfs.ext4", "-q", str(image))
        _run("mount", "-o", "loop,errors=remount-ro", str(image), str(self.path))
        mounts = Path("/proc/mounts").read_text("utf-8").splitlines()
        device = next(d for d, at, *_ in map(str.split, mounts) if at == str(self.path))
        self.error = Path("/sys/fs/ext4") / Path(device).name / "trigger_fs_error"

    def fail(self) -> None:
        """Let the kernel refuse all further writes; the disk is still called writable."""
        self.error.write_text("1")

    def unmount(self) -> None:
        """Take it away, though files on it are open. May be called again."""
        if self.path.is_mount():
            _run("umount", "--lazy", str(self.path))


def _run(*command: str) -> None:
    subprocess.run(command, capture_output=True, check=True)
