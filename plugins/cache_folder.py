"""An on-disk cache folder: its location, the integrity check of its files, and its size bound.

A file is a line that names its format, a BLAKE2b digest of the payload, and the payload. A damaged file counts as
absent and is removed. The digest detects accidents, not attacks: anyone who can write to the folder can forge a file,
so a folder that other users can write to is not used. Processes may share a folder: each file is replaced atomically.
"""

from __future__ import annotations

import logging
import os
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import ClassVar

ENV = "SLUICEGATE_CACHE_DIR"
_NEW = ".new"
_DIGEST = 32


def default_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return `$SLUICEGATE_CACHE_DIR`, else `sluicegate` in the user's folder for caches (XDG)."""
    if environ.get(ENV):
        return Path(environ[ENV])
    base = environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path("~/.cache").expanduser()) / "sluicegate"


class CacheFolder:
    """A folder of files of one kind, together at most `most_bytes`; the least recently used are deleted first."""

    kind: ClassVar[str]
    """Suffix of its file names, repeated in each file's first line."""
    version: ClassVar[int] = 1
    what: ClassVar[str]
    """What is kept; for the log."""
    made: ClassVar[str] = "made"
    """Participle for the log where nothing is kept."""
    log: ClassVar[logging.Logger]

    def __init__(self, path: Path, most_bytes: int) -> None:
        self.path = path
        self.most_bytes = most_bytes
        self.failure: str | None = None
        """Why something could not be kept; None = everything was."""
        self._head = f"sluicegate {self.kind} {self.version}\n".encode()
        self._warned: set[str] = set()

    def read_bytes(self, name: str) -> bytes | None:
        """Return the payload stored under `name`; None where there is none, it is damaged, or others could have written
        it."""
        file = self._file(name)
        try:
            if not self._is_ours(self.path) or not self._is_ours(file):
                return None
            data = file.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(f"cannot read {file} ({error.strerror}); what it holds is {self.made} anew")
            return None
        begin = len(self._head) + _DIGEST
        if not data.startswith(self._head) or _digest(data[begin:]) != data[len(self._head) : begin]:
            self.discard(name, "is damaged")
            return None
        with suppress(OSError):
            os.utime(file)
        return data[begin:]

    def write_bytes(self, name: str, payload: bytes) -> bool:
        """Store `payload`. Return False where it is larger than `most_bytes`, or cannot be written; then `failure` and
        one log line say why."""
        file, new = self._file(name), ""
        if len(payload) > self.most_bytes:
            return False
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_ours(self.path):
                self.failure = f"{self.path} is not used: others own it or can write to it"
                return False
            with tempfile.NamedTemporaryFile(dir=self.path, suffix=_NEW, delete=False) as made:
                new = made.name
                made.write(self._head + _digest(payload) + payload)
            os.replace(new, file)
            self._prune(file)
        except OSError as error:
            with suppress(OSError):
                os.unlink(new)
            self.failure = f"cannot keep {self.what} in {self.path} ({error.strerror})"
            self._warn(f"{self.failure}; they are {self.made} anew at the next start")
            return False
        return True

    def discard(self, name: str, why: str) -> None:
        """Delete an unusable file and log the reason `why`, a verb phrase such as "is damaged"."""
        file = self._file(name)
        self.log.warning("%s %s; what it held is %s anew", file, why, self.made)
        with suppress(OSError):
            file.unlink()

    def _file(self, name: str) -> Path:
        return self.path / f"{name}.{self.kind}"

    def _is_ours(self, path: Path) -> bool:
        if others_can_write(path.stat()):
            self._warn(f"{path} is not used: others own it or can write to it")
            return False
        return True

    def _warn(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            self.log.warning(message)

    def _prune(self, kept: Path) -> None:
        files = [(file.stat(), file) for end in (f".{self.kind}", _NEW) for file in self.path.glob("*" + end)]
        total = sum(found.st_size for found, _ in files)
        for found, file in sorted(files, key=lambda pair: pair[0].st_mtime_ns):
            if total <= self.most_bytes:
                return
            if file != kept:
                file.unlink(missing_ok=True)
                total -= found.st_size


def others_can_write(found: os.stat_result) -> bool:
    """Return whether a user other than this one and root can change the file or folder. False on systems without POSIX
    modes."""
    if os.name != "posix":
        return False
    return found.st_uid not in {os.geteuid(), 0} or bool(stat.S_IMODE(found.st_mode) & 0o022)


def _digest(payload: bytes) -> bytes:
    return blake2b(payload, digest_size=_DIGEST).digest()
