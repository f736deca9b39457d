"""Verdicts of rails and what they found, counted over the last week in slices of five minutes."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sluicegate.gateway.telemetry.finished import Finished
from sluicegate.gateway.telemetry.labels import Labels

SLICE_S = 300
KEPT = 7 * 24 * 12
"""Slices: a week."""
RAILS, CATEGORIES = 64, 200
"""Names that are told apart; all others count as `other`."""
Verdicts = Counter[tuple[str, str, str]]
"""By slot, rail and outcome."""
Categories = Counter[tuple[str, str, str, str]]
"""By slot, rail, category and outcome: requests in which a rail found something of that category."""


@dataclass(slots=True)
class RailSlice:
    began_s: int
    verdicts: Verdicts = field(default_factory=Counter)
    categories: Categories = field(default_factory=Counter)

    def as_json(self) -> dict[str, Any]:
        return {
            "at_s": self.began_s,
            "verdicts": [[*key, count] for key, count in sorted(self.verdicts.items())],
            "categories": [[*key, count] for key, count in sorted(self.categories.items())],
        }


class RailHistory:
    """Used from the event loop. In memory alone: a restart begins anew."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._slices: deque[RailSlice] = deque(maxlen=KEPT)
        self._rails, self._categories = Labels(RAILS), Labels(CATEGORIES)

    def add(self, done: Finished) -> None:
        slice_ = None
        for decision in done.decisions:
            if decision.slot not in ("screen", "moderate"):
                continue
            slice_ = slice_ or self._current()
            rail = self._rails.of("rail", decision.stage)
            slice_.verdicts[decision.slot, rail, decision.outcome] += 1
            for category in decision.detail.get("categories") or ():
                name = self._categories.of("category", category)
                slice_.categories[decision.slot, rail, name, decision.outcome] += 1

    def within(self, last_s: float, most: int) -> tuple[int, list[RailSlice]]:
        """Return (seconds of a slice, slices) of the last `last_s` seconds, joined into at most `most`, oldest first;
        slices in which nothing happened are left out."""
        now = self._clock()
        wide_s = SLICE_S * max(1, -(-int(last_s) // (SLICE_S * most)))
        first = (int(now - last_s) // wide_s + 1) * wide_s
        found: dict[int, RailSlice] = {}
        for one in self._slices:
            began_s = one.began_s // wide_s * wide_s
            if first <= began_s <= now:
                joined = found.setdefault(began_s, RailSlice(began_s))
                joined.verdicts.update(one.verdicts)
                joined.categories.update(one.categories)
        return wide_s, list(found.values())

    def _current(self) -> RailSlice:
        began_s = int(self._clock()) // SLICE_S * SLICE_S
        if not self._slices or self._slices[-1].began_s != began_s:
            self._slices.append(RailSlice(began_s))
        return self._slices[-1]


def summed(slices: Iterator[RailSlice] | list[RailSlice]) -> RailSlice:
    """All slices as one."""
    whole = RailSlice(0)
    for one in slices:
        whole.verdicts.update(one.verdicts)
        whole.categories.update(one.categories)
    return whole
