"""A slow, obvious hold-back window for one rail: what a client would receive.

It is the reference twin of the gateway's window and shares no code with it. Not covered: several rails at once, time
budgets that act, bounds on what is held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal

from sluicegate.plugins.contract.names import Channel
from sluicegate.plugins.contract.requests import Caller, Request
from sluicegate.plugins.contract.slots import OutputRail, RailSession
from sluicegate.plugins.contract.verdicts import Span, Verdict
from sluicegate.plugins.testing.chunking import Chunking
from sluicegate.plugins.testing.doubles import make_request
from sluicegate.plugins.testing.faults import Fault

Outcome = Literal["pass", "redact", "block"]


@dataclass(frozen=True, slots=True)
class Step:
    """After one call: characters fed, the rail's `clear_to`, characters settled (released, replaced or stopped by a
    block), seconds."""

    fed: int
    clear_to: int
    settled: int
    seconds: float

    @property
    def held(self) -> int:
        return self.fed - self.settled


@dataclass(slots=True)
class Driven:
    """What became of one text. `released` is what the client got, `withheld` what waits for a person, `passed` the
    [start, end) places of the text that left as they were, `trace` the way there; with `faults` the rail broke the
    contract and the stream was blocked."""

    chunking: str
    released: str = ""
    withheld: str = ""
    verdict: Outcome = "pass"
    reason: str = ""
    escalations: list[str] = field(default_factory=list)
    redacted: list[Span] = field(default_factory=list)
    passed: list[tuple[int, int]] = field(default_factory=list)
    trace: list[Step] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    @property
    def outcome(self) -> tuple[str, str, Outcome, str, tuple[str, ...]]:
        """Return the part of the result that must not depend on the chunking."""
        return self.released, self.withheld, self.verdict, self.reason, tuple(self.escalations)

    @property
    def most_held(self) -> int:
        return max((step.held for step in self.trace), default=0)

    @property
    def slowest_s(self) -> float:
        return max((step.seconds for step in self.trace), default=0.0)


class ReferenceWindow:
    """One session at work. `feed` until `done`, then `close`; `driven` says what a client has got so far."""

    def __init__(self, session: RailSession, chunking: str) -> None:
        self.driven = Driven(chunking)
        self.done = False
        self._session = session
        self._text = ""
        self._clear_to = 0
        self._settled = 0
        self._withheld_from: int | None = None
        self._spans: list[Span] = []

    def feed(self, piece: str) -> None:
        if not self.done:
            self._text += piece
            self._ask(piece)

    def close(self) -> None:
        if not self.done:
            self._ask(None)
            self.done = True

    def _ask(self, piece: str | None) -> None:
        call = "close()" if piece is None else f"feed({piece[:40]!r})"
        started = perf_counter()
        try:
            verdict = self._session.close() if piece is None else self._session.feed(piece)
        except Exception as error:
            return self._fail(Fault("crashing", f"{call} raised {type(error).__name__}: {error} {self._where()}"))
        seconds = perf_counter() - started
        fault = self._complaint(verdict, call, closing=piece is None)
        if fault is not None:
            return self._fail(fault)
        self._obey(verdict)
        settled = self._settled if verdict.block is None else len(self._text)
        self.driven.trace.append(Step(len(self._text), self._clear_to, settled, seconds))
        return None

    def _complaint(self, verdict: Verdict, call: str, *, closing: bool) -> Fault | None:
        """Return how a verdict breaks the contract of `Verdict`; None where it keeps it."""
        if not isinstance(verdict, Verdict):
            return Fault("shape", f"{call} must answer a Verdict, found {verdict!r} {self._where()}")
        clear_to, length = verdict.clear_to, len(self._text)
        if clear_to < self._clear_to:
            return Fault(
                "non-monotone",
                f"{call}: clear_to went back from {self._clear_to} to {clear_to}; what was "
                f"clear has left {self._where()}",
            )
        if clear_to > length:
            return Fault(
                "out-of-range", f"{call}: clear_to is {clear_to}, only {length} characters came {self._where()}"
            )
        if closing and verdict.block is None and clear_to != length:
            return Fault(
                "unsettled",
                f"close() left clear_to at {clear_to} of {length}; it must settle everything or block {self._where()}",
            )
        at = verdict.escalate_at
        if at is not None and not self._clear_to <= at <= length:
            return Fault(
                "out-of-range",
                f"{call}: escalate_at is {at}, must be from {self._clear_to} to {length} {self._where()}",
            )
        return self._span_complaint(verdict, call)

    def _span_complaint(self, verdict: Verdict, call: str) -> Fault | None:
        at, length = 0, len(self._text)
        for span in verdict.redact:
            place = f"{call}: the redacted span {span.start}..{span.end}"
            if not 0 <= span.start < span.end <= length or span.start < at:
                return Fault(
                    "out-of-range",
                    f"{place} is empty, out of order or outside of the {length} characters that came {self._where()}",
                )
            if span.start < self._clear_to:
                return Fault(
                    "too-late",
                    f"{place} begins before {self._clear_to}, which was clear and has left; hold "
                    f"text back while it can still become part of a match {self._where()}",
                )
            at = span.end
        for span in [*self._spans, *verdict.redact]:
            if span.start < verdict.clear_to < span.end:
                return Fault(
                    "inside-span",
                    f"{call}: clear_to {verdict.clear_to} lies inside the redacted span "
                    f"{span.start}..{span.end}; clear it whole or not yet {self._where()}",
                )
        return None

    def _obey(self, verdict: Verdict) -> None:
        if verdict.escalate:
            self.driven.escalations.append(verdict.escalate)
            at = self._clear_to if verdict.escalate_at is None else verdict.escalate_at
            self._withheld_from = at if self._withheld_from is None else min(at, self._withheld_from)
        self._clear_to = verdict.clear_to
        self._spans = sorted([*self._spans, *verdict.redact], key=lambda span: span.start)
        while self._spans and self._spans[0].end <= self._clear_to:
            self._replace(self._spans.pop(0))
        self._release(min([self._clear_to, *(span.start for span in self._spans)]))
        if verdict.block is not None:
            self._block(verdict.block)

    def _replace(self, span: Span) -> None:
        self._release(span.start)
        if span.end > self._settled:
            self._settled = span.end
            self._write(span.replacement, withheld=self._withheld_from is not None and span.end > self._withheld_from)
            self.driven.redacted.append(span)
            self.driven.verdict = "redact"

    def _release(self, end: int) -> None:
        """Release text up to `end`. Text behind an escalation is withheld for the reviewer."""
        edge = end if self._withheld_from is None else min(end, max(self._settled, self._withheld_from))
        for start, stop, withheld in ((self._settled, edge, False), (max(edge, self._settled), end, True)):
            if stop > start:
                self._write(self._text[start:stop], withheld=withheld)
                if not withheld:
                    self.driven.passed.append((start, stop))
                self._settled = stop

    def _write(self, text: str, *, withheld: bool) -> None:
        if withheld:
            self.driven.withheld += text
        else:
            self.driven.released += text

    def _block(self, reason: str) -> None:
        self.driven.verdict, self.driven.reason, self.done = "block", reason, True
        self.driven.withheld = ""

    def _fail(self, fault: Fault) -> None:
        """Note a fault and block, as the gateway does with a rail that breaks the contract."""
        self.driven.faults.append(fault)
        self._block("rail_failed")

    def _where(self) -> str:
        return f"(after {len(self._text)} characters, fed {self.driven.chunking})"


def drive(
    rail: OutputRail,
    text: str,
    chunking: Chunking | Sequence[str] | None = None,
    *,
    request: Request | None = None,
    caller: Caller | None = None,
    channel: Channel = "content",
) -> Driven:
    """Run `text` through one session of `rail`, cut as `chunking` says (None: by character)."""
    cut = chunking or Chunking("by character", tuple(text))
    if not isinstance(cut, Chunking):
        cut = Chunking("as given", tuple(cut))
    if "".join(cut.pieces) != text:
        raise ValueError(f"the pieces of {cut.name!r} do not make up the text; cut the text itself")
    try:
        session = rail.open(request or make_request(), caller or Caller(), channel)
    except Exception as error:
        fault = Fault("crashing", f"open() raised {type(error).__name__}: {error}")
        return Driven(cut.name, verdict="block", reason="rail_failed", faults=[fault])
    window = ReferenceWindow(session, cut.name)
    for piece in cut.pieces:
        window.feed(piece)
    window.close()
    return window.driven
