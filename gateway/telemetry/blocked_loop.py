"""Say which code keeps the event loop, while it does: a plug-in that does not await makes everybody wait, and is in no
trace before it returns.

Not covered: code that holds the interpreter's lock; it is named when it lets go.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

log = logging.getLogger("sluicegate.loop")
LOOK_S = 0.5
LOOKS = 2
"""Looks between which nothing moved before the loop counts as blocked. Of this thread's own, so that a machine that
slept, or has no time for anybody, accuses no one."""
MOST_FRAMES = 8


class BlockedLoop:
    """Watches the event loop of the thread that calls `start`, from a thread of its own. `beats` counts up while that
    loop runs."""

    def __init__(self, beats: Callable[[], int]) -> None:
        self._beats = beats
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        watched = threading.get_ident()
        self._thread = threading.Thread(target=self._watch, args=(watched,), name="blocked-loop", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self, watched: int) -> None:
        seen, looks = self._beats(), 0
        while not self._closed.wait(LOOK_S):
            now = self._beats()
            seen, looks = now, looks + 1 if now == seen else 0
            if looks == LOOKS:
                log.warning(
                    "the event loop stands still, and every request waits, for %s",
                    " < ".join(_places(sys._current_frames().get(watched))),
                )


def _places(frame: FrameType | None) -> Iterator[str]:
    """Yield where the code is, innermost first: file, line and function, and nothing of what they hold."""
    for _ in range(MOST_FRAMES):
        if frame is None:
            return
        code = frame.f_code
        yield f"{Path(code.co_filename).name}:{frame.f_lineno} {code.co_name}"
        frame = frame.f_back
