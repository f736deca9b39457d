"""A server that fails again and again is left alone for a while."""

from __future__ import annotations

import time
from collections.abc import Callable

MAX_PAUSE_S = 60.0


class Breaker:
    """Closed: everything passes. After `failures_to_open` failures in a row it is open: nothing does, for a pause that
    doubles with every failed trial. Then one trial passes; its success closes the breaker. Used on the event loop."""

    def __init__(self, failures_to_open: int, pause_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._failures_to_open = failures_to_open
        self._first_pause_s = pause_s
        self._clock = clock
        self._failures = 0
        self._pause_s = pause_s
        self._until = 0.0
        self.opened = 0
        """How often it opened."""

    @property
    def is_open(self) -> bool:
        return self.wait_s() > 0

    def wait_s(self) -> float:
        """Seconds until a trial may pass; 0: now."""
        return max(0.0, self._until - self._clock())

    def passing(self) -> None:
        """A call is made. While the breaker is half open it is the trial, and others wait for its outcome."""
        if self._failures >= self._failures_to_open:
            self._until = self._clock() + self._pause_s

    def succeeded(self) -> None:
        self._failures, self._until, self._pause_s = 0, 0.0, self._first_pause_s

    def failed(self) -> None:
        self._failures += 1
        if self._failures < self._failures_to_open:
            return
        if self._failures > self._failures_to_open:
            self._pause_s = min(2 * self._pause_s, MAX_PAUSE_S)
        self.opened += 1
        self._until = self._clock() + self._pause_s
