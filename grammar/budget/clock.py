"""CPU time that a thread has spent on its own work.

Collections of garbage are left out: they fall on whoever allocates next, and in a large process a full one takes
seconds of which the work at hand made nothing.
"""

from __future__ import annotations

import gc
import threading
import time


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
    """Seconds of CPU time of the calling thread, from an arbitrary start, without collections."""
    return time.thread_time() - _collected.total_s
