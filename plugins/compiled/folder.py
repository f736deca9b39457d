"""A folder of compiled functions: bounded, written atomically, and only believed where nobody else can write.

A file is a line that names the format, a BLAKE2b digest of the rest, and the rest. What is damaged counts as absent and
is removed. Safe to share by processes: each file appears whole or not at all.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from sluicegate.plugins.cache_folder import default_folder, others_can_write

log = logging.getLogger("sluicegate.compiled")
MOST_BYTES = 512 << 20
_HEAD = b"sluicegate compiled 1\n"
_SUFFIX, _NEW = ".compiled", ".new"
_DIGEST = 32


def compiled_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return `compiled` in `$NUMBA_CACHE_DIR`, else in the folder that all caches are in."""
    if given := environ.get("NUMBA_CACHE_DIR"):
        return Path(given) / "compiled"
    return default_folder(environ) / "compiled"


class CompiledFolder:
    """`most_bytes`: of all files together; those that were not used for longest go first."""

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self.path = path
        self.most_bytes = most_bytes
        self.failure: str | None = None
        """Why something could not be kept; None = all was."""
        self._warned: set[str] = set()

    def read(self, key: str) -> bytes | None:
        """Return what is kept under `key`; None where there is nothing that can be believed."""
        file = self.path / (key + _SUFFIX)
        try:
            if not self._is_ours(self.path) or not self._is_ours(file):
                return None
            data = file.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(f"cannot read {self.path} ({error.strerror}); loops are compiled anew")
            return None
        begin = len(_HEAD) + _DIGEST
        if not data.startswith(_HEAD) or _digest(data[begin:]) != data[len(_HEAD) : begin]:
            self.discard(key, "is damaged")
            return None
        with suppress(OSError):
            os.utime(file)
        return data[begin:]

    def write(self, key: str, payload: bytes) -> bool:
        """Keep `payload`; False, with one log line, where that is not possible."""
        file = self.path / (key + _SUFFIX)
        new = ""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_ours(self.path):
                self.failure = f"{self.path} is not used: others own it, or can write to it"
                return False
            with tempfile.NamedTemporaryFile(dir=self.path, suffix=_NEW, delete=False) as made:
                new = made.name
                made.write(_HEAD + _digest(payload) + payload)
            os.replace(new, file)
            self._prune(file)
        except OSError as error:
            with suppress(OSError):
                os.unlink(new)
            self.failure = f"cannot keep compiled loops in {self.path} ({error.strerror})"
            self._warn(f"{self.failure}; the next start compiles again")
            return False
        return True

    def discard(self, key: str, why: str) -> None:
        """Take away what turned out to be useless."""
        file = self.path / (key + _SUFFIX)
        log.warning("%s %s; what it held is compiled anew", file, why)
        with suppress(OSError):
            file.unlink()

    def _is_ours(self, path: Path) -> bool:
        if others_can_write(path.stat(), trusts_root=True):
            self._warn(f"{self.path} is not used: others own it or a file in it, or can write to them")
            return False
        return True

    def _warn(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            log.warning(message)

    def _prune(self, kept: Path) -> None:
        files = [(file.stat(), file) for kind in (_SUFFIX, _NEW) for file in self.path.glob("*" + kind)]
        total = sum(found.st_size for found, _ in files)
        for found, file in sorted(files, key=lambda pair: pair[0].st_mtime_ns):
            if total <= self.most_bytes:
                return
            if file != kept:
                file.unlink(missing_ok=True)
                total -= found.st_size


def _digest(payload: bytes) -> bytes:
    return blake2b(payload, digest_size=_DIGEST).digest()
