"""Figures of a range of time, each of exactly those lines that the list shows for the same filters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sluicegate.gateway.history.request_filter import HistoryFilter
from sluicegate.gateway.history.rows import ENDINGS
from sluicegate.gateway.history.store import IN_LINES, HistoryStore
from sluicegate.gateway.telemetry import semconv
from sluicegate.gateway.telemetry.metrics import Objectives

SLOTS, LEEWAY = 60, 1.05
"""Bars of a chart, and how many more there may be; clocks of browsers differ."""
STEPS_S = (10, 30, 60, 300, 900, 1800, 3600, 10_800, 43_200, 86_400)
"""Allowed widths of a bar, in seconds."""
MOST_GROUPS = 20
QUANTILES = (0.5, 0.95, 0.99)
BUCKETS_MS = {
    "first_ms": semconv.FIRST_TOKEN_BUCKETS_S,
    "token_ms": semconv.TOKEN_TIME_BUCKETS_S,
    "ms": semconv.DURATION_BUCKETS_S,
}
SUMS = "count(*), sum(prompt_tokens), sum(completion_tokens), sum(cost_nanos)"


class Figures:
    """`objectives`: those that count as kept where a request took no longer."""

    def __init__(self, store: HistoryStore, objectives: Objectives) -> None:
        self._store = store
        self._limits_ms = {
            "first_ms": objectives.first_s * 1e3,
            "token_ms": objectives.token_s * 1e3,
            "ms": objectives.total_s * 1e3,
        }

    def of(self, wanted: HistoryFilter, now_s: float) -> dict[str, Any]:
        where, values = wanted.where()
        where = f"{IN_LINES} and {where}"
        query = self._store.query
        [(oldest,)] = query("select min(at_s) from requests")
        begins_s = wanted.from_s if wanted.from_s is not None else (oldest if oldest is not None else now_s)
        ends_s = wanted.until_s if wanted.until_s is not None else now_s
        step_s = step_of(ends_s - begins_s)
        counted = query(f"select outcome, count(*), sum(cached) from requests where {where} group by outcome", values)
        sums = query(f"select {SUMS}, sum(met), count(met) from requests where {where}", values)[0]
        return {
            "kept_since_s": oldest,
            "from_s": begins_s,
            "until_s": ends_s,
            "step_s": step_s,
            "outcomes": dict.fromkeys(ENDINGS, 0) | {name: count for name, count, _ in counted},
            "cached": sum(cached or 0 for _, _, cached in counted),
            "requests": sums[0],
            "prompt_tokens": sums[1] or 0,
            "completion_tokens": sums[2] or 0,
            "cost_nanos": sums[3] or 0,
            "met": sums[4] or 0,
            "judged": sums[5],
            "latency": {name: self._latency(name, where, values) for name in BUCKETS_MS},
            "series": [*self._series(where, values, begins_s, step_s)],
            "verdicts": self._verdicts(where, values),
            **{f"by_{name}": self._by(name, where, values) for name in ("model", "key", "feature", "ended")},
        }

    def _latency(self, name: str, where: str, values: list[Any]) -> dict[str, Any]:
        """Return quantiles, counts between bounds, and how many took longer than the objective."""
        query = f"select {name} from requests where {where} and {name} is not null and outcome in ('answered', 'left')"
        found = [value for (value,) in self._store.query(f"{query} order by {name}", values)]
        bounds = [bound * 1e3 for bound in BUCKETS_MS[name]]
        limit = self._limits_ms[name]
        return {
            "bounds_ms": bounds,
            "counts": _counted(found, bounds),
            "count": len(found),
            "quantiles_ms": [
                found[min(len(found) - 1, int(share * len(found)))] if found else None for share in QUANTILES
            ],
            "objective_ms": limit,
            "over": sum(value > limit for value in found),
        }

    def _series(self, where: str, values: list[Any], begins_s: float, step_s: int) -> Iterator[dict[str, Any]]:
        """Yield the slices in which something happened, oldest first."""
        slot = f"cast((at_s - {float(begins_s)!r}) / {int(step_s)} as integer)"
        columns = "outcome, count(*), sum(cached), sum(completion_tokens), sum(cost_nanos)"
        lines = self._store.query(
            f"select {slot} as slot, {columns} from requests where {where} group by slot, outcome order by slot", values
        )
        slices: dict[int, dict[str, Any]] = {}
        for at, outcome, count, cached, tokens, cost in lines:
            found = slices.setdefault(at, {"at_s": begins_s + at * step_s, "cached": 0, "tokens": 0, "cost_nanos": 0})
            found[outcome] = count
            found["cached"] += cached or 0
            found["tokens"] += tokens or 0
            found["cost_nanos"] += cost or 0
        yield from slices.values()

    def _verdicts(self, where: str, values: list[Any]) -> list[list[Any]]:
        """Return lists of [slot, rail, verdict, count of requests]."""
        query = (
            "select v.slot, v.rail, v.verdict, count(distinct v.seq) from verdicts v "
            "join requests on requests.seq = v.seq "
            f"where {where} group by v.slot, v.rail, v.verdict order by v.rail"
        )
        return [list(line) for line in self._store.query(query, values)]

    def _by(self, name: str, where: str, values: list[Any]) -> list[dict[str, Any]]:
        """Return the largest groups of requests by the column `name`, the one with most requests first."""
        failed = "sum(outcome = 'failed'), sum(outcome = 'refused'), avg(ms), max(at_s)"
        lines = self._store.query(
            f"select {name}, {SUMS}, {failed} from requests where {where} group by {name} order by 2 desc limit ?",
            (*values, MOST_GROUPS),
        )
        names = (
            *("name", "requests", "prompt_tokens", "completion_tokens", "cost_nanos"),
            *("failed", "refused", "mean_ms", "last_s"),
        )
        return [dict(zip(names, line, strict=True)) for line in lines]


def step_of(seconds: float) -> int:
    """Return the shortest step of which no more than `SLOTS` fill so many seconds."""
    return next((step for step in STEPS_S if step * SLOTS * LEEWAY >= seconds), int(seconds // SLOTS) + 1)


def _counted(found: list[float], bounds: list[float]) -> list[int]:
    """Count the values between bounds. `found` is in order; the last count is of what is beyond all bounds."""
    counts, at = [0] * (len(bounds) + 1), 0
    for value in found:
        while at < len(bounds) and value > bounds[at]:
            at += 1
        counts[at] += 1
    return counts
