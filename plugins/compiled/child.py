"""The compiler process: compile kernels at low priority for the process that serves. Requests come on standard input;
code goes back on another pipe, and into the folder of compiled functions where that is writable.

It takes no lock of the serving process. Of several compiler processes one compiles at a time; the others then find most
of their kernels in the folder. It exits when its standard input ends.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from sluicegate.plugins.compiled.kernels import folder
from sluicegate.plugins.compiled.request import KernelReply, KernelRequest, receive, send

NICENESS = 5
"""On a busy machine this leaves a quarter of a processor for compiling: with less, the server would run slower code for
longer than compiling is worth."""


def main(pipe: int) -> None:
    """Serve requests until standard input ends. `pipe`: file descriptor for the replies."""
    with suppress(OSError):
        os.nice(NICENESS)
    waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, waiting), daemon=True).start()
    with os.fdopen(pipe, "wb") as replies:
        while (found := waiting.get()) is not None:
            number, request = found
            send(replies, _made(number, request))


def _listen(source: BinaryIO, waiting: queue.SimpleQueue[Any]) -> None:
    """Queue requests from `source`. Exit the process at the end of input: nobody reads further replies."""
    while (found := receive(source)) is not None:
        waiting.put(found)
    os._exit(0)


def _made(number: int, request: KernelRequest) -> KernelReply:
    began = time.process_time()
    try:
        kernel = request.kernel()
        with _alone():
            kernel.compile(request.types)
        key, payload = kernel.kept(request.types)
    except Exception as error:
        return KernelReply(number, failure=f"{type(error).__name__}: {error}")
    if key is None or payload is None:
        return KernelReply(number, failure="what was compiled cannot be handed on")
    return KernelReply(number, key, payload, time.process_time() - began)


@contextmanager
def _alone() -> Iterator[None]:
    """Hold an exclusive lock on the folder, where it can be locked. The system releases it if the process dies."""
    try:
        import fcntl

        folder().path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder().path / "compiling.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except (ImportError, OSError):
        yield
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


if __name__ == "__main__":
    main(int(sys.argv[1]))
