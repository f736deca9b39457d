"""Start, watch and end the worker processes that compute the other shards of a tensor-parallel model."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from signal import Signals
from typing import Any

from sluicegate.engine.failures import first_line
from sluicegate.engine.parallel.messages import LoadShard, WorkerFailed
from sluicegate.plugins import ModelLoadError

_FOLLOWER = "sluicegate.engine.parallel.follower"
_EXIT_S = 2.0
"""How long a failed pass waits for the exit of the process that broke it."""


class WorkerGroup:
    """One group of worker processes. When one ends, all are ended, and `on_lost` is called on its own thread."""

    def __init__(self, tasks: list[LoadShard], name: str, abort: Callable[[], None]) -> None:
        """Start one worker per task. `abort` must end a pass of this process that waits for a dead worker."""
        self.name, self.size = name, len(tasks) + 1
        self.end_reason: str | None = None
        """Why the group has ended; None while it runs."""
        self.on_lost: Callable[[], None] | None = None
        self._abort = abort
        self._ending = threading.Lock()
        self._noticed = threading.Event()
        self._folder = Path(tempfile.mkdtemp(prefix="sluicegate-"))
        """Of the file at which the processes meet; open to this user alone."""
        self._processes: list[_WorkerProcess] = []
        try:
            for task in tasks:
                self._processes.append(_WorkerProcess(task))
        except OSError as error:  # no room for another process, or the last one is gone before it has read its task
            self.end(f"its {self.size} processes cannot be started", lost=False)
            raise ModelLoadError(f"{name!r}: its {self.size} processes cannot be started: {error}") from error
        for process in self._processes:
            threading.Thread(target=self._watch, args=(process,), name="shared-model", daemon=True).start()

    @property
    def rendezvous_path(self) -> str:
        return str(self._folder / "group")

    def send(self, message: Any) -> None:
        """Send a message to every worker. Raises `OSError` if one is gone."""
        for process in self._processes:
            process.link.send(message)

    def receive(self, kind: type[Any]) -> list[Any]:
        """Return one answer of type `kind` per worker. Raises `ModelLoadError` if one reports a failure or is gone."""
        return [self._receive(process, kind) for process in self._processes]

    def _receive(self, process: _WorkerProcess, kind: type[Any]) -> Any:
        try:
            answer = process.link.recv()
        except (EOFError, OSError) as error:
            raise ModelLoadError(f"{self.name!r}: {self.explain(error)}") from error
        if isinstance(answer, WorkerFailed):
            raise ModelLoadError(answer.reason)
        assert isinstance(answer, kind), f"{answer} instead of {kind}"
        return answer

    def explain(self, error: Exception) -> str:
        """Return why the group ended, after a pass or an answer failed with `error`. Waits up to 2 s for a worker's
        exit to be noticed."""
        self._noticed.wait(_EXIT_S)
        return (
            self.end_reason
            or f"a pass of its {self.size} processes failed with {type(error).__name__}: " + first_line(error)
        )

    def end(self, end_reason: str, *, lost: bool = True) -> None:
        """End all workers, and call `on_lost` if `lost`. Only the first call has an effect. From any thread."""
        with self._ending:
            if self.end_reason is not None:
                return
            self.end_reason = end_reason
        self._noticed.set()
        for process in self._processes:
            process.end()
        self._abort()
        shutil.rmtree(self._folder, ignore_errors=True)
        if lost and self.on_lost is not None:
            self.on_lost()

    def _watch(self, process: _WorkerProcess) -> None:
        code = process.popen.wait()
        how = f"killed by {Signals(-code).name}" if code < 0 else f"with status {code}"
        self.end(f"process {process.rank} of the {self.size} that compute it ended {how}")


class _WorkerProcess:
    """A worker process and the pipes to it. It exits when the second pipe closes, however this process ends."""

    def __init__(self, task: LoadShard) -> None:
        self.rank = task.rank
        mine, theirs = socket.socketpair()
        ending, self._alive = os.pipe()
        self.popen = subprocess.Popen(
            [sys.executable, "-m", _FOLLOWER, str(theirs.fileno()), str(ending)],
            pass_fds=(theirs.fileno(), ending),
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        theirs.close()
        os.close(ending)
        self.link: Connection[Any, Any] = Connection(mine.detach())
        self.link.send(task)

    def end(self) -> None:
        self.popen.kill()
        self.popen.wait()
        os.close(self._alive)
