"""Counts for each of the last slices of time: requests, outcomes, verdicts, tokens, and who was turned away."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sluicegate.gateway.telemetry.finished_request import FinishedRequest
from sluicegate.gateway.telemetry.labels import Labels

SLICE_S = 10
KEPT = 180
"""Slices kept: half an hour."""
LABELS = 32


@dataclass(slots=True)
class Slice:
    began_s: int
    requests: int = 0
    errors: int = 0
    refused: int = 0
    cached: int = 0
    tokens: int = 0
    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    turned_away: Counter[str] = field(default_factory=Counter)
    """By tenant; not counted in `requests`."""

    def as_json(self) -> dict[str, Any]:
        return {
            "at_s": self.began_s,
            "requests": self.requests,
            "errors": self.errors,
            "refused": self.refused,
            "cached": self.cached,
            "tokens": self.tokens,
            "verdicts": [[rail, verdict, count] for (rail, verdict), count in sorted(self.verdicts.items())],
            "turned_away": [[tenant, count] for tenant, count in self.turned_away.most_common()],
        }


class Series:
    """Used from the event loop."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._slices: deque[Slice] = deque(maxlen=KEPT)
        self._rails, self._tenants = Labels(LABELS), Labels(LABELS)

    def add(self, done: FinishedRequest) -> None:
        slice_ = self._current()
        slice_.requests += 1
        slice_.cached += done.cached
        slice_.tokens += done.usage.completion_tokens
        stopped = done.error == "content_filter" or "content_filter" in done.finish_reasons
        slice_.refused += stopped
        slice_.errors += done.error is not None and not stopped and not done.by_caller
        for decision in done.decisions:
            if decision.slot in ("screen", "moderate"):
                slice_.verdicts[self._rails[decision.stage], decision.outcome] += 1

    def turn_away(self, tenant: str) -> bool:
        """Count a request that was refused by its head alone: it has no trace and no line. Return whether it is the
        first of its slice."""
        away = self._current().turned_away
        away[self._tenants[tenant]] += 1
        return away.total() == 1

    def as_json(self) -> list[dict[str, Any]]:
        """Return the slices of time, oldest first. Slices in which nothing happened are left out."""
        oldest = self._clock() - SLICE_S * KEPT
        return [found.as_json() for found in self._slices if found.began_s >= oldest]

    def _current(self) -> Slice:
        began_s = int(self._clock()) // SLICE_S * SLICE_S
        if not self._slices or self._slices[-1].began_s != began_s:
            self._slices.append(Slice(began_s))
        return self._slices[-1]
