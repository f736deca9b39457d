"""The one mutable object of a request, in groups: how it came in, the current attempt at an answer, what has left."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from sluicegate.cache import CacheHit, CacheQuestion, Recall, Seat, SharedResult, TieredCache
from sluicegate.gateway.answer.citations import Citation
from sluicegate.gateway.answer.shape import Shape
from sluicegate.gateway.rails.judging import Judging
from sluicegate.gateway.rails.moderation import Moderation
from sluicegate.gateway.rails.policy import Policy
from sluicegate.gateway.request.stages import Stages
from sluicegate.gateway.retrieval.found import Retrieved
from sluicegate.gateway.routing.first_texts import FirstTextWait
from sluicegate.gateway.routing.queues import QueueTicket
from sluicegate.gateway.routing.table import VersionDraw
from sluicegate.gateway.telemetry import ReportedError, TraceIds, semconv
from sluicegate.gateway.telemetry.finished_request import ToolCallRecord
from sluicegate.gateway.telemetry.tries import Try, TryReporter
from sluicegate.gateway.upstream.reading.counting import added, within_one
from sluicegate.plugins import (
    Answer,
    Caller,
    CompiledGrammar,
    Decision,
    Generation,
    Outcome,
    OutputRail,
    Prompt,
    Request,
    ServedModel,
    Timeline,
    Usage,
    shows,
)
from sluicegate.plugins.frozen import frozen_when_checked

NOTHING = Usage()
NOBODY = Caller()
PLAIN = Shape(None)
EVERYTHING = Policy()


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class RequestOrigin:
    """How a request came in."""

    trace: TraceIds
    stages: Stages
    """The stages at the time it arrived; it keeps them, whatever is configured later."""
    route: str = ""
    """Path of the API."""
    approved: frozenset[str] = frozenset()
    """Input rails that wanted a review, which approved the request."""
    lead: str = field(default="", repr=False)
    """End of the text that the answer continues, as the client sent it; the client joins both."""
    operation: str = semconv.OPERATION_CHAT
    """The requested operation, by its name in traces."""
    received: Request | None = field(default=None, repr=False)
    """The request before any rail or template changed it."""
    started_at: float = field(default_factory=time.perf_counter)
    """When it arrived."""
    waited_s: float = 0.0
    """Seconds from arrival until the request was read."""
    created_s: int = field(default_factory=lambda: int(time.time()))


@dataclass(slots=True)
class Attempt:
    """The current try at an answer by one model. A field is None until the stage that fills it has run."""

    prompt: Prompt | None = None
    question: CacheQuestion | None = None
    recalls: list[tuple[str, TieredCache, Recall]] = field(default_factory=list)
    """Result of each cache's look-up, for storing the answer later."""
    hit: CacheHit | None = None
    cached: tuple[Answer, ...] | None = None
    seat: Seat[SharedResult] | None = None
    """Its place among identical requests that run at the same time."""
    ticket: QueueTicket | None = None
    """Its place in the model's queue, if the model has one."""
    awaited: FirstTextWait | None = None
    """Its wait for the first text, where load is shed by those waits."""
    shape: Shape = PLAIN
    """Shape of the whole output, reasoning and tool calls included."""
    grammar: CompiledGrammar | None = None
    tool_grammars: Mapping[str, CompiledGrammar] = field(default_factory=dict)
    """Grammars of tools' arguments, or of custom tools' texts, if another server calls them."""
    generation: Generation | None = None

    def give_up(self) -> None:
        """Cancel the generation, and release the seat, the ticket and the wait for a first text. Idempotent."""
        if self.generation is not None:
            self.generation.cancel()
        if self.seat is not None:
            self.seat.abandon()
        if self.ticket is not None:
            self.ticket.give_back()
        if self.awaited is not None:
            self.awaited.gave_up()


@dataclass(slots=True)
class Safety:
    """The rails of the request."""

    policy: Policy = EVERYTHING
    output_rails: list[tuple[str, OutputRail]] = field(default_factory=list)
    state_rails: list[tuple[str, OutputRail]] = field(default_factory=list)
    """Those of them that read the model's hidden states."""
    restore: dict[str, str] = field(default_factory=dict, repr=False)
    """Placeholders -> values that this caller may see."""
    unenforced: list[str] = field(default_factory=list)
    """Rails that did not act: slot, name and reason."""


@dataclass(slots=True)
class Delivery:
    """When text left."""

    first_at: float | None = None
    last_at: float = 0.0
    gaps_s: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Exchange:
    """Owned by one task."""

    entry: RequestOrigin
    request: Request
    caller: Caller = NOBODY
    model: ServedModel | None = None
    screened: Request | None = None
    """The request after the input rails."""
    draw: VersionDraw | None = None
    """How the version was drawn, where a name has several."""
    elsewhere: str = ""
    """`mcp/` and the server's name, if no model but a tool does the work."""
    tool: ToolCallRecord | None = None
    """The tool that is called there."""
    safety: Safety = field(default_factory=Safety)
    attempt: Attempt = field(default_factory=Attempt)
    unarranged: Request | None = None
    """The request before documents were fitted into the model's context, if it has any."""
    failed: list[str] = field(default_factory=list)
    """Models that failed to answer it."""
    spent: Usage = NOTHING
    """Usage paid to other servers for earlier generations whose answers were discarded."""
    earlier_tries: tuple[Try, ...] = ()
    """Attempts at other servers during those generations."""
    read: Usage = NOTHING
    """Usage of an operation that generates nothing."""
    moderation: Moderation | None = None
    watched: list[tuple[Moderation, Judging, float]] = field(default_factory=list, repr=False)
    """Answers that judges in shadow mode may still read, and when their moderation began."""
    question: str | None = field(default=None, repr=False)
    """The question to find documents for, as the caller wrote it; None = retrieve nothing."""
    retrieved: Retrieved | None = field(default=None, repr=False)
    citations: list[tuple[int, Citation]] = field(default_factory=list, repr=False)
    """(choice, citation)."""
    delivery: Delivery = field(default_factory=Delivery)
    answers: list[Answer] = field(default_factory=list)
    thought_tokens: int = 0
    ignored: tuple[str, ...] = ()
    """Paths of fields that the caller sent and that have no effect here."""
    review: Mapping[str, str] | None = None
    """Where to fetch the outcome, if part of it waits for a review."""
    decisions: list[Decision] = field(default_factory=list)
    error: str | None = None
    by_caller: bool = False
    """Whether the caller can correct `error`."""
    broken: bool = False
    """Whether an answer violated its constraint, even if a valid one was sent in its place."""
    duration_s: float = 0.0
    """Set when the request has ended."""
    failure: ReportedError | None = None
    """The error that the caller got."""
    recorded: bool = False
    stages: Stages = field(init=False, repr=False)
    """The stages of `entry`, copied because they are needed about twenty times."""

    def __post_init__(self) -> None:
        self.stages = self.entry.stages

    @property
    def served(self) -> ServedModel:
        """Return the routed model; only valid after `route`."""
        assert self.model is not None
        return self.model

    @property
    def cached(self) -> tuple[Answer, ...] | None:
        return self.attempt.cached

    @property
    def usage(self) -> Usage:
        now = self.attempt.generation.usage if self.attempt.generation else self.read
        if self.spent is NOTHING or self.spent == NOTHING:
            return now
        return within_one(self.request, self.served.context_length, added(self.spent, now))

    @property
    def reported_usage(self) -> Usage:
        """Return tokens as the caller reads them. `usage` is what was computed and is charged: nothing for a kept
        answer. The caller still reads the size of a kept answer, with all its prompt tokens as cached."""
        attempt = self.attempt
        if attempt.cached is None:
            return self.usage
        made = self.kept_usage
        remote = self.model is not None and self.model.remote
        read = made.prompt_tokens if attempt.prompt is None or remote else len(attempt.prompt.token_ids)
        return Usage(read, made.completion_tokens, read)

    @property
    def kept_usage(self) -> Usage:
        """Return the tokens that generating the kept answer cost."""
        hit, seat = self.attempt.hit, self.attempt.seat
        if hit is not None:
            return hit.usage
        return seat.answers.usage if seat is not None and seat.answers is not None else NOTHING

    @property
    def timeline(self) -> Timeline | None:
        """Return when the parts of the generation happened, where the generator says so. Return None for an answer of
        the cache."""
        generation = self.attempt.generation
        return None if generation is None else generation.timeline

    @property
    def tries(self) -> tuple[Try, ...]:
        """Return all tries at other servers."""
        generation = self.attempt.generation
        return (*self.earlier_tries, *(generation.tries if shows(generation, TryReporter) else ()))

    @property
    def withholds_tokens(self) -> bool:
        """Return whether tokens would spell what a rail withheld. They would where a rail changed or stopped an answer,
        or would have done so if it had seen all that was drawn (what a stop string cut off, the marks around calls)."""
        if self.moderation is None or self.moderation.altered:
            return True
        drawn: dict[int, list[str]] = {}
        for step in self.timeline.steps if self.timeline is not None else ():
            drawn.setdefault(step.choice, []).append(step.text)
        return not all(self.moderation.passes("".join(texts)) for texts in drawn.values())

    @property
    def not_enforced(self) -> tuple[str, ...]:
        """Return what the grammar could not enforce, by name and place (annotations such as an unknown `format`), and
        which rails did not act. It is part of the answer, so that nothing is silently allowed."""
        grammar = self.attempt.grammar
        return (*(() if grammar is None else grammar.notes), *self.safety.unenforced)

    def released(self) -> None:
        """Record that text leaves now."""
        now, delivery = time.perf_counter(), self.delivery
        if delivery.first_at is None:
            delivery.first_at = now
            if self.attempt.awaited is not None:
                self.attempt.awaited.came(now - self.entry.started_at)
        else:
            delivery.gaps_s.append(now - delivery.last_at)
        delivery.last_at = now

    def supersede(self) -> None:
        """Discard this generation for another one. Usage of upstream servers stays charged."""
        generation = self.attempt.generation
        if generation is not None and self.served.remote:
            self.spent = added(self.spent, generation.usage)
            self.earlier_tries = self.tries
        self.attempt.generation = None

    def outcome(self) -> Outcome:
        entry, first = self.entry, self.delivery.first_at
        return Outcome(
            request=self.request,
            caller=self.caller,
            model=self.model.name if self.model else self.elsewhere,
            answers=tuple(self.answers),
            usage=self.usage,
            decisions=tuple(self.decisions),
            duration_s=self.duration_s,
            time_to_first_chunk_s=None if first is None else first - entry.started_at,
            error=self.error,
            cached=self.attempt.cached is not None,
            saved=NOTHING if self.attempt.hit is None else self.attempt.hit.usage,
            timeline=self.timeline,
            gaps_s=tuple(self.delivery.gaps_s),
            held_s=self.moderation.longest_hold_s if self.moderation else 0.0,
            trace_id=f"{entry.trace.trace_id:032x}" if entry.trace.sampled else "",
            by_caller=self.by_caller,
        )
