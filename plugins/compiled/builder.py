"""Compile kernels in another process while this one serves, and load the code of each as it arrives."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import IntEnum
from typing import BinaryIO, cast

from sluicegate.plugins.compiled.child import NICENESS
from sluicegate.plugins.compiled.compile_mode import COMPILE_MODE, Compilable, CompileKind, KernelBuilder, Types
from sluicegate.plugins.compiled.request import KernelReply, KernelRequest, receive, send

log = logging.getLogger("sluicegate.compiled")
MOST_STARTS = 3
"""Most processes started for the same requests when processes die."""
_START = "import sys; sys.path[:] = {path!r}; from sluicegate.plugins.compiled.child import main; main({pipe})"


class CompileState(IntEnum):
    """State of the builder, as `/metrics` reports it."""

    DONE = 0
    COMPILING = 1
    FAILED = 2


@dataclass(slots=True, eq=False)
class BuildBatch:
    """One `request_all` request: the numbers of the kernels still outstanding. `then` is called once, on the builder's
    thread, with the failures by kernel name."""

    then: Callable[[Mapping[str, str]], None]
    left: set[int] = field(default_factory=set)
    failures: dict[str, str] = field(default_factory=dict)


class BackgroundBuilder:
    """A `KernelBuilder` with one compiler process. Kernels are compiled in the order of requests; a thread reads the
    replies."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._requests: dict[int, tuple[KernelRequest, Compilable]] = {}
        """Requests not yet served, by number."""
        self._batches: list[BuildBatch] = []
        self._numbers: dict[tuple[str, str, object, Types], int] = {}
        self._failures: dict[int, tuple[str, str]] = {}
        self._count = 0
        self._made = 0
        self._seconds = 0.0
        self._starts = 0
        self._sent: set[int] = set()
        """Numbers of requests sent to the process."""
        self._thread: threading.Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    # --- for whoever wants something -----------------------------------------------------------------------------

    def request(self, kernel: Compilable, types: Types) -> None:
        with self._lock:
            self._add(kernel, types)
            self._lock.notify_all()

    def request_all(self, kernels: Iterable[Compilable], then: Callable[[Mapping[str, str]], None]) -> None:
        """Request code for all declared types of `kernels`. Calls `then` once, on another thread, with the failures by
        kernel name."""
        batch = BuildBatch(then)
        with self._lock:
            for kernel in kernels:
                for types in kernel.declared:
                    batch.left.add(self._add(kernel, types))
            self._batches.append(batch)
            self._lock.notify_all()

    @property
    def state(self) -> CompileState:
        if self._requests or self._batches:
            return CompileState.COMPILING
        return CompileState.FAILED if self._failures else CompileState.DONE

    @property
    def failures(self) -> Mapping[str, str]:
        """Return the reason of each failed compilation, by kernel name."""
        return dict(self._failures.values())

    @property
    def trouble(self) -> str | None:
        """Return a sentence for operators that counts the failed kernels and gives one reason; None where none
        failed."""
        found = self.failures
        if not found:
            return None
        name, why = next(iter(found.items()))
        return f"{len(found)} loops could not be compiled, slower code runs in their place ({name}: {why})"

    def stats(self) -> Mapping[str, float]:
        return {
            "state": float(self.state),
            "waiting": float(len(self._requests)),
            "made_total": float(self._made),
            "failed_total": float(len(self._failures)),
            "starts_total": float(self._starts),
            "cpu_seconds_total": self._seconds,
        }

    def close(self) -> None:
        """End the compiler process and wait up to 10 s for the thread; outstanding requests are dropped."""
        with self._lock:
            self._closed = True
            self._end()
            self._lock.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(10.0)

    # --- the thread -----------------------------------------------------------------------------------------------

    def _add(self, kernel: Compilable, types: Types) -> int:
        request = KernelRequest.of(kernel, types)
        name = (request.module, request.name, request.made_by, types)
        if (number := self._numbers.get(name)) is None:
            number = self._numbers[name] = len(self._numbers)
            self._requests[number] = request, kernel
            self._send()
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._run, name="compile", daemon=True)
            self._thread.start()
        return number

    def _run(self) -> None:
        while True:
            with self._lock:
                self._tell()
                while not self._requests and not self._batches and not self._closed:
                    self._lock.wait()
                if self._closed:
                    return
                wanted = dict(self._requests)
            left = [n for n, (request, kernel) in wanted.items() if not self._is_there(n, kernel, request.types)]
            if left:
                self._compile()

    def _is_there(self, number: int, kernel: Compilable, types: Types) -> bool:
        if kernel.load(types):
            with self._lock:
                self._requests.pop(number, None)
            return True
        return False

    def _tell(self) -> None:
        """Call those whose wishes came true, or will not."""
        for batch in [batch for batch in self._batches if not batch.left & self._requests.keys()]:
            self._batches.remove(batch)
            failed = dict(self._failures[number] for number in batch.left & self._failures.keys())
            try:
                batch.then(failed)
            except Exception:
                log.exception("what waited for compiled loops raised")

    def _compile(self) -> None:
        """Run a process until it has served all, or died; see `MOST_STARTS`."""
        began, sent = time.monotonic(), 0
        log.info("compiling %d loops in a process of low priority; until then slower code answers", len(self._requests))
        for attempt in range(MOST_STARTS):
            try:
                replies = self._begin()
            except OSError as error:
                self._fail_rest(f"no process could be started ({error.strerror})")
                return
            sent += self._follow(replies)
            if self._closed or not self._requests:
                break
            status = self._process.wait() if self._process is not None else 0
            left = len(self._requests)
            log.warning("the process that compiles ended by %s; %d loops are left", _exit_cause(status), left)
            if attempt + 1 == MOST_STARTS:
                self._fail_rest(f"the process that compiles ended {MOST_STARTS} times, by {_exit_cause(status)}")
        with self._lock:
            self._end()
        if not self._closed:
            log.info("compiled %d loops in %.1f s (%.1f s of CPU time)", sent, time.monotonic() - began, self._seconds)

    def _begin(self) -> BinaryIO:
        source, target = os.pipe()
        try:
            code = _START.format(path=[place for place in sys.path if place], pipe=target)
            quiet = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
            process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(target,),
                env={**os.environ, **quiet},
            )
        except OSError:
            os.close(source)
            raise
        finally:
            os.close(target)
        with self._lock:
            self._process = process
            self._starts += 1
            self._sent.clear()
            self._send()
            if self._closed:
                self._end()
        return cast(BinaryIO, os.fdopen(source, "rb"))

    def _follow(self, replies: BinaryIO) -> int:
        """Load what comes back, until nothing is wanted or nothing comes any more; returns how many came."""
        done = 0
        with replies:
            while self._requests and not self._closed:
                reply = receive(replies)
                if reply is None:
                    break
                self._take(reply)
                done += 1
        return done

    def _send(self) -> None:
        """Send what is wanted and was not sent yet, if there is a process; with the lock held."""
        if self._process is None or self._process.stdin is None:
            return
        with suppress(OSError):  # it has died; the pipe of replies says so too
            for number in sorted(self._requests.keys() - self._sent):
                send(cast(BinaryIO, self._process.stdin), (number, self._requests[number][0]))
                self._sent.add(number)

    def _take(self, reply: KernelReply) -> None:
        request, kernel = self._requests[reply.number]
        failure = reply.failure
        if failure is None and reply.key != kernel.key(request.types):
            failure = "the installed code has changed since this process began; restart it"
        if failure is None and not kernel.take(request.types, reply.payload):
            failure = "its code could not be loaded"
        with self._lock:
            del self._requests[reply.number]
            self._seconds += reply.seconds
            if failure is None:
                self._made += 1
            else:
                self._failures[reply.number] = str(request), failure
                log.error("%s could not be compiled, slower code runs in its place: %s", request, failure)
            self._tell()

    def _fail_rest(self, why: str) -> None:
        with self._lock:
            for number, (request, _) in self._requests.items():
                self._failures[number] = str(request), why
            log.error("%d loops could not be compiled, slower code runs in their place: %s", len(self._requests), why)
            self._requests.clear()

    def _end(self) -> None:
        """End the process, if there is one: it leaves when its input ends, at the latest after what it compiles."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
        if process.poll() is None:
            process.terminate()
        process.wait()


def _exit_cause(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"itself, with status {status}"


class NoBuilder:
    """A `KernelBuilder` that compiles nothing: a kernel with a Python form uses cached code or else that form."""

    @property
    def trouble(self) -> str | None:
        return None

    def request(self, kernel: Compilable, types: Types) -> None:
        """Do nothing: the kernel goes on in its Python form."""

    def request_all(self, kernels: Iterable[Compilable], then: Callable[[Mapping[str, str]], None]) -> None:
        """Do nothing; `then` is never called."""

    def stats(self) -> Mapping[str, float]:
        return {}

    def close(self) -> None:
        """Do nothing."""


@contextmanager
def compiling(kind: CompileKind) -> Iterator[None]:
    """Have this process compile as `kind` says until the end of the block. Not to be nested."""
    if kind == "first":
        yield
        return
    builder: KernelBuilder = BackgroundBuilder() if kind == "background" else NoBuilder()
    COMPILE_MODE.builder = builder
    try:
        yield
    finally:
        COMPILE_MODE.builder = None
        builder.close()


__all__ = ["NICENESS", "BackgroundBuilder", "CompileKind", "CompileState", "NoBuilder", "compiling"]
