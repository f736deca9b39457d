"""An operator's filter of requests, as an SQL condition whose values are all parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

from sluicegate.gateway.history.rows import Ending

EQUAL = ("model", "version", "key", "tenant", "route", "feature", "outcome", "ended")
"""Fields that must equal the column of that name."""
NO_KEY = "-"
"""Stands for requests without a key, feature or route."""


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Empty: everything. `rail` with `verdict`: one of that rail said so; `q`: part of an id, or a trace id."""

    from_s: float | None = None
    until_s: float | None = None
    model: str = ""
    version: str = ""
    key: str = ""
    tenant: str = ""
    route: str = ""
    feature: str = ""
    outcome: str = ""
    ended: str = ""
    rail: str = ""
    verdict: str = ""
    q: str = ""
    cached: bool | None = None
    met: bool | None = None
    over_ms: float | None = None
    first_over_ms: float | None = None
    token_over_ms: float | None = None

    def __post_init__(self) -> None:
        if self.outcome and self.outcome not in get_args(Ending):
            raise ValueError(f"outcome is one of {', '.join(get_args(Ending))}, found {self.outcome[:40]!r}")

    def where(self) -> tuple[str, list[Any]]:
        """Return (condition on the table `requests`, its values)."""
        conditions, values = ["1"], []
        for condition, value in self._conditions():
            conditions.append(condition)
            values += [value] * condition.count("?")
        return " and ".join(conditions), values

    def _conditions(self) -> Iterator[tuple[str, Any]]:
        for name in EQUAL:
            if value := getattr(self, name):
                yield f"{name} = ?", "" if value == NO_KEY else value
        bounds = {
            "at_s >= ?": self.from_s,
            "at_s < ?": self.until_s,
            "ms > ?": self.over_ms,
            "first_ms > ?": self.first_over_ms,
            "token_ms > ?": self.token_over_ms,
            "cached = ?": self.cached,
            "met = ?": self.met,
        }
        yield from ((condition, value) for condition, value in bounds.items() if value is not None)
        if self.q:
            yield "(instr(id, ?) or trace = lower(?))", self.q
        yield from self._on_rails()

    def _on_rails(self) -> Iterator[tuple[str, Any]]:
        """Yield the conditions on rails. Where rail and verdict are both given they must hold of one verdict: `rail` is
        then no condition of its own."""
        begin = "exists (select 1 from verdicts v where v.seq = requests.seq"
        if self.rail and self.verdict:
            yield f"{begin} and v.rail = ?", self.rail
            yield "v.verdict = ?)", self.verdict
        elif self.rail:
            yield f"{begin} and v.rail = ? and v.verdict != 'pass')", self.rail
        elif self.verdict:
            yield f"{begin} and v.verdict = ?)", self.verdict
