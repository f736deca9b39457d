"""Judge an answer by the text classifier that comes with the package: each unit alone, and with what came before it.

Not covered: the messages that led to the answer. The classifier reads a text as a request for something, so a question
beside its refusal would count as much as beside its answer.
"""

from __future__ import annotations

from collections.abc import Callable

from sluicegate.plugins import Caller, Channel, Request
from sluicegate.safety.detection.detector import Finding
from sluicegate.safety.judging.session import Assessment, JudgedReading


class ClassifierAnswerJudge:
    """`category`: what is reported. `window`: characters before a unit that are read with it."""

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
