"""What a gateway calls itself where limits are shared, and how long its seats are surely its own."""

from __future__ import annotations

import itertools
import os
import time

from sluicegate.gateway.accounts.limits.lease_script import ALIVE_S

PATIENCE_S = 5.0
"""How long a request waits for an answer about its limits, its wait for a connection or a thread included."""


class Presence:
    """A gateway as a store of leases knows it."""

    def __init__(self) -> None:
        self.name = os.urandom(6).hex()
        self._numbers = itertools.count(1)
        self._alive_until = 0.0

    def next_number(self) -> int:
        return next(self._numbers)

    @property
    def is_alive(self) -> bool:
        """Return whether the store still counts this gateway's seats as its own, by the clock of this process."""
        return time.monotonic() < self._alive_until

    def note_alive(self, sent: float) -> None:
        """Note that the store has answered a call that was sent at `sent`, seconds of `time.monotonic`."""
        self._alive_until = sent + ALIVE_S
