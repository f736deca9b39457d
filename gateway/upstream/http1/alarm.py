"""A time limit that may be moved later, or taken back, without a new timer."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

GRAIN_S = 0.001
"""uvloop's clock goes in milliseconds, and its timers are rounded to them."""


class Alarm:
    """Calls a function at the moment given to `set`. Most limits are lifted in time, so that the timer of an earlier
    one is kept, and checks when it fires whether anything is due."""

    __slots__ = ("_at", "_call", "_loop", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
        self._loop = loop
        self._call = call
        self._at = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def set(self, at: float) -> None:
        """Call the function at `at`, in the loop's time, instead of at the moment set before."""
        self._at = at
        timer = self._timer
        if timer is not None and timer.when() <= at:
            return
        if timer is not None:
            timer.cancel()
        self._timer = self._loop.call_at(at, self._ring)

    def clear(self) -> None:
        self._at = math.inf

    def close(self) -> None:
        """Cancel the timer."""
        self._at = math.inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        if self._at - self._loop.time() < GRAIN_S:
            self._at = math.inf
            self._call()
        elif self._at < math.inf:
            self.set(self._at)
