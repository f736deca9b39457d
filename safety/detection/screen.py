"""The input rail: what a judge finds in each message becomes pass, escalate or block.

What is read, and as what, is `reading.py`'s. The user's words and untrusted text are judged differently and have
thresholds of their own. A judge that throws or runs out of time fails closed.

Not covered: an attack spread over several messages, each harmless by itself; messages of roles that are not listed;
and text that only the operator's instructions make an attack.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from sluicegate.plugins import Caller, Mark, RailProperties, Request, ScreenResult, Text, texts_of
from sluicegate.plugins.errors import SEND_AGAIN, RequestTooLarge, StageFailed
from sluicegate.safety.detection.detector import NOTHING, Detector, Finding
from sluicegate.safety.detection.parts import Part, PartReader, alone, pieces
from sluicegate.safety.rails.verdict_memory import Remembered

INLINE_CHARS = 4_000
"""Up to this much is judged on the event loop, in a few milliseconds; more goes to a thread."""
USUAL_CHARS = 50_000
"""What `time_budget_s` is meant for; the detector reads some 1,000 characters a millisecond."""


class Judge(Protocol):
    """Says how bad a text is. Called from any thread. `inline_chars`: how much may be judged on the event loop."""

    inline_chars: int

    def user(self, text: str) -> Finding: ...

    def document(self, text: str) -> Finding: ...


class InjectionJudge:
    """Prompt injection and jailbreaks; orders in documents."""

    inline_chars = INLINE_CHARS

    def __init__(self, detector: Detector) -> None:
        self.user = detector.injection
        self.document = detector.document


class HarmJudge:
    """Harmful requests, wherever they stand."""

    inline_chars = INLINE_CHARS

    def __init__(self, detector: Detector) -> None:
        self.user = detector.harm
        self.document = detector.harm


@dataclass(frozen=True, slots=True)
class Thresholds:
    """A score of `block` and above blocks, one of `escalate` and above asks a person; above 1 it never happens."""

    escalate: float = 0.5
    block: float = 0.85

    def action(self, score: float) -> str:
        if score >= self.block:
            return "block"
        return "escalate" if score >= self.escalate else "pass"


@dataclass(frozen=True, slots=True)
class JudgePolicy:
    """`models`: thresholds (user, document) for requests that name that model. `shadow`: decide and say, do not act."""

    user: Thresholds = Thresholds()
    document: Thresholds = Thresholds()
    beside: Thresholds = Thresholds(0.95, 0.95)
    """For what stands beside the messages: tools, schemas."""
    models: Mapping[str, tuple[Thresholds, Thresholds]] = field(default_factory=dict)
    roles: frozenset[str] = frozenset({"user", "tool"})
    document_names: frozenset[str] = frozenset({"document"})
    document_tags: tuple[str, ...] = ("document", "context", "untrusted")
    shadow: bool = False
    time_budget_s: float = 1.0
    fail_open: bool = False
    max_chars: int = 1_000_000
    """Of one request; more is refused."""

    def thresholds(self, model: str) -> tuple[Thresholds, Thresholds]:
        return self.models.get(model, (self.user, self.document))


_SEVERITY = {"pass": 0, "escalate": 1, "block": 2}


class DetectionScreen:
    """Slot `screen`. Caches findings by text; stores nothing else of requests."""

    text_chars = 300
    """What judging one more text costs, in characters of text."""

    def __init__(self, name: str, judge: Judge, policy: JudgePolicy) -> None:
        self.name = name
        self.policy = policy
        self.inline_chars = judge.inline_chars
        self.properties = RailProperties(version="1", reads="texts")
        self._judge = judge
        self._reader = PartReader(policy.roles, policy.document_names, policy.document_tags)
        self._findings: Remembered[Finding] = Remembered()

    async def screen(self, request: Request, caller: Caller) -> ScreenResult:
        """Judge the messages of `request`. Raises `RequestTooLarge` for more text than may be judged, `StageFailed`
        where the judge failed or the time ran out, unless the rail is set to fail open."""
        texts = texts_of(request)
        chars = sum(len(text.text) for text in texts)
        if chars <= self.inline_chars:
            return self.screen_now(request, texts, caller)
        work = asyncio.to_thread(self.screen_now, request, texts, caller)
        try:
            async with asyncio.timeout(self.budget_s(chars)):
                return await work
        except TimeoutError:
            return self._late()

    def screen_now(self, request: Request, texts: Sequence[Text], caller: Caller) -> ScreenResult:
        """Screen in the calling thread. `texts`: those of `request`, as `texts_of` lists them. The time limit is
        checked between pieces of `PIECE` characters."""
        parts = self._reader.parts(request, texts)
        chars = sum(len(part.text) for part in parts)
        if chars > self.policy.max_chars:
            return self._too_large(chars)
        try:
            result = self._decide(parts, request.model, caller.tenant, time.perf_counter() + self.budget_s(chars))
        except TimeoutError:
            return self._late()
        except Exception as error:
            return self._failed("it could not judge the text", f"{type(error).__name__}: {error}")
        return self._in_shadow(result) if self.policy.shadow else result

    def budget_s(self, chars: int) -> float:
        """Return the time limit: `time_budget_s`, times the text's length in units of `USUAL_CHARS` if it is longer."""
        return self.policy.time_budget_s * max(1.0, chars / USUAL_CHARS)

    def _decide(self, parts: list[Part], model: str, tenant: str, until: float) -> ScreenResult:
        """Return the worst action over all parts; among equals the one with the highest score. What is no more than
        usual beside the messages counts for nothing. Raises `TimeoutError` past `until`."""
        user, document = self.policy.thresholds(model)
        thresholds = {"user": user, "document": document, "beside": self.policy.beside}
        worst, severity = ScreenResult(score=0.0), (0, 0.0)
        for part in parts:
            finding = self._finding(part, tenant, until)
            action = thresholds[part.read_as].action(finding.score)
            if part.read_as == "beside" and action == "pass":
                continue
            if (_SEVERITY[action], finding.score) > severity:
                severity = (_SEVERITY[action], finding.score)
                worst = self._result(action, finding, part)
        return worst

    def _finding(self, part: Part, tenant: str, until: float) -> Finding:
        """Return the finding of the worst piece, cached over the tenant's last requests. Raises `TimeoutError` past
        `until`."""
        key = self._findings.key(tenant, (part.read_as, *part.texts))
        found = self._findings.find(key)
        if found is None:
            found = NOTHING
            for finding in self._judged(part):
                if not 0.0 <= finding.score <= 1.0:  # refuses NaN, which is above no limit
                    raise ValueError("the judge's score is not a number from 0 to 1")
                found = max(found, finding, key=lambda one: one.score)
                if time.perf_counter() > until:
                    raise TimeoutError
            self._findings.keep(key, found)
        return found

    def _judged(self, part: Part) -> Iterator[Finding]:
        if part.read_as == "user":
            yield from map(self._judge.user, pieces(part.text))
            return
        yield from map(self._judge.document, pieces(part.text))
        if part.read_as == "beside":
            yield from map(self._judge.user, alone(part.texts))

    def _result(self, action: str, finding: Finding, part: Part) -> ScreenResult:
        score = round(finding.score, 4)
        if action == "pass":
            return ScreenResult("pass", score=score)
        place = f"{part.place} ({part.source})" if part.source else part.place
        reason = f"{self.name}: {finding.because} in {place}, score {score:.2f}"
        told = f"the text at {part.place.rpartition(' ')[2]} is not allowed here"
        marks = (Mark(finding.because),)
        decided: Literal["block", "escalate"] = "block" if action == "block" else "escalate"
        return ScreenResult(decided, reason=reason, score=score, told=told, marks=marks)

    def _in_shadow(self, result: ScreenResult) -> ScreenResult:
        if result.action == "pass":
            return result
        reason = f"shadow, would {result.action}: {result.reason}"
        return ScreenResult("pass", reason=reason, score=result.score, marks=result.marks)

    def _late(self) -> ScreenResult:
        return self._failed("it took too long", f"took longer than its budget of {self.policy.time_budget_s:g} s")

    def _too_large(self, chars: int) -> ScreenResult:
        said = f"{chars} characters are to be judged by {self.name!r}, which reads at most {self.policy.max_chars}"
        if self.policy.shadow or self.policy.fail_open:
            return ScreenResult("pass", reason=f"{self.name}: not judged: {said}")
        raise RequestTooLarge(f"{said}; send less text at a time", param="messages")

    def _failed(self, reason: str, cause: str) -> ScreenResult:
        """Let the request pass where it may, for `cause`. Raises `StageFailed` with `reason` for the caller."""
        if self.policy.shadow or self.policy.fail_open:
            return ScreenResult("pass", reason=f"{self.name}: failed open: {cause}")
        told = f"{reason}; {SEND_AGAIN}"
        raise StageFailed("screen", self.name, told, cause=cause)
