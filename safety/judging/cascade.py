"""Ask a cheap judge first, and an expensive one only where the first raises an alarm: one policy, one rail.

A unit below the first judge's alarm score passes without scores; at or above it the second judge alone decides. The
second judge reads every unit: those it was not asked about are sent along with the next one that it is asked about.

Not covered: units for which the first raises no alarm. The pair finds at most what the first finds at its alarm score.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from sluicegate.plugins import Caller, Channel, Lifecycle, Request, StatsReporter, TokenLogOdds, offers
from sluicegate.safety.judging.session import (
    TOKEN_SUFFIX,
    AnswerJudge,
    Assessment,
    Joined,
    JudgedReading,
    StateReading,
)


class CascadeJudge:
    """Two judges in a row. `rings`: the score of the first judge from which the second is asked. Shared by requests."""

    def __init__(self, first: AnswerJudge, rings: float, second: AnswerJudge) -> None:
        self.first, self.second = first, second
        self._rings = rings
        self._counts = {"units_total": 0.0, "asked_total": 0.0}

    @property
    def reads_states(self) -> bool:
        return bool(getattr(self.first, "reads_states", False))

    async def start(self) -> None:
        for judge in (self.first, self.second):
            if isinstance(judge, Lifecycle):
                await judge.start()

    async def close(self) -> None:
        for judge in (self.first, self.second):
            if isinstance(judge, Lifecycle):
                await judge.close()

    def stats(self) -> Mapping[str, float]:
        """Return counters: `units_total` units judged, `asked_total` of them by the second judge."""
        second = self.second.stats() if isinstance(self.second, StatsReporter) else {}
        return {**second, **self._counts}

    def read(self, request: Request, caller: Caller, channel: Channel, lead: str) -> JudgedReading:
        first, second = (judge.read(request, caller, channel, lead) for judge in (self.first, self.second))
        return CascadeReading(first, self._rings, second, self._counts)


@dataclass(slots=True)
class CascadeReading:
    """The state of both judges for one text. Mutable."""

    first: JudgedReading
    rings: float
    second: JudgedReading
    counts: dict[str, float]
    _unread: list[str] = field(default_factory=list)

    def add_log_odds(self, size: int, probed: TokenLogOdds, joined: Joined = ()) -> None:
        if offers(self.first, StateReading):
            self.first.add_log_odds(size, probed, joined)

    def score_open_unit(self, end: int) -> Assessment:
        """Return no scores: no single token stops an answer, since the second judge decides about whole units."""
        return Assessment()

    async def judge(self, unit: str) -> Assessment:
        found = await self.first.judge(unit)
        self.counts["units_total"] += 1
        self._unread.append(unit)
        worst = max((score for name, score in found.scores.items() if not name.endswith(TOKEN_SUFFIX)), default=0.0)
        if any(math.isnan(score) for score in found.scores.values()):
            raise ValueError("the first judge's score is not a number")
        if worst < self.rings:
            return Assessment()
        self.counts["asked_total"] += 1
        unread, self._unread = "".join(self._unread), []
        return await self.second.judge(unread)
