"""Let compilations that take long share the interpreter's time: few of them compute at once, tenants take turns."""

from __future__ import annotations

import threading

from sluicegate.plugins.concurrency.fair_queue import FairQueue

TURN_S = 0.05
"""How long one computes before it lets the next one."""
LONGEST_WAIT_S = 2.0
"""What waited for so long goes on beside the others: it may hold what one of them waits for."""


class CompileLane:
    """Used from the threads that compile."""

    def __init__(self, width: int) -> None:
        """Make a lane in which `width` compilations compute at a time."""
        self._lock = threading.Lock()
        self._queue: FairQueue[threading.Event] = FairQueue(width, width)

    def enter(self, tenant: str) -> bool:
        """Wait for a turn. Return False after a long wait in vain: then there is no turn to leave."""
        turn = threading.Event()
        with self._lock:
            self._queue.add(tenant, turn)
            self._grant()
        if turn.wait(LONGEST_WAIT_S):
            return True
        with self._lock:
            return not self._queue.withdraw(tenant, turn)

    def leave(self, tenant: str) -> None:
        with self._lock:
            self._queue.ended(tenant)
            self._grant()

    def is_wanted(self) -> bool:
        """Return whether another one waits."""
        with self._lock:
            return len(self._queue) > 0

    def _grant(self) -> None:
        while (turn := self._queue.next()) is not None:
            turn[1].set()
