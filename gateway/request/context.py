"""The one mutable object of a request: what each stage found, in the order of the pipeline."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sluicegate.cache import Found, Made, Question, Recall, Seat, TieredCache
from sluicegate.gateway.answer.shape import Shape
from sluicegate.gateway.rails.policy import Policy
from sluicegate.gateway.routing.first_texts import Awaited
from sluicegate.gateway.routing.queues import QueueTicket
from sluicegate.gateway.telemetry import TraceIds
from sluicegate.gateway.upstream.model import is_remote
from sluicegate.gateway.upstream.reading.counting import added, within_one
from sluicegate.plugins import (
    Answer,
    Caller,
    Channel,
    CompiledGrammar,
    Decision,
    FinishReason,
    Generation,
    Outcome,
    OutputRail,
    Prompt,
    Request,
    ServedModel,
    Timeline,
    TokenLogprob,
    ToolCall,
    Usage,
)
from sluicegate.plugins.frozen import quick

NOTHING = Usage()
PLAIN = Shape(None)
EVERYTHING = Policy()

if TYPE_CHECKING:  # moderation makes deltas, and an exchange holds its moderation
    from sluicegate.gateway.rails.moderation import Moderation
    from sluicegate.gateway.request.slots import Stages


@quick
@dataclass(frozen=True, slots=True)
class Delta:
    """What leaves the gateway next for one choice; `refusal` only together with `finish_reason`. `opened` begins the
    call `call`: its id and name, and no arguments yet."""

    index: int
    text: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()
    finish_reason: FinishReason | None = None
    refusal: str | None = None
    channel: Channel = "content"
    call: int = 0
    opened: ToolCall | None = None


@dataclass(slots=True)
class Exchange:
    """Owned by one task. A field is None until the stage that fills it has run."""

    request: Request
    trace: TraceIds
    started_at: float = field(default_factory=time.perf_counter)
    created_s: int = field(default_factory=lambda: int(time.time()))
    caller: Caller = field(default_factory=Caller)
    model: ServedModel | None = None
    prompt: Prompt | None = None
    question: Question | None = None
    recalls: list[tuple[str, TieredCache, Recall]] = field(default_factory=list)
    """What each cache said, for keeping the answer later."""
    hit: Found | None = None
    seat: Seat[Made] | None = None
    """Its place among equal requests that run at the same time; given up when the exchange is closed."""
    unarranged: Request | None = None
    """The request before documents were fitted to the model, if it has any."""
    ticket: QueueTicket | None = None
    """At its model, where that has a queue; given back when the exchange is closed."""
    awaited: Awaited | None = None
    """Its first text, where load is shed by how those come."""
    failed: list[str] = field(default_factory=list)
    """Models that could not answer it."""
    cached: tuple[Answer, ...] | None = None
    shape: Shape = PLAIN
    """What the whole output looks like, thoughts and calls of tools included."""
    grammar: CompiledGrammar | None = None
    tool_grammars: Mapping[str, CompiledGrammar] = field(default_factory=dict)
    """Of the arguments of tools, where another server calls them."""
    generation: Generation | None = None
    spent: Usage = NOTHING
    """What other servers were paid for generations before this one, whose answers nobody got."""
    moderation: Moderation | None = None
    stages: Stages | None = None
    """Those that were in place when it was opened; it ends on them, whatever is configured meanwhile."""
    policy: Policy = EVERYTHING
    route: str = ""
    """The path it came by."""
    lead: str = field(default="", repr=False)
    """The end of what the answer goes on from, as the client sent it: the client joins the two."""
    approved: frozenset[str] = frozenset()
    """Input rails that wanted a person to look, who agreed."""
    restore: dict[str, str] = field(default_factory=dict, repr=False)
    """Placeholders that stand for values which this caller may see."""
    rails: list[tuple[str, OutputRail]] = field(default_factory=list)
    """The output rails that run on it."""
    ignored: tuple[str, ...] = ()
    """Paths of what the caller sent and nobody heeded."""
    unenforced: list[str] = field(default_factory=list)
    """Rails that did not act on it, by slot and name, and why."""
    review: Mapping[str, str] | None = None
    """Where the outcome can be fetched, if part of it waits for a person."""
    decisions: list[Decision] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    thought_tokens: int = 0
    read: Usage = field(default_factory=Usage)
    """What was read where nothing is generated."""
    first_delta_at: float | None = None
    last_delta_at: float = 0.0
    gaps_s: list[float] = field(default_factory=list)
    error: str | None = None
    by_caller: bool = False
    """`error` is the caller's to mend."""
    recorded: bool = False

    @property
    def pinned(self) -> Stages:
        """Only valid once opened."""
        assert self.stages is not None
        return self.stages

    @property
    def served(self) -> ServedModel:
        """The routed model; only valid after `route`."""
        assert self.model is not None
        return self.model

    @property
    def usage(self) -> Usage:
        now = self.generation.usage if self.generation else self.read
        if self.spent == NOTHING:
            return now
        return within_one(self.request, self.served.context_length, added(self.spent, now))

    @property
    def reported_usage(self) -> Usage:
        """What the caller is told of tokens. `usage` is what was computed and is charged: nothing for a kept answer, of
        which the caller still learns its size, every prompt token of it as cached."""
        if self.cached is None:
            return self.usage
        made = self.kept_usage
        remote = bool(getattr(self.model, "remote", False))
        read = made.prompt_tokens if self.prompt is None or remote else len(self.prompt.token_ids)
        return Usage(read, made.completion_tokens, read)

    @property
    def kept_usage(self) -> Usage:
        """What making the kept answer had cost."""
        if self.hit is not None:
            return self.hit.usage
        return self.seat.answers.usage if self.seat is not None and self.seat.answers is not None else Usage()

    @property
    def timeline(self) -> Timeline | None:
        """When the parts of the generation happened, where the generator says so; None for an answer of the cache."""
        found: Any = getattr(self.generation, "timeline", None)
        return found if isinstance(found, Timeline) else None

    @property
    def withholds_tokens(self) -> bool:
        """A rail took something out of an answer, or stopped it, or would have if it had seen all that was drawn (what
        a stop string cut off, the marks around calls): its tokens would spell what the rail withheld."""
        if self.moderation is None or self.moderation.altered:
            return True
        drawn: dict[int, list[str]] = {}
        for step in self.timeline.steps if self.timeline is not None else ():
            drawn.setdefault(step.choice, []).append(step.text)
        return not all(self.moderation.passes("".join(texts)) for texts in drawn.values())

    @property
    def not_enforced(self) -> tuple[str, ...]:
        """What the grammar of this request could not enforce, by name and place (annotations such as an unknown
        `format`), and which rails did not act; said in the answer so that nothing is silently allowed."""
        notes: Any = getattr(self.grammar, "notes", ())
        return (*(str(note) for note in notes), *self.unenforced)

    def released(self) -> None:
        """Text leaves now."""
        now = time.perf_counter()
        if self.first_delta_at is None:
            self.first_delta_at = now
            if self.awaited is not None:
                self.awaited.came()
        else:
            self.gaps_s.append(now - self.last_delta_at)
        self.last_delta_at = now

    def supersede(self) -> None:
        """Another generation takes the place of this one: what another server was asked stays charged."""
        if self.generation is not None and is_remote(self.served):
            self.spent = added(self.spent, self.generation.usage)
        self.generation = None

    def cancel(self) -> None:
        if self.generation is not None:
            self.generation.cancel()

    def outcome(self) -> Outcome:
        now = time.perf_counter()
        return Outcome(
            request=self.request,
            caller=self.caller,
            model=self.model.name if self.model else "",
            answers=tuple(self.answers),
            usage=self.usage,
            decisions=tuple(self.decisions),
            duration_s=now - self.started_at,
            time_to_first_chunk_s=None if self.first_delta_at is None else self.first_delta_at - self.started_at,
            error=self.error,
            cached=self.cached is not None,
            saved=Usage() if self.hit is None else self.hit.usage,
            timeline=self.timeline,
            gaps_s=tuple(self.gaps_s),
            held_s=self.moderation.longest_hold_s if self.moderation else 0.0,
            trace_id=f"{self.trace.trace_id:032x}" if self.trace.sampled else "",
            by_caller=self.by_caller,
        )
