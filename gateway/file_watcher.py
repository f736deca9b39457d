"""Read certificates and secrets again when their files change, as mounted secrets do when they are renewed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from sluicegate.plugins.concurrency.ending import end_tasks

log = logging.getLogger("sluicegate")
Signature = tuple[tuple[int, int, int] | None, ...]


@dataclass(slots=True)
class _WatchedFile:
    what: str
    files: Callable[[], Iterable[Path]]
    renew: Callable[[], Awaitable[object]]
    used: Signature
    """Signature of the files in use."""
    refused: Signature | None = None
    """Signature of files that could not be used, so that the log reports them once."""


class FileWatcher:
    """Checks watched files every `every_s` seconds; 0 = only when asked. Used on the event loop."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._watched: list[_WatchedFile] = []
        self._task: asyncio.Task[None] | None = None

    def watch(self, what: str, files: Callable[[], Iterable[Path]], renew: Callable[[], Awaitable[object]]) -> None:
        """Await `renew` whenever one of the files has changed. Where it raises, the old content stays in use, and it is
        tried again at each check: a pair may be half written."""
        self._watched.append(_WatchedFile(what, files, renew, signature(files())))

    def start(self) -> None:
        if self._every_s and self._task is None:
            self._task = asyncio.create_task(self._keep_looking())

    async def close(self) -> None:
        await end_tasks((self._task,))
        self._task = None

    async def look(self) -> list[str]:
        """Renew the changed files, and return what was renewed."""
        return [one.what for one in self._watched if await self._renewed(one)]

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            await self.look()

    async def _renewed(self, one: _WatchedFile) -> bool:
        found = await asyncio.to_thread(lambda: signature(one.files()))
        if found == one.used:
            return False
        try:
            await one.renew()
        except Exception as error:
            if found != one.refused:
                log.error("%s changed and cannot be used, the old stays; it is tried again: %s", one.what, error)
            one.refused = found
            return False
        one.used, one.refused = found, None
        return True


def signature(files: Iterable[Path]) -> Signature:
    """Return a value that changes with the file's content, links followed; None for a missing file."""
    return tuple(_of(path) for path in files)


def _of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
