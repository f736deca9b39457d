"""The folder of the journal, and how a command excludes gateways from it."""

from __future__ import annotations

import fcntl
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sluicegate.gateway.settings import AccountSettings
from sluicegate.plugins import ConfigurationError

LOCK = "lock"


def folder_of(settings: AccountSettings) -> Path | None:
    """Return None where the settings name no disk."""
    folder = settings.journal or (f"{settings.path}.journal" if settings.path else "")
    return Path(folder) if folder else None


@contextmanager
def without_gateway(folder: Path | None) -> Iterator[None]:
    """Hold the journal's lock, if there is one, so that no gateway uses it. Raises `ConfigurationError` where one
    does."""
    if folder is None or not (folder / LOCK).is_file():
        yield
        return
    with io.FileIO(folder / LOCK, "r+b") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigurationError(f"a gateway writes the journal {folder}; stop it first") from error
        yield
