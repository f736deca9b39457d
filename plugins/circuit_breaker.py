"""A circuit breaker: stop calling a dependency that fails repeatedly, so that callers need not wait for each
failure."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

_MOST_DOUBLINGS = 20


class BreakerTerms(Protocol):
    """`failures_to_open`: failures in a row that open it. `pause_s`: the first pause, in seconds."""

    @property
    def failures_to_open(self) -> int: ...

    @property
    def pause_s(self) -> float: ...


class CircuitBreaker:
    """Open after `failures_to_open` failures in a row. While open, refuse calls for `pause_s`, then admit one trial
    call per pause. Each failure while open doubles the pause, up to `max_pause_s`; a success closes the breaker. Used
    from one event loop.

    A caller that can tell its own fault from the dependency's checks `would_open` first and reports `failed_by_caller`.
    """

    def __init__(self, max_pause_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_pause_s = max_pause_s
        self._clock = clock
        self._in_a_row = 0
        self._pauses = 0
        self._open_until = 0.0
        self.failures = 0
        """Failures since the start."""
        self.opened = 0
        """Pauses begun by a failure since the start."""

    @property
    def is_open(self) -> bool:
        """Return whether the breaker has opened and no call has succeeded since."""
        return self._pauses > 0

    @property
    def failures_in_a_row(self) -> int:
        return self._in_a_row

    @property
    def wait_s(self) -> float:
        """Return the seconds until a trial may be made; 0 = now."""
        return max(0.0, self._open_until - self._clock())

    def admits(self, terms: BreakerTerms) -> bool:
        """Return whether a call may be made now. While open, admit one trial per pause, whether or not that trial ever
        ends."""
        if not self._pauses:  # `is_open`, asked of each rail three times a request
            return True
        if self.wait_s > 0:
            return False
        self._open_until = self._clock() + self._pause_s(terms)
        return True

    def would_open(self, terms: BreakerTerms) -> bool:
        """Return whether one more failure would open the breaker or keep it open."""
        return self.is_open or self._in_a_row + 1 >= terms.failures_to_open

    def failed_by_caller(self) -> None:
        """Count a failure that was the caller's fault; it closes the breaker as a success does."""
        self.failures += 1
        self.succeeded()

    def succeeded(self) -> None:
        self._in_a_row = self._pauses = 0
        self._open_until = 0.0

    def failed(self, terms: BreakerTerms) -> bool:
        """Count a failure; return True where it opened the breaker."""
        self.failures += 1
        self._in_a_row += 1
        if not self.is_open and self._in_a_row < terms.failures_to_open:
            return False
        opened = not self.is_open
        self._pauses += 1
        self.opened += 1
        self._open_until = self._clock() + self._pause_s(terms)
        return opened

    def _pause_s(self, terms: BreakerTerms) -> float:
        return min(self._max_pause_s, terms.pause_s * 2.0 ** min(_MOST_DOUBLINGS, self._pauses - 1))
