"""Judge by a cheap judge first, and ask an expensive one only where the first raises an alarm: one policy, one rail.

A unit below the first judge's alarm score gets the first judge's scores; above it the second alone decides. The second
reads all units: those it was not asked about are passed with the next one it is.

Not covered: units for which the first raises no alarm. The pair finds at most what the first finds at its alarm score.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from sluicegate.plugins import Caller, Channel, Lifecycle, Request, StatsReporter
from sluicegate.safety.judging.session import TOKEN, AnswerJudge, Assessment, JudgedReading, Probed, StateReading


class CascadeJudge:
    """`rings`: the score of the first judge from which the second is asked. Shared by requests."""

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
    """Mutable, for one text."""

    first: JudgedReading
    rings: float
    second: JudgedReading
    counts: dict[str, float]
    _unread: list[str] = field(default_factory=list)

    def look(self, size: int, probed: Probed) -> None:
        if isinstance(self.first, StateReading):
            self.first.look(size, probed)

    def so_far(self, end: int) -> Assessment:
        """Return no scores: single tokens stop nothing, since the second judge decides about whole units."""
        return Assessment()

    async def judge(self, unit: str) -> Assessment:
        found = await self.first.judge(unit)
        self.counts["units_total"] += 1
        self._unread.append(unit)
        worst = max((score for name, score in found.scores.items() if not name.endswith(TOKEN)), default=0.0)
        if any(math.isnan(score) for score in found.scores.values()):
            raise ValueError("the first judge found no number")
        if worst < self.rings:
            return Assessment()
        self.counts["asked_total"] += 1
        unread, self._unread = "".join(self._unread), []
        return await self.second.judge(unread)
