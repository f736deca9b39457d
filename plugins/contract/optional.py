"""Optional Protocols that a stage or a rail's session may implement beside that of its slot.

The registry refuses a stage that implements only part of one: a misspelled method would otherwise pass for a feature
that the stage does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal, Protocol, TypeGuard, TypeVar, runtime_checkable

from sluicegate.plugins.contract.answers import Embeddings, Scores
from sluicegate.plugins.contract.models import (
    Capacity,
    CompiledGrammar,
    Load,
    ServedModel,
    ServerHealth,
    Trouble,
)
from sluicegate.plugins.contract.names import Channel, SlotName
from sluicegate.plugins.contract.requests import Caller, Constraint, Prompt, Request
from sluicegate.plugins.contract.slots import AwaitedSession, OutputRail, RailSession
from sluicegate.plugins.contract.verdicts import JudgingTerms, RailProperties, TokenJudgement, Verdict

P = TypeVar("P")


@runtime_checkable
class Lifecycle(Protocol):
    """For every stage: `start` is awaited before the first request, `close` after the last."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...


@runtime_checkable
class StatsReporter(Protocol):
    """For every stage: metrics for `/metrics`. Names that end in `_total` are counters, others gauges."""

    def stats(self) -> Mapping[str, float]: ...


@runtime_checkable
class TroubleReporter(Protocol):
    """For every stage: current malfunctions, for `/readyz`. Called on the event loop, must not block."""

    def troubles(self) -> Sequence[Trouble]: ...


@runtime_checkable
class DescribedRail(Protocol):
    """For rails of both slots: the rail's declared properties."""

    @property
    def properties(self) -> RailProperties: ...


@runtime_checkable
class RenamingRouter(Protocol):
    """For routers: tell which requested names may be routed to another model, so that fallbacks are known at
    start-up."""

    def decides(self, name: str) -> bool:
        """Return whether a request for `name` may be routed to another model."""


@runtime_checkable
class ThreadedAssembler(Protocol):
    """For assemblers: render long prompts in a worker thread instead of on the event loop."""

    def assembled(self, request: Request, model: ServedModel) -> Prompt:
        """Return the same prompt as `assemble`, synchronously. Called in a worker thread."""


@runtime_checkable
class FairConstrainer(Protocol):
    """For constrainers: compile grammars in turns by tenant, so that no tenant waits for another's queue."""

    async def compile_for(self, tenant: str, constraint: Constraint, model: ServedModel) -> CompiledGrammar:
        """Compile as `compile` does, in the tenant's turn. Raises `RateLimited` too, where too much of the tenant's
        work waits."""


@runtime_checkable
class WarmConstrainer(Protocol):
    """For constrainers: do at start-up the work that the first request would otherwise wait for."""

    async def warm(self, model: ServedModel) -> None: ...


@runtime_checkable
class LoadReporter(Protocol):
    """For generators: queue figures from which admission sheds load and computes `Retry-After`."""

    def load(self, model: str | None = None) -> Load:
        """Return how busy a model is (None: the first one served). Raises `NotFound`."""


@runtime_checkable
class HealthReporter(Protocol):
    """For generators that call other servers: the health of those servers, for the console."""

    def health(self, model: str) -> Sequence[ServerHealth]:
        """Return the health of each server that runs `model`. Raises `NotFound`."""


@runtime_checkable
class StartReporter(Protocol):
    """For generators: progress of `start`."""

    def starting(self) -> str:
        """Return the progress in a few words, for `/readyz`; '' = nothing to report."""


@runtime_checkable
class CapacityReporter(Protocol):
    """For generators: cache and adapter state for endpoint pickers. Called on the event loop, must not block."""

    def capacity(self) -> Capacity: ...


@runtime_checkable
class TextEmbedder(Protocol):
    """For generators: embed texts, or token ids, as vectors. Raises `NotFound`, `RequestError`, `Overloaded`."""

    async def embed(self, texts: Sequence[str | Sequence[int]], *, model: str | None = None) -> Embeddings:
        """Embed the texts; `model` None = the first one served."""


@runtime_checkable
class TextScorer(Protocol):
    """For generators: score how well texts answer a query. Raises `NotFound`, `RequestError`, `Overloaded`."""

    async def score(self, query: str, texts: Sequence[str], *, model: str | None = None) -> Scores:
        """Score the texts; `model` None = the first one that scores."""


@runtime_checkable
class ReadingModel(Protocol):
    """For models that read texts and generate none: embedders, rerankers and guards."""

    @property
    def reads_for(self) -> Literal["embed", "score", "judge"]:
        """Return the model's task: `embed` vectors, `score` texts for a query, or `judge` tokens (see
        `TokenGuardHost`)."""

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Return the vector lengths that a request may ask for, the model's own first."""

    @property
    def normalises(self) -> bool:
        """Return whether vectors have length 1; shortened vectors are then normalised too."""


class TokenReading(Protocol):
    """One text that a guard model reads; tokens are only ever appended. Used by one task at a time. Its KV blocks are
    freed when the object is garbage-collected."""

    @property
    def room(self) -> int:
        """Return the most tokens that the whole text may have."""

    async def judge(self, token_ids: Sequence[int], last: int, *, asked: bool = False) -> Sequence[TokenJudgement]:
        """Append tokens and judge the last `last` of them, as part of an answer, or with `asked` as the end of a
        question. Raises `ContextLengthExceeded`, `Overloaded`, and `GenerationFailed` where the guard's numbers are not
        finite."""


@runtime_checkable
class TokenGuardHost(Protocol):
    """For generators: models that judge tokens (`ReadingModel.reads_for` is `judge`)."""

    def open_reading(self, model: str, tenant: str) -> TokenReading:
        """Begin a text. KV blocks are kept between calls, and reused only for texts of this tenant. Raises `NotFound`,
        or `RequestError` for a model that judges no tokens."""


@runtime_checkable
class ModelHost(Protocol):
    """For generators: load and remove models while requests run."""

    async def add_model(self, settings: Any, *, replace: bool = False) -> ServedModel:
        """Load a model beside those that run, then serve it. `replace`: running requests finish on the old model of
        that name. Raises `ModelLoadError`, `ConfigurationError`, or `RequestError` where the name is taken; nothing has
        changed then."""

    async def remove_model(self, name: str, *, drain_s: float | None = None) -> None:
        """Remove a model: new requests do not find it; running ones may finish for `drain_s` seconds. Raises
        `NotFound`."""


@runtime_checkable
class PlacedRail(Protocol):
    """For output rails: judge each string of a tool call by the argument that it belongs to."""

    def at_place(self, tool: str, path: tuple[str | int, ...]) -> OutputRail:
        """Return the rail, under the same name, for the string or number at `path` in the arguments of a call of
        `tool`. Object keys are judged by `open` of the rail itself."""


@runtime_checkable
class CuttableSession(RailSession, Protocol):
    """A rail's session that treats a truncated text (length limit, stop string) differently from a complete one."""

    def cut(self) -> Verdict:
        """End a truncated text; called in place of `close`. An unfinished match that already reveals too much can be
        redacted here."""


@runtime_checkable
class ClearingSession(RailSession, Protocol):
    """A rail's session that can judge a whole text at once, faster than by `feed`."""

    def clears(self, text: str) -> bool:
        """Return True only where `feed` and `close` would neither block, redact nor escalate if `text` were the whole
        of the channel. Leaves the session as it was."""


@runtime_checkable
class ContinuableSession(RailSession, Protocol):
    """A rail's session that can judge a continuation of text that the client already has."""

    def after(self, lead: str) -> RailSession:
        """Return a fresh session for the text that follows `lead`, with offsets from its beginning. A match that begins
        in the lead and ends in the new text is reported from offset 0."""


@runtime_checkable
class JudgingRail(Protocol):
    """For output rails: judge whole texts asynchronously, ahead of all synchronous rails. Such a rail blocks or
    escalates and redacts nothing; it reads JSON as one text, with its escapes decoded."""

    def follow(self, request: Request, caller: Caller, channel: Channel, terms: JudgingTerms) -> AwaitedSession:
        """Return a session for one text of the answer to `request`. Called in place of `open` wherever an answer is
        judged."""


OPTIONAL: Mapping[SlotName, tuple[type, ...]] = {
    "admit": (),
    "screen": (),
    "route": (RenamingRouter,),
    "retrieve": (),
    "assemble": (ThreadedAssembler,),
    "recall": (),
    "constrain": (FairConstrainer, WarmConstrainer),
    "generate": (
        LoadReporter,
        HealthReporter,
        CapacityReporter,
        StartReporter,
        TextEmbedder,
        TextScorer,
        TokenGuardHost,
        ModelHost,
    ),
    "moderate": (JudgingRail, PlacedRail),
    "record": (),
}
"""What a stage of each slot may offer in addition to `Lifecycle`, `StatsReporter`, `TroubleReporter` and, for rails,
`DescribedRail`."""


@cache
def methods_of(protocol: type) -> tuple[str, ...]:
    """Return the names of the methods, or properties, that an optional Protocol adds."""
    return tuple(name for name in vars(protocol) if not name.startswith("_"))


def offers(thing: object, protocol: type[P]) -> TypeGuard[P]:
    """Return whether `thing` has the methods that `protocol` adds. Fast enough for every stream: `isinstance` takes 10
    us."""
    for name in methods_of(protocol):  # type: ignore[arg-type]  # noqa: SIM110  # half the time of a generator
        if not callable(getattr(thing, name, None)):
            return False
    return True


def shows(thing: object, protocol: type[P]) -> TypeGuard[P]:
    """Return whether `thing` has the attributes that `protocol` adds; as `offers`, for Protocols of properties."""
    for name in methods_of(protocol):  # type: ignore[arg-type]  # noqa: SIM110
        if not hasattr(thing, name):
            return False
    return True


def properties_of(rail: object) -> RailProperties | None:
    """Return a rail's declared properties; None where it declares none."""
    found = getattr(rail, "properties", None)  # each text asks, and a runtime check of a Protocol is slow
    return found if isinstance(found, RailProperties) else None
