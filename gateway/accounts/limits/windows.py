"""Sums over time: what was used in the last minute, and what was spent this day or month."""

from __future__ import annotations

import calendar
import time
from collections import deque
from typing import Literal

SPAN_S = 60
SET_BACK_S = {"day": 2 * 86400, "month": 62 * 86400}
"""A period that ends later than this was begun by a clock that was set back since. What was spent stays spent."""

PERIODS_LEFT = 4
"""Periods of which what was spent is remembered when they are left."""


class SlidingSum:
    """The sum of the last 60 seconds, in slots of one second: never more than `limit` in any 60 seconds, and a slot
    counts until its youngest event is that old. Not thread-safe."""

    __slots__ = ("_made", "_slots", "_total", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._slots: deque[list[int]] = deque()
        """(second, amount, number): seconds change where the clock steps back, numbers do not."""
        self._made = 0
        self._total = 0

    def total(self, now_s: float) -> int:
        if self._slots and self._slots[-1][0] > int(now_s) + 1:
            self._step_back(self._slots[-1][0] - int(now_s))
        oldest = int(now_s) - SPAN_S
        while self._slots and self._slots[0][0] < oldest:
            self._total -= self._slots.popleft()[1]
        return self._total

    def wait_s(self, amount: int, now_s: float) -> float:
        """Return the seconds until `amount` fits: 0 if it does now, infinity where it never will."""
        total = self.total(now_s)
        if total + amount <= self.limit:
            return 0.0
        if amount > self.limit:
            return float("inf")
        for second, used, _ in self._slots:
            total -= used
            if total + amount <= self.limit:
                return second + SPAN_S + 1 - now_s
        return 0.0

    def left(self, now_s: float) -> tuple[int, float]:
        """Return (what is left of the limit, the seconds until all of it is free again). The latter equals
        `wait_s(limit)`."""
        used = self.total(now_s)
        return max(0, self.limit - used), self._free_s(now_s) if used else 0.0

    def _free_s(self, now_s: float) -> float:
        for second, used, _ in reversed(self._slots):
            if used:
                return second + SPAN_S + 1 - now_s
        return 0.0

    def add(self, amount: int, now_s: float) -> int:
        """Count `amount`; returns the number of the slot it was added to, for `amend`."""
        second = int(now_s)
        if self._slots and self._slots[-1][0] >= second:  # clocks that step back must not unsort the slots
            self._slots[-1][1] += amount
        else:
            self._made += 1
            self._slots.append([second, amount, self._made])
        self._total += amount
        return self._slots[-1][2]

    def _step_back(self, seconds: int) -> None:
        """Move the slots back with a clock that was set back: what was used stays used for a minute, not until the
        clock is there again."""
        for slot in self._slots:
            slot[0] -= seconds

    def amend(self, slot: int, change: int, now_s: float) -> None:
        """Correct a reservation that turned out different: less is given back where it was taken, more counts from
        now."""
        if change > 0:
            self.add(change, now_s)
            return
        for found in reversed(self._slots):
            if found[2] == slot:
                found[1] += change
                self._total += change
                return


class Spend:
    """Money of the current day or month (UTC): what was spent, and what running requests may still cost."""

    __slots__ = ("_ends_s", "_left", "limit_nanos", "period", "reserved", "spent")

    def __init__(self, period: Literal["day", "month"], limit_nanos: int, spent: int = 0) -> None:
        self.period = period
        self.limit_nanos = limit_nanos
        self.spent = spent
        self.reserved = 0
        self._ends_s = 0.0
        self._left: dict[float, int] = {}
        """What was spent in the last periods that were left, by their ends: a clock that goes ahead, back and ahead
        again comes to them once more."""

    def left(self, now_s: float) -> int:
        self._turn(now_s)
        return self.limit_nanos - self.spent - self.reserved

    def ends_in_s(self, now_s: float) -> float:
        self._turn(now_s)
        return self._ends_s - now_s

    def settle(self, reserved: int, cost: int, now_s: float) -> None:
        self._turn(now_s)
        self.reserved -= reserved
        self.spent += cost

    def _turn(self, now_s: float) -> None:
        if now_s >= self._ends_s:
            ends_s = period_end(self.period, now_s)
            if self._ends_s:
                self._leave()
                self.spent = self._left.pop(ends_s, 0)
            self._ends_s = ends_s
        elif now_s < self._ends_s - SET_BACK_S[self.period]:  # the period of a clock that was wrong ends far too late
            self._leave()
            self._ends_s = period_end(self.period, now_s)

    def _leave(self) -> None:
        self._left[self._ends_s] = self.spent
        while len(self._left) > PERIODS_LEFT:
            del self._left[next(iter(self._left))]


def period_end(period: Literal["day", "month"], now_s: float) -> float:
    today = time.gmtime(now_s)
    days = 1 if period == "day" else calendar.monthrange(today.tm_year, today.tm_mon)[1] - today.tm_mday + 1
    return calendar.timegm((today.tm_year, today.tm_mon, today.tm_mday, 0, 0, 0)) + days * 86400.0
