"""A folder of arrays that outlive the process: bounded, written atomically, and never believed without a look.

A file is a line that names the format, a BLAKE2b digest of the rest, and the rest: an `.npz` without pickles. What
cannot be read or does not match its digest is thrown away with a log line, and the caller makes it anew. The digest
tells accidents, not attacks: who may write to the folder may write anything, so a folder that others can write to is
not used.
"""

from __future__ import annotations

import io
import logging
import os
import stat
import tempfile
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.limits import MOST_BYTES

log = logging.getLogger("sluicegate.grammar")
_HEAD = b"sluicegate arrays 1\n"
_SUFFIX = ".arrays"
_NEW = ".new"
_DIGEST = 32

Arrays = dict[str, npt.NDArray[Any]]


class Folder:
    """`most_bytes`: of all files together; those that were not used for longest go first. Safe to share by processes:
    each file appears whole or not at all."""

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self.path = path
        self.most_bytes = most_bytes

    def read(self, name: str) -> Arrays | None:
        """None where nothing usable is kept under `name`."""
        file = self.path / (name + _SUFFIX)
        try:
            if not self._is_ours(self.path):
                return None
            data = file.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            log.warning("cannot read %s (%s); what it held is made anew", file, error.strerror)
            return None
        found = _unpacked(data)
        if found is None:
            self.discard(name, "is damaged")
            return None
        with suppress(OSError):
            os.utime(file)
        return found

    def write(self, name: str, arrays: Arrays) -> bool:
        """False, with a log line, where it cannot be kept."""
        data = _packed(arrays)
        if len(data) > self.most_bytes:
            return False
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_ours(self.path):
                return False
            with tempfile.NamedTemporaryFile(dir=self.path, suffix=_NEW, delete=False) as new:
                new.write(data)
            os.replace(new.name, self.path / (name + _SUFFIX))
            self._prune(self.path / (name + _SUFFIX))
        except OSError as error:
            log.warning("cannot keep %s in %s (%s); it is made anew at the next start", name, self.path, error.strerror)
            return False
        return True

    def discard(self, name: str, why: str) -> None:
        """Take away what turned out to be useless."""
        file = self.path / (name + _SUFFIX)
        log.warning("%s %s; what it held is made anew", file, why)
        with suppress(OSError):
            file.unlink()

    def _is_ours(self, path: Path) -> bool:
        found = path.stat()
        if os.name == "posix" and (found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022):
            log.warning("%s is not used: others own it or can write to it", path)
            return False
        return True

    def _prune(self, kept: Path) -> None:
        files = [(file.stat(), file) for kind in (_SUFFIX, _NEW) for file in self.path.glob("*" + kind)]
        total = sum(found.st_size for found, _ in files)
        for found, file in sorted(files, key=lambda pair: pair[0].st_mtime_ns):
            if total <= self.most_bytes:
                return
            if file != kept:
                file.unlink(missing_ok=True)
                total -= found.st_size


def _packed(arrays: Arrays) -> bytes:
    body = io.BytesIO()
    np.savez(body, allow_pickle=False, **arrays)
    data = body.getvalue()
    return _HEAD + blake2b(data, digest_size=_DIGEST).digest() + data


def _unpacked(data: bytes) -> Arrays | None:
    begin = len(_HEAD) + _DIGEST
    body = data[begin:]
    if not data.startswith(_HEAD) or blake2b(body, digest_size=_DIGEST).digest() != data[len(_HEAD) : begin]:
        return None
    try:
        with np.load(io.BytesIO(body), allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except (ValueError, OSError, KeyError, EOFError):
        return None
