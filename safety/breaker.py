"""A rail that keeps failing is taken out of the way for a while, so that nobody waits for it again and again."""

from __future__ import annotations

import time
from collections.abc import Callable

from sluicegate.safety.rail_policy import RailPolicy

MAX_PAUSE_S = 300.0


class Breaker:
    """For one rail. After `rail_policy.failures_to_open` failures in a row it is open: nobody may call the rail for
    `rail_policy.pause_s`, then one call may, and each that fails doubles the pause. Whoever uses it tries the rail on a
    text of its own first (`would_open`, `excused`), so that no caller's text opens it. Used from one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._in_a_row = 0
        self._pauses = 0
        self._open_until = 0.0
        self.failures = 0

    @property
    def is_open(self) -> bool:
        return self._pauses > 0

    @property
    def retry_after_s(self) -> float:
        return max(0.0, self._open_until - self._clock())

    def admits(self, rail_policy: RailPolicy) -> bool:
        """Whether the rail may be called now. While open, at most one call a pause is let through to try."""
        if not self.is_open:
            return True
        if self.retry_after_s > 0:
            return False
        self._open_until = self._clock() + self._pause_s(rail_policy)  # a trial that never ends blocks no later one
        return True

    def would_open(self, rail_policy: RailPolicy) -> bool:
        """Whether one more failure opens it, or keeps it open."""
        return self.is_open or self._in_a_row + 1 >= rail_policy.failures_to_open

    def excused(self) -> None:
        """It failed, and answers a text that nobody sent: the failure was that of one caller's text."""
        self.failures += 1
        self.succeeded()

    def succeeded(self) -> None:
        self._in_a_row = self._pauses = 0

    def failed(self, rail_policy: RailPolicy) -> bool:
        """True where this failure opened it."""
        self.failures += 1
        self._in_a_row += 1
        if not self.is_open and self._in_a_row < rail_policy.failures_to_open:
            return False
        opened = not self.is_open
        self._pauses += 1
        self._open_until = self._clock() + self._pause_s(rail_policy)
        return opened

    def _pause_s(self, rail_policy: RailPolicy) -> float:
        return min(MAX_PAUSE_S, rail_policy.pause_s * 2.0 ** min(20, max(0, self._pauses - 1)))
