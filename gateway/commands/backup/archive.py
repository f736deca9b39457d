"""A backup on the disk: a folder with a manifest that names every file in it, its size and its SHA-256.

The manifest is written last and read first, so that a backup that was cut short, or changed since, is never restored.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from sluicegate import __version__
from sluicegate.plugins import ConfigurationError

NAME = "manifest.json"
FORMAT = 1
PART_BYTES = 1 << 20


class BackupWriter:
    """Writes to a folder that is new or empty."""

    def __init__(self, folder: Path) -> None:
        """Make the folder of a backup. Raises `ConfigurationError` where it is not new or empty, or cannot be made."""
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigurationError(f"{str(folder)!r} is there already; name a folder that is new or empty")
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise ConfigurationError(f"{str(folder)!r} cannot be made: {error.strerror}") from error
        self._folder = folder
        self._files: dict[str, dict[str, object]] = {}

    def add(self, name: str, parts: Iterable[bytes]) -> None:
        """Write one file, under a relative name with `/` between folders."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        digest, size = hashlib.sha256(), 0
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            for part in parts:
                opened.write(part)
                digest.update(part)
                size += len(part)
            opened.flush()
            os.fsync(opened.fileno())
        self._files[name] = {"bytes": size, "sha256": digest.hexdigest()}

    def finish(self, facts: Mapping[str, object]) -> None:
        manifest = {"format": FORMAT, "release": __version__, **facts, "files": self._files}
        beside = self._folder / f"{NAME}.new"
        beside.write_text(json.dumps(manifest, indent=1), "utf-8")
        os.replace(beside, self._folder / NAME)


class BackupReader:
    """Reads a backup, and believes none of its bytes before their digest was seen."""

    def __init__(self, folder: Path) -> None:
        """Read what the backup holds and check its files. Raises `ConfigurationError` where it is no whole backup."""
        self._folder = folder
        try:
            found = json.loads((folder / NAME).read_text("utf-8"))
            self.facts: dict[str, Any] = dict(found)
            self.files: dict[str, dict[str, Any]] = dict(found["files"])
        except FileNotFoundError as error:
            raise ConfigurationError(f"{str(folder)!r} is no backup, or was never finished: no {NAME}") from error
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise ConfigurationError(f"{str(folder / NAME)!r} cannot be read: {error}") from error
        if self.facts.get("format") != FORMAT:
            raise ConfigurationError(f"{str(folder)!r} is of format {self.facts.get('format')!r}, this release reads 1")
        for name in self.files:
            self._check(name)

    def under(self, folder: str) -> list[str]:
        """Return the names of files below `folder`, relative to it."""
        return [name.removeprefix(f"{folder}/") for name in self.files if name.startswith(f"{folder}/")]

    def parts(self, name: str) -> Iterator[bytes]:
        with (self._folder / name).open("rb") as opened:
            yield from parts_of(opened)

    def _check(self, name: str) -> None:
        path = self._folder / name
        if not path.resolve().is_relative_to(self._folder.resolve()):
            raise ConfigurationError(f"the backup names {name!r}, which lies outside of it")
        digest = hashlib.sha256()
        try:
            for part in self.parts(name):
                digest.update(part)
        except OSError as error:
            raise ConfigurationError(f"{str(path)!r} of the backup cannot be read: {error.strerror}") from error
        if digest.hexdigest() != self.files[name].get("sha256"):
            raise ConfigurationError(f"{str(path)!r} is not what was backed up: its SHA-256 is another")


def parts_of(opened: BinaryIO) -> Iterator[bytes]:
    while part := opened.read(PART_BYTES):
        yield part
