"""CPU time that a thread has spent on its own work, without collections of garbage and loops made ready.

A collection falls on whoever allocates next; a full one takes seconds in a large process. Loops that are compiled fall
on whoever needs them first.
"""

from __future__ import annotations

import gc
import threading
import time

from sluicegate.plugins.compiled.kernels import made_ready_s


class _Collected(threading.local):
    """Seconds of CPU time that collections have taken on this thread."""

    began_s = 0.0
    total_s = 0.0


_collected = _Collected()


def _note(phase: str, _: dict[str, int]) -> None:
    if phase == "start":
        _collected.began_s = time.thread_time()
    else:
        _collected.total_s += time.thread_time() - _collected.began_s


gc.callbacks.append(_note)


def worked_s() -> float:
    """Return the seconds of CPU time of the calling thread, from an arbitrary start, without collections and the making
    of compiled loops."""
    return time.thread_time() - _collected.total_s - made_ready_s()
