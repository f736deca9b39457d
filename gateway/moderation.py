"""Slot `moderate`: every channel of every choice goes through a hold-back window of its own.

A token's log probabilities leave together with its text: they are held while it is held, and dropped where a rail
replaced or stopped it, since they would spell what the rail took out.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gateway.exchange import Delta
from gateway.telemetry import Hold
from plugins import Answer, Caller, Channel, Decision, FinishReason, OutputRail, Piece, Request, TokenLogprob, ToolCall
from safety import HoldbackWindow, JsonWindow, Limits, Redaction, Released, UnchangedWindow, redactor_for

REFUSAL = "The answer was stopped by a safety rail."
PENDING = "The answer waits for a person to look at it."
MAX_HOLDS = 64
GRAVITY = ("pass", "shadow redact", "shadow escalate", "shadow block", "redact", "escalate", "block", "failed")


@dataclass(slots=True)
class _Held:
    """Log probabilities of fed text [start, end)."""

    start: int
    end: int
    logprobs: tuple[TokenLogprob, ...]


@dataclass(slots=True)
class _Region:
    """A stretch of one channel of one choice, and its window."""

    channel: Channel
    window: HoldbackWindow | JsonWindow
    call: ToolCall | None = None
    number: int = 0
    fed: int = 0
    text: list[str] = field(default_factory=list)
    withheld: list[str] = field(default_factory=list)
    held: deque[_Held] = field(default_factory=deque)
    redactions: list[Redaction] = field(default_factory=list)


@dataclass(slots=True)
class _Choice:
    index: int
    region: _Region | None = None
    """Where the choice stands; None before its first piece."""
    past: list[_Region] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    refusal: str | None = None
    closed: bool = False
    waiting_since: float | None = None
    """When text began to be held that has not left yet; `most` is how many characters at once."""
    most: int = 0
    asked: bool = False
    """A rail wants a person to look: nothing more leaves, and the rest goes to the review."""
    ended: FinishReason | None = None
    """How a withheld choice ended by itself."""

    @property
    def regions(self) -> list[_Region]:
        return self.past if self.region is None else [*self.past, self.region]


class Moderation:
    """All choices of one request. Not thread-safe; fed from the event loop."""

    def __init__(
        self,
        rails: Sequence[tuple[str, OutputRail]],
        request: Request,
        caller: Caller,
        limits: Limits = Limits(),
    ) -> None:
        self._names = [name for name, _ in rails]
        self._rails = [rail for _, rail in rails]
        self._request = request
        self._caller = caller
        self._limits = limits
        self.asked: list[tuple[str, str]] = []
        """(rail, reason) of every place that a person is to look at."""
        self.failures: list[str] = []
        """Rails that failed, in the order they did."""
        self._seconds = 0.0
        self._outcomes = dict.fromkeys(self._names, "pass")
        self._labels: Counter[str] = Counter()
        self._holds: list[Hold] = []
        self._choices = [_Choice(i) for i in range(request.n)]
        if not request.reasoning and not request.callable_tools:  # a rail that cannot open fails before any text
            for choice in self._choices:
                choice.region = _Region("content", self._window("content", None))

    @property
    def finished(self) -> bool:
        return all(choice.finish_reason is not None for choice in self._choices)

    @property
    def holds(self) -> tuple[Hold, ...]:
        """When and how long text waited for a rail; of very many only the first ones."""
        return tuple(self._holds)

    @property
    def longest_hold_s(self) -> float:
        return max([hold.ended_s - hold.began_s for hold in self._holds], default=0.0)

    @property
    def altered(self) -> bool:
        """A rail changed or stopped a choice: what was generated is not what left."""
        return self.redacted or any(choice.refusal is not None for choice in self._choices)

    @property
    def redacted(self) -> bool:
        return any(region.redactions for choice in self._choices for region in choice.regions)

    @property
    def held(self) -> bool:
        """Some choice has all its text, and part of it waits for a person."""
        return any(choice.asked and choice.refusal == PENDING for choice in self._choices)

    @property
    def irreplaceable(self) -> tuple[str, ...]:
        """Texts that had to go and could not be replaced where they stood: they ended their choices."""
        windows = (region.window for choice in self._choices for region in choice.regions)
        return tuple(window.irreplaceable for window in windows if window.irreplaceable)

    def feed(self, piece: Piece) -> list[Delta]:
        """What may leave now that `piece` was generated; nothing for a choice that already ended."""
        choice = self._choices[piece.index]
        if choice.finish_reason is not None:
            return []
        started = time.perf_counter()
        deltas: list[Delta] = []
        region = choice.region
        if region is None or region.channel != piece.channel or region.number != piece.call:
            deltas += self._turn(choice, piece)
            region = choice.region
        if choice.finish_reason is None and region is not None:
            delta = self._pass(choice, region, piece)
            if delta.text or delta.logprobs or delta.finish_reason or delta.refusal:
                deltas.append(delta)
            held = region.window.held
            if held or choice.waiting_since is not None:
                self._watch(choice, held, started)
        self._seconds += time.perf_counter() - started
        return deltas

    def _turn(self, choice: _Choice, piece: Piece) -> list[Delta]:
        """The choice goes on in another channel, or with another call: what the last window holds must settle first."""
        deltas = []
        if (last := choice.region) is not None:
            step = last.window.close()
            settled = self._delta(choice, last, self._take(choice, last, step), step, None)
            deltas += [settled] if settled.text or settled.logprobs or settled.finish_reason else []
            if choice.finish_reason is not None:
                return deltas
            choice.past.append(last)
        call = None
        if piece.channel == "tool_arguments":
            call = ToolCall(f"call_{uuid.uuid4().hex[:24]}", piece.tool or "")
            if not choice.asked:
                deltas.append(Delta(choice.index, channel="tool_arguments", call=piece.call, opened=call))
        choice.region = _Region(piece.channel, self._window(piece.channel, call), call, piece.call)
        return deltas

    def _pass(self, choice: _Choice, region: _Region, piece: Piece) -> Delta:
        if piece.logprobs:
            region.held.append(_Held(region.fed, region.fed + len(piece.text), piece.logprobs))
        first, region.fed = region.fed == 0, region.fed + len(piece.text)
        choice.closed = choice.closed or piece.closed
        steps = self._steps(region.window, piece, first=first)
        text = "".join([self._take(choice, region, step) for step in steps])
        return self._delta(choice, region, text, steps[-1], piece.finish_reason)

    @staticmethod
    def _steps(window: HoldbackWindow | JsonWindow, piece: Piece, *, first: bool) -> list[Released]:
        if piece.finish_reason is None:
            return [window.feed(piece.text)]
        if first and isinstance(window, HoldbackWindow):
            return window.whole(piece.text)
        fed = window.feed(piece.text)
        return [fed] if fed.blocked is not None else [fed, window.close()]

    def answers(self) -> list[Answer]:
        """The choices as far as they got; one that never ended counts as cancelled."""
        return [_answer(c, c.finish_reason or "cancelled", tuple(c.logprobs), c.refusal) for c in self._choices]

    def withheld(self) -> list[Answer]:
        """The choices with what waits for a person: what leaves if that person agrees."""
        return [
            _answer(c, c.ended, (), None, whole=True) if c.ended else answer
            for c, answer in zip(self._choices, self.answers(), strict=True)
        ]

    def decisions(self) -> list[Decision]:
        """One line for each rail. The time is that of all rails together, shared out evenly."""
        detail = {"redacted": dict(self._labels)} if self._labels else {}
        each = self._seconds / max(1, len(self._names))
        return [Decision("moderate", name, outcome, each, detail) for name, outcome in self._outcomes.items()]

    def _watch(self, choice: _Choice, held: int, now: float) -> None:
        """Keep when text was held, from its first character until nothing waits any more."""
        if choice.waiting_since is None:
            choice.waiting_since, choice.most = now, held
        choice.most = max(choice.most, held)
        if held and choice.finish_reason is None:
            return
        if len(self._holds) < MAX_HOLDS:
            self._holds.append(Hold(choice.index, choice.waiting_since, now, choice.most))
        choice.waiting_since = None

    def _take(self, choice: _Choice, region: _Region, step: Released) -> str:
        """What may leave of a step; the rest waits for a person."""
        self._note(region, step)
        text, withheld = ("", step.text + step.withheld) if choice.asked else (step.text, step.withheld)
        if withheld:
            region.withheld.append(withheld)
        choice.asked = choice.asked or bool(step.escalations)
        return text

    def _note(self, region: _Region, step: Released) -> None:
        for redaction in step.redactions:
            region.redactions.append(redaction)
            self._labels[redaction.reason] += 1
            self._worsen(redaction.rail, "redact")
        for line in step.escalations:
            rail, _, reason = line.partition(": ")
            self.asked.append((rail, reason))
            self._worsen(rail, "escalate")
        for line in step.failures:
            self.failures.append(line.partition(":")[0])
            self._worsen(self.failures[-1], "failed")
        for line in step.shadow:
            rail, action, _ = line.split(": ", 2)
            self._worsen(rail, f"shadow {action}")
        if step.rail is not None:
            self._worsen(step.rail, "block")

    def _worsen(self, rail: str, outcome: str) -> None:
        if GRAVITY.index(outcome) > GRAVITY.index(self._outcomes[rail]):
            self._outcomes[rail] = outcome

    def _delta(self, choice: _Choice, region: _Region, text: str, last: Released, ended: FinishReason | None) -> Delta:
        if last.blocked is not None:
            choice.finish_reason, choice.refusal = "content_filter", REFUSAL
            region.held.clear()
        elif ended is not None and choice.asked:
            choice.finish_reason, choice.refusal, choice.ended = "content_filter", PENDING, ended
        else:
            choice.finish_reason = ended
        if choice.asked:
            region.held.clear()
        logprobs = _cleared(region) if region.held else ()
        region.text.append(text)
        choice.logprobs.extend(logprobs)
        return Delta(choice.index, text, logprobs, choice.finish_reason, choice.refusal, region.channel, region.number)

    def _window(self, channel: Channel, call: ToolCall | None) -> HoldbackWindow | JsonWindow:
        """Rails see the strings of JSON decoded, and what replaces one still satisfies the schema."""
        opened = (self._rails, self._request, self._caller, channel, self._limits)
        if call is not None:
            schema = next((tool.parameters for tool in self._request.tools if tool.name == call.name), {})
            return JsonWindow(*opened, redactor=redactor_for(schema))
        constraint = self._request.constraint
        if constraint is None or channel == "reasoning":
            return HoldbackWindow(*opened)
        if constraint.kind not in ("json_schema", "json_object"):
            return UnchangedWindow(*opened)
        return JsonWindow(*opened, redactor=redactor_for(constraint.value if constraint.kind == "json_schema" else {}))


def _answer(
    choice: _Choice,
    ended: FinishReason,
    logprobs: tuple[TokenLogprob, ...],
    refusal: str | None,
    *,
    whole: bool = False,
) -> Answer:
    """The choice as it left; `whole`: with what is withheld."""
    texts = [(region, "".join([*region.text, *(region.withheld if whole else ())])) for region in choice.regions]
    return Answer(
        choice.index,
        "".join([text for region, text in texts if region.channel == "content"]),
        ended,
        logprobs,
        refusal,
        "".join([text for region, text in texts if region.channel == "reasoning"]),
        tuple(replace(region.call, arguments=text) for region, text in texts if region.call is not None),
        choice.closed,
    )


def _cleared(region: _Region) -> tuple[TokenLogprob, ...]:
    """Log probabilities of fed text that the window has let go untouched."""
    found: list[TokenLogprob] = []
    clear_to = region.fed - region.window.held
    while region.held and region.held[0].end <= clear_to:
        held = region.held.popleft()
        if not any(r.start < held.end and held.start < r.end for r in region.redactions):
            found.extend(held.logprobs)
    return tuple(found)
