"""Slot `admit`: so many requests a day for each tenant.

Not covered: several processes (each counts for itself) and a restart, after which counting begins anew.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from sluicegate.plugins import Caller, RateLimited, Request

DAY_S = 86_400


class DailyQuota:
    """Days are those of UTC. `clock` gives seconds since 1970."""

    def __init__(self, requests: int, clock: Callable[[], float] = time.time) -> None:
        self._requests = requests
        self._clock = clock
        self._day = -1
        self._counts: Counter[str] = Counter()

    async def admit(self, request: Request, caller: Caller) -> Caller:
        now_s = self._clock()
        if int(now_s // DAY_S) != self._day:
            self._day = int(now_s // DAY_S)
            self._counts.clear()
        if self._counts[caller.tenant] >= self._requests:
            raise RateLimited(
                f"{self._requests} requests a day are allowed, today's are used up; go on after midnight UTC",
                retry_after_s=DAY_S - now_s % DAY_S,
            )
        self._counts[caller.tenant] += 1
        return caller
