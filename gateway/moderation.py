"""Slot `moderate`: every channel of every choice goes through a hold-back window of its own.

A token's log probabilities leave together with its text: they are held while it is held, and dropped where a rail
replaced or stopped it, since they would spell what the rail took out.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from gateway.exchange import Delta
from plugins import Answer, Caller, Decision, FinishReason, OutputRail, Piece, Request, TokenLogprob
from safety import HoldbackWindow, JsonWindow, Redaction, Released, UnchangedWindow, redactor_for

REFUSAL = "The answer was stopped by a safety rail."
GRAVITY = ("pass", "redact", "escalate", "block", "failed")


@dataclass(slots=True)
class _Held:
    """Log probabilities of fed text [start, end)."""

    start: int
    end: int
    logprobs: tuple[TokenLogprob, ...]


@dataclass(slots=True)
class _Choice:
    index: int
    window: HoldbackWindow | JsonWindow
    fed: int = 0
    text: list[str] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    held: deque[_Held] = field(default_factory=deque)
    redactions: list[Redaction] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    refusal: str | None = None


class Moderation:
    """All choices of one request. Not thread-safe; fed from the event loop."""

    def __init__(self, rails: Sequence[tuple[str, OutputRail]], request: Request, caller: Caller) -> None:
        self._names = [name for name, _ in rails]
        self._seconds = 0.0
        self._outcomes = dict.fromkeys(self._names, "pass")
        self._labels: Counter[str] = Counter()
        self._choices = [_Choice(i, _window([rail for _, rail in rails], request, caller)) for i in range(request.n)]

    @property
    def finished(self) -> bool:
        return all(choice.finish_reason is not None for choice in self._choices)

    @property
    def redacted(self) -> bool:
        return any(choice.redactions for choice in self._choices)

    def feed(self, piece: Piece) -> Delta | None:
        """What may leave now that `piece` was generated; nothing for a choice that already ended."""
        choice = self._choices[piece.index]
        if choice.finish_reason is not None:
            return None
        started = time.perf_counter()
        if piece.logprobs:
            choice.held.append(_Held(choice.fed, choice.fed + len(piece.text), piece.logprobs))
        choice.fed += len(piece.text)
        steps = [choice.window.feed(piece.text)]
        if piece.finish_reason is not None and steps[0].blocked is None:
            steps.append(choice.window.close())
        for step in steps:
            self._note(choice, step)
        delta = self._delta(choice, "".join(step.text for step in steps), steps[-1], piece.finish_reason)
        self._seconds += time.perf_counter() - started
        return delta if delta.text or delta.logprobs or delta.finish_reason else None

    def answers(self) -> list[Answer]:
        """The choices as far as they got; one that never ended counts as cancelled."""
        return [
            Answer(c.index, "".join(c.text), c.finish_reason or "cancelled", tuple(c.logprobs), c.refusal)
            for c in self._choices
        ]

    def decisions(self) -> list[Decision]:
        """One line for each rail. The time is that of all rails together, shared out evenly."""
        detail = {"redacted": dict(self._labels)} if self._labels else {}
        each = self._seconds / max(1, len(self._names))
        return [Decision("moderate", name, outcome, each, detail) for name, outcome in self._outcomes.items()]

    def _note(self, choice: _Choice, step: Released) -> None:
        for redaction in step.redactions:
            choice.redactions.append(redaction)
            self._labels[redaction.reason] += 1
            self._worsen(redaction.rail, "redact")
        for said, outcome in ((step.escalations, "escalate"), (step.failures, "failed")):
            for line in said:
                self._worsen(line.partition(":")[0], outcome)
        if step.rail is not None:
            self._worsen(step.rail, "block")

    def _worsen(self, rail: str, outcome: str) -> None:
        if GRAVITY.index(outcome) > GRAVITY.index(self._outcomes[rail]):
            self._outcomes[rail] = outcome

    def _delta(self, choice: _Choice, text: str, last: Released, ended: FinishReason | None) -> Delta:
        if last.blocked is not None:
            choice.finish_reason, choice.refusal = "content_filter", REFUSAL
            choice.held.clear()
        else:
            choice.finish_reason = ended
        logprobs = _cleared(choice)
        choice.text.append(text)
        choice.logprobs.extend(logprobs)
        return Delta(choice.index, text, logprobs, choice.finish_reason, choice.refusal)


def _window(rails: Sequence[OutputRail], request: Request, caller: Caller) -> HoldbackWindow | JsonWindow:
    """Rails see the strings of a JSON answer decoded, and what replaces one still satisfies the schema."""
    constraint = request.constraint
    if constraint is None:
        return HoldbackWindow(rails, request, caller)
    if constraint.kind not in ("json_schema", "json_object"):
        return UnchangedWindow(rails, request, caller)
    schema = constraint.value if constraint.kind == "json_schema" else {}
    return JsonWindow(rails, request, caller, redactor=redactor_for(schema))


def _cleared(choice: _Choice) -> tuple[TokenLogprob, ...]:
    """Log probabilities of fed text that the window has let go untouched."""
    found: list[TokenLogprob] = []
    clear_to = choice.fed - choice.window.held
    while choice.held and choice.held[0].end <= clear_to:
        held = choice.held.popleft()
        if not any(r.start < held.end and held.start < r.end for r in choice.redactions):
            found.extend(held.logprobs)
    return tuple(found)
