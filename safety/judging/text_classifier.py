"""Judge an answer by the bundled text classifier: each unit alone, and together with the text before it.

Not covered: the messages before the answer. The classifier scores what a text asks for, so a harmful question would
raise the score of its refusal as much as that of its answer.
"""

from __future__ import annotations

from collections.abc import Callable

from sluicegate.plugins import Caller, Channel, Request
from sluicegate.safety.detection.detector import Finding
from sluicegate.safety.judging.session import Assessment, JudgedReading


class ClassifierAnswerJudge:
    """Scores units with the bundled classifier. `category`: the reported category. `window`: characters before a unit
    that are read with it."""

    def __init__(self, score: Callable[[str], Finding], category: str, window: int) -> None:
        self._score = score
        self._category = category
        self._window = window

    def read(self, request: Request, caller: Caller, channel: Channel, lead: str) -> JudgedReading:
        return _ClassifiedText(self._score, self._category, self._window, lead[-self._window :])


class _ClassifiedText:
    def __init__(self, score: Callable[[str], Finding], category: str, window: int, before: str) -> None:
        self._score = score
        self._category = category
        self._window = window
        self._before = before

    async def judge(self, unit: str) -> Assessment:
        together = self._before + unit
        found = self._score(unit).score
        if self._before:
            found = max(found, self._score(together).score)
        self._before = together[-self._window :] if self._window else ""
        return Assessment({self._category: found})
