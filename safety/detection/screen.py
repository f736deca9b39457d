"""The input rail: what a judge finds in each message becomes pass, escalate or block.

The user's words and untrusted text (tool results, messages named as documents, what stands between document tags) are
judged differently and have thresholds of their own. A judge that throws or runs out of time fails closed.

Not covered: an attack spread over several messages, each harmless by itself; messages of roles that are not listed;
and text that only the operator's instructions make an attack.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from plugins.contract import Caller, Message, Request, ScreenResult
from plugins.errors import StageFailed
from safety.detection.detector import Detector, Finding

INLINE_CHARS = 4_000
"""Up to this much is judged on the event loop, in a few milliseconds; more goes to a thread."""


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
class Policy:
    """`models`: thresholds (user, document) for requests that name that model. `shadow`: decide and say, do not act."""

    user: Thresholds = Thresholds()
    document: Thresholds = Thresholds()
    models: Mapping[str, tuple[Thresholds, Thresholds]] = field(default_factory=dict)
    roles: frozenset[str] = frozenset({"user", "tool"})
    document_names: frozenset[str] = frozenset({"document"})
    document_tags: tuple[str, ...] = ("document", "context", "untrusted")
    shadow: bool = False
    time_budget_s: float = 1.0
    fail_open: bool = False

    def thresholds(self, model: str) -> tuple[Thresholds, Thresholds]:
        return self.models.get(model, (self.user, self.document))


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a message, and whether it is the user's own words or a document."""

    place: str
    text: str
    is_document: bool


_SEVERITY = {"pass": 0, "escalate": 1, "block": 2}


class DetectionScreen:
    """Slot `screen`. Holds no state of requests."""

    def __init__(self, name: str, judge: Judge, policy: Policy) -> None:
        self.name = name
        self.policy = policy
        self._judge = judge
        self._opener = _opener(policy.document_tags)

    async def screen(self, request: Request, caller: Caller) -> ScreenResult:
        """Raises `StageFailed` where the judge failed or the time ran out, unless told to fail open."""
        parts = list(self._parts(request))
        try:
            result = await self._within_budget(parts, request.model)
        except TimeoutError:
            return self._failed(f"took longer than its budget of {self.policy.time_budget_s:g} s")
        except Exception as error:
            return self._failed(f"{type(error).__name__}: {error}")
        return self._in_shadow(result) if self.policy.shadow else result

    async def _within_budget(self, parts: list[Part], model: str) -> ScreenResult:
        if sum(len(part.text) for part in parts) <= self._judge.inline_chars:
            return self._decide(parts, model)
        return await asyncio.wait_for(asyncio.to_thread(self._decide, parts, model), self.policy.time_budget_s)

    def _decide(self, parts: list[Part], model: str) -> ScreenResult:
        """The worst action over all parts; among equals the highest score."""
        user, document = self.policy.thresholds(model)
        worst, severity = ScreenResult(score=0.0), (0, 0.0)
        for part in parts:
            finding = self._judge.document(part.text) if part.is_document else self._judge.user(part.text)
            action = (document if part.is_document else user).action(finding.score)
            if (_SEVERITY[action], finding.score) > severity:
                severity = (_SEVERITY[action], finding.score)
                worst = self._result(action, finding, part)
        return worst

    def _result(self, action: str, finding: Finding, part: Part) -> ScreenResult:
        score = round(finding.score, 4)
        if action == "pass":
            return ScreenResult("pass", score=score)
        reason = f"{self.name}: {finding.because} in {part.place}, score {score:.2f}"
        return ScreenResult("block" if action == "block" else "escalate", reason=reason, score=score)

    def _parts(self, request: Request) -> Iterator[Part]:
        for i, message in enumerate(request.messages):
            if message.role in self.policy.roles and message.content:
                yield from self._split(f"messages[{i}]", message)

    def _split(self, place: str, message: Message) -> Iterator[Part]:
        if message.role == "tool" or message.name in self.policy.document_names:
            yield Part(place, message.content, is_document=True)
            return
        own, documents = split_documents(message.content, self._opener)
        yield from (Part(f"a document in {place}", text, is_document=True) for text in documents)
        yield Part(place, own, is_document=False)

    def _in_shadow(self, result: ScreenResult) -> ScreenResult:
        if result.action == "pass":
            return result
        return ScreenResult("pass", reason=f"shadow, would {result.action}: {result.reason}", score=result.score)

    def _failed(self, why: str) -> ScreenResult:
        if self.policy.shadow or self.policy.fail_open:
            return ScreenResult("pass", reason=f"{self.name}: failed open: {why}")
        raise StageFailed("screen", self.name, why)


def _opener(tags: tuple[str, ...]) -> re.Pattern[str] | None:
    names = "|".join(map(re.escape, tags))
    return re.compile(rf"<({names})(?:\s[^<>]{{0,200}})?>", re.IGNORECASE) if tags else None


def split_documents(text: str, opener: re.Pattern[str] | None) -> tuple[str, list[str]]:
    """(the user's own words, what stands between tags). A tag that is never closed marks nothing. Linear."""
    lower, own, documents, at = text.lower(), [], [], 0
    unclosed: set[str] = set()
    for found in opener.finditer(text) if opener else ():
        tag = found[1].lower()
        if found.start() < at or tag in unclosed:
            continue
        end = lower.find(f"</{tag}>", found.end()) if len(lower) == len(text) else -1
        if end < 0:
            unclosed.add(tag)
            continue
        own.append(text[at : found.start()])
        documents.append(text[found.end() : end])
        at = end + len(tag) + 3
    return "\n".join([*own, text[at:]]), documents
