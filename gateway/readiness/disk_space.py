"""Watch the disks that the gateway writes to: their free space, before one of them is full, and whether they take
writes."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from sluicegate.gateway.telemetry import semconv
from sluicegate.plugins import Trouble
from sluicegate.plugins.concurrency.ending import end_tasks
from sluicegate.plugins.contract.disk_paths import unwritable

EVERY_S = 5.0
OFTEN_S = 0.5
"""While a disk has too little space, or cannot be asked: what is reported is what operators act on."""
SILENT_S = 30.0
"""A disk that does not answer for this long (such as an unreachable network file system) is reported."""
MEND = "see the log of the system, and let it be written again"


class DiskSpace(Collector):
    """Used on the event loop; asks each disk on a thread of its own, since a disk that is away may never answer."""

    def __init__(self, folders: Mapping[str, Path], min_free_bytes: int) -> None:
        """Prepare to watch `folders`, by what is written there. One that is not made yet is judged by its nearest
        parent."""
        self._folders = dict(folders)
        self._min_free_bytes = min_free_bytes
        self._free: dict[str, int] = {}
        self._asked_s: dict[str, float] = {}
        self._errors: dict[str, str] = {}
        self._unwritable: dict[str, str] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._threads = ThreadPoolExecutor(max(1, len(self._folders)), "disk-space")

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._watch(name, path)) for name, path in self._folders.items()]

    async def close(self) -> None:
        await end_tasks(self._tasks)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def troubles(self) -> Sequence[Trouble]:
        """Report disks with less free space than wanted, that take no writes, cannot be asked, or do not answer."""
        return [Trouble(reason) for name in self._asked_s if (reason := self._trouble(name))]

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(semconv.METRIC_DISK_FREE, "Bytes that are free on its disk.", labels=("folder",))
        for name, free in list(self._free.items()):
            family.add_metric((name,), float(free))
        return (family,)

    def _trouble(self, name: str) -> str:
        silent_s = time.monotonic() - self._asked_s[name]
        if silent_s > SILENT_S:
            return f"the disk of {name} has not answered for {silent_s:.0f} s"
        if name in self._errors:
            return f"the disk of {name} cannot be asked ({self._errors[name]})"
        if why := self._unwritable.get(name):
            return f"the disk of {name} takes no writes ({why}): {MEND}"
        free = self._free.get(name, self._min_free_bytes)
        if free < self._min_free_bytes:
            return f"{_size(free)} are free for {name}, fewer than [server] min_free_bytes: make room"
        return ""

    async def _watch(self, name: str, path: Path) -> None:
        while True:
            self._asked_s[name] = time.monotonic()
            try:
                self._free[name], why = await asyncio.get_running_loop().run_in_executor(self._threads, _look_at, path)
                self._unwritable[name] = why
                self._errors.pop(name, None)
            except OSError as error:
                self._free.pop(name, None)
                self._errors[name] = error.strerror or type(error).__name__
            well = self._free.get(name, 0) >= self._min_free_bytes and not self._unwritable.get(name)
            await asyncio.sleep(EVERY_S if well else OFTEN_S)


def _size(nbytes: int) -> str:
    return f"{nbytes} bytes" if nbytes < 1024**2 else f"{nbytes / 1024**2:.0f} MiB"


def free_bytes(path: Path) -> int:
    """Return the free bytes of the disk that `path` is on or would be made on, for users who are not root. Raises
    `OSError`."""
    found = os.statvfs(_existing(path))
    return found.f_bavail * found.f_frsize


def _look_at(path: Path) -> tuple[int, str]:
    """Return the free bytes of a disk, and why it takes no writes, if so. Raises `OSError`."""
    there = _existing(path)
    return free_bytes(there), unwritable(there if there.is_dir() else there.parent)


def _existing(path: Path) -> Path:
    while not path.exists() and path.parent != path:
        path = path.parent
    return path
