"""Begin worker processes, begin again those that die, pass signals on, and end when all of them have.

The process that does this serves nothing and holds nothing: it forks before any thread, model or connection is made. A
worker that outlives it stops by itself, as after SIGTERM.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from sluicegate.plugins import ConfigurationError

log = logging.getLogger("sluicegate.workers")
Work = Callable[[int, Callable[[], None]], int]
"""Serves as the worker with this number, calls back once it is ready, and returns an exit status."""
HEARD = frozenset({signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
LOOK_S = 0.2
"""How often a worker that is not ready is polled."""
LONG_S = 10.0
"""A worker that lived this long did not fail at its start."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 30.0


@dataclass(slots=True)
class _Process:
    pid: int
    link: socket.socket
    """The worker reports here that it is ready, and sees here that this process has ended."""
    began_s: float
    ready: bool = False


class WorkerProcesses:
    """Times are those of `time.monotonic`. `work` runs in each of the processes."""

    def __init__(self, count: int, work: Work, on_all_ready: Callable[[], None]) -> None:
        """Prepare `count` processes; none is started yet. `on_all_ready` is called once. Raises `ConfigurationError`
        where the platform has no such processes."""
        if not hasattr(os, "fork") or not hasattr(signal, "sigtimedwait"):
            raise ConfigurationError("[server] workers: more than one needs Linux; leave it at 1")
        self._count = count
        self._work = work
        self._on_all_ready = on_all_ready
        self._running: dict[int, _Process] = {}
        self._due_s: dict[int, float] = {0: 0.0}
        """When to start each worker that does not run. The first starts alone: an error that prevents its start is then
        reported once, and the others find what it has prepared."""
        self._once_ready: set[int] = set()
        self._deaths = dict.fromkeys(range(count), 0)
        self._stopping = False
        self._status = 0

    def run(self) -> int:
        """Return an exit status: in this process once no worker is left, in each of them that of its work."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
        try:
            while (number := self._next()) is not None:
                if (link := self._fork(number)) is not None:
                    break
            else:
                return self._status
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return self._be_worker(number, link)

    def _fork(self, number: int) -> socket.socket | None:
        """Return None here, and in the new process its end of the link."""
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid:
            theirs.close()
            ours.setblocking(False)
            self._running[number] = _Process(pid, ours, time.monotonic())
            return None
        ours.close()
        for other in self._running.values():  # else they would never hear that this process is gone
            other.link.close()
        return theirs

    def _be_worker(self, number: int, link: socket.socket) -> int:
        os.setpgid(0, 0)  # Ctrl-C reaches the parent alone, which passes it on

        def listen() -> None:
            """Wait for the end of the parent, which sends nothing. The link is reset where it ended before it read that
            this worker is ready."""
            with contextlib.suppress(OSError):
                link.recv(1)
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=listen, name="parent", daemon=True).start()
        return self._work(number, lambda: link.sendall(b"r"))

    def _next(self) -> int | None:
        """Return the worker that is to begin now; None once all is over."""
        while True:
            now_s = time.monotonic()
            due = [number for number, at_s in self._due_s.items() if at_s <= now_s]
            if due:
                del self._due_s[due[0]]
                return due[0]
            if not self._running and not self._due_s:
                return None
            waits = [at_s - now_s for at_s in self._due_s.values()]
            waits += [LOOK_S for process in self._running.values() if not process.ready]
            self._heed(signal.sigtimedwait(HEARD, max(0.0, min(waits, default=3600.0))))

    def _heed(self, heard: signal.struct_siginfo | None) -> None:
        self._update_readiness()
        if heard is None:
            return
        if heard.si_signo == signal.SIGCHLD:
            self._reap()
            return
        if heard.si_signo != signal.SIGHUP:
            self._stop()
        self._send(heard.si_signo)

    def _stop(self) -> None:
        self._stopping = True
        self._due_s.clear()

    def _send(self, number: int) -> None:
        for process in self._running.values():
            os.kill(process.pid, number)

    def _update_readiness(self) -> None:
        for number, process in self._running.items():
            process.ready = process.ready or _has_signal(process.link)
            if process.ready and number not in self._once_ready:
                self._once_ready.add(number)
                if len(self._once_ready) == self._count:
                    self._on_all_ready()
                if number == 0 and not self._stopping:
                    self._due_s = dict.fromkeys(range(1, self._count), 0.0)

    def _reap(self) -> None:
        """Take note of all processes that ended: one signal may stand for several."""
        while self._running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            for number, process in list(self._running.items()):
                if process.pid == pid:
                    del self._running[number]
                    process.link.close()
                    self._ended(number, process, os.waitstatus_to_exitcode(status))

    def _ended(self, number: int, process: _Process, status: int) -> None:
        if self._stopping:
            self._status = self._status or max(0, status)
            return
        if status > 0 and number not in self._once_ready:  # it said why
            self._status = status
            self._stop()
            self._send(signal.SIGTERM)
            return
        lived_s = time.monotonic() - process.began_s
        self._deaths[number] = 0 if lived_s > LONG_S else self._deaths[number] + 1
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** self._deaths[number])
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        log.error("worker %d %s after %.0f s; it begins again in %.1f s", number, how, lived_s, pause_s)
        self._due_s[number] = time.monotonic() + pause_s


def _has_signal(link: socket.socket) -> bool:
    try:
        return bool(link.recv(1))
    except OSError:
        return False
