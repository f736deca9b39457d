"""What each key and team has spent today and this month, kept in memory so that a limit set later knows it."""

from __future__ import annotations

from sluicegate.gateway.accounts.records import UsageKey, day_of
from sluicegate.gateway.accounts.stores.base import Spent


class Totals:
    def __init__(self) -> None:
        self._spent: dict[tuple[str, str], list[int]] = {}
        """[day, month] in billionths, by ("key" | "team", name)."""
        self._day = ""

    def restore(self, spent: Spent, now_s: float) -> None:
        self._day = day_of(now_s)
        self._spent = {owner: list(sums) for owner, sums in spent.items()}

    def add(self, key: UsageKey, nanos: int, now_s: float) -> None:
        if not nanos:
            return
        self._turn(now_s)
        for owner in (("key", key.key_id), ("team", key.team)):
            sums = self._spent.setdefault(owner, [0, 0])
            sums[0] += nanos
            sums[1] += nanos

    def of(self, kind: str, name: str, now_s: float) -> tuple[int, int]:
        self._turn(now_s)
        day, month = self._spent.get((kind, name), (0, 0))
        return day, month

    def _turn(self, now_s: float) -> None:
        today = day_of(now_s)
        if today <= self._day:  # a clock that steps back gives nobody yesterday's money again
            if day_of(now_s + 86400) < self._day:  # the day of a clock that was wrong would last far too long
                self._day = today
            return
        same_month = today[:7] == self._day[:7]
        self._spent = {owner: [0, month if same_month else 0] for owner, (_, month) in self._spent.items()}
        self._day = today
