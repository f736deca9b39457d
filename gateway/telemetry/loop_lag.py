"""How late the event loop wakes up: what every stream waits for when something blocks it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping

from sluicegate.gateway.telemetry.blocked_loop import BlockedLoop
from sluicegate.gateway.telemetry.collectors import Buckets

EVERY_S = 0.1
BOUNDS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0)
KEPT = 600
"""Samples kept: those of the last minute."""


class LoopLag:
    """Asks to be woken every tenth of a second and notes by how much it was missed. Whoever keeps it from waking at all
    is named in the log."""

    def __init__(self, name: str) -> None:
        self.buckets = Buckets(name, "Seconds by which the event loop woke late.", ("loop",), BOUNDS_S)
        self._recent: deque[float] = deque(maxlen=KEPT)
        self._timer: asyncio.TimerHandle | None = None
        self._beats = 0
        self._blocked = BlockedLoop(lambda: self._beats)

    def start(self) -> None:
        self._ask(asyncio.get_running_loop())
        self._blocked.start()

    def close(self) -> None:
        self._blocked.close()
        if self._timer is not None:
            self._timer.cancel()

    def stats(self) -> Mapping[str, float]:
        """Return quantiles of the last minute, in seconds."""
        ordered = sorted(self._recent)
        if not ordered:
            return {}
        return {"p50_s": ordered[len(ordered) // 2], "p99_s": ordered[int(len(ordered) * 0.99)], "max_s": ordered[-1]}

    def _woken(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        late = max(0.0, loop.time() - due)
        self._recent.append(late)
        self.buckets.observe(late, "main")
        self._beats += 1
        self._ask(loop)

    def _ask(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + EVERY_S
        self._timer = loop.call_at(due, self._woken, loop, due)
