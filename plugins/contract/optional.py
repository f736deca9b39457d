"""What a stage or a rail's session may offer besides the Protocol of its slot.

None of these is required. The registry refuses a stage that has part of one, so that a slip is not taken for "does not
offer it".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol, TypeGuard, TypeVar, runtime_checkable

from sluicegate.plugins.contract.answers import Embeddings
from sluicegate.plugins.contract.models import Capacity, CompiledGrammar, Load, ServedModel, Trouble
from sluicegate.plugins.contract.names import Channel, SlotName
from sluicegate.plugins.contract.requests import Caller, Constraint, Prompt, Request
from sluicegate.plugins.contract.slots import AwaitedSession, OutputRail, RailSession
from sluicegate.plugins.contract.verdicts import JudgingTerms, RailProperties, Verdict

P = TypeVar("P")


@runtime_checkable
class Lifecycle(Protocol):
    """For every stage: `start` is awaited before the first request, `close` after the last."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...


@runtime_checkable
class StatsReporter(Protocol):
    """For every stage: numbers for `/metrics`. Names that end in `_total` are counters, others gauges."""

    def stats(self) -> Mapping[str, float]: ...


@runtime_checkable
class TroubleReporter(Protocol):
    """For every stage: what does not work now, for `/readyz`. Called on the event loop, must not wait."""

    def troubles(self) -> Sequence[Trouble]: ...


@runtime_checkable
class DescribedRail(Protocol):
    """For rails of both slots: what the rail says of itself."""

    @property
    def properties(self) -> RailProperties: ...


@runtime_checkable
class RenamingRouter(Protocol):
    """For routers: say which requested names can end at another model, so that fallbacks are known beforehand."""

    def decides(self, name: str) -> bool:
        """Whether `name` may come to stand for another model."""


@runtime_checkable
class ThreadedAssembler(Protocol):
    """For assemblers: render long prompts in a worker thread instead of on the event loop."""

    def assembled(self, request: Request, model: ServedModel) -> Prompt:
        """As `assemble`, without awaiting anything."""


@runtime_checkable
class FairConstrainer(Protocol):
    """For constrainers: compile in the turn of a tenant, so that none waits for what another one sends."""

    async def compile_for(self, tenant: str, constraint: Constraint, model: ServedModel) -> CompiledGrammar:
        """As `compile`; raises `RateLimited` besides, where too much of the tenant's work waits."""


@runtime_checkable
class WarmConstrainer(Protocol):
    """For constrainers: prepare at start-up what the first request would otherwise wait for."""

    async def warm(self, model: ServedModel) -> None: ...


@runtime_checkable
class LoadReporter(Protocol):
    """For generators: what admission needs to shed load with a truthful `Retry-After`."""

    def load(self, model: str | None = None) -> Load:
        """`model` None = the first one served. Raises `NotFound`."""


@runtime_checkable
class StartReporter(Protocol):
    """For generators: how far `start` is, for whoever waits for it."""

    def starting(self) -> str:
        """A few words, which `/readyz` shows; '' = nothing to say."""


@runtime_checkable
class CapacityReporter(Protocol):
    """For generators: what endpoint pickers place requests by. Called on the event loop, must not wait."""

    def capacity(self) -> Capacity: ...


@runtime_checkable
class TextEmbedder(Protocol):
    """For generators: texts, or token ids, as vectors. Raises `NotFound`, `RequestError`, `Overloaded`."""

    async def embed(self, texts: Sequence[str | Sequence[int]], *, model: str | None = None) -> Embeddings:
        """`model` None = the first one served."""


@runtime_checkable
class ModelHost(Protocol):
    """For generators: models that come and go while requests run."""

    async def add_model(self, settings: Any, *, replace: bool = False) -> ServedModel:
        """Load beside what runs, then serve. `replace`: requests that run finish on the old model. Raises
        `ModelLoadError`, `ConfigurationError`, or `RequestError` where the name is taken; nothing has changed then."""

    async def remove_model(self, name: str, *, drain_s: float | None = None) -> None:
        """New requests do not find it; those that run may finish for `drain_s`. Raises `NotFound`."""


@runtime_checkable
class PlacedRail(Protocol):
    """For output rails: judge a string of a tool call by the argument that it is."""

    def at_place(self, tool: str, path: tuple[str | int, ...]) -> OutputRail:
        """The rail, of the same name, for the string or number at `path` of the arguments of a call of `tool`. A key is
        judged by `open` of the rail itself."""


@runtime_checkable
class CuttableSession(RailSession, Protocol):
    """A rail's session that treats a text cut short, by its length or a stop string, in its own way."""

    def cut(self) -> Verdict:
        """Called in place of `close`: what has begun, and already tells too much, can be redacted here."""


@runtime_checkable
class ClearingSession(RailSession, Protocol):
    """A rail's session that can judge a whole text at once, faster than by feeding it."""

    def clears(self, text: str) -> bool:
        """True only where `feed` and `close` would neither block, redact nor escalate if `text` were the whole of the
        channel. Leaves the session as it was."""


@runtime_checkable
class ContinuableSession(RailSession, Protocol):
    """A rail's session that can judge what follows a text that the reader already has."""

    def after(self, lead: str) -> RailSession:
        """A fresh session for what follows `lead`; offsets are those of the new text. Reports what begins in the lead
        and ends behind it as beginning at 0."""


@runtime_checkable
class JudgingRail(Protocol):
    """For output rails: judge whole texts in their own time, in front of all rails that answer at once. Such a rail
    blocks or escalates and redacts nothing; it reads JSON as one text, with its escapes decoded."""

    def follow(self, request: Request, caller: Caller, channel: Channel, terms: JudgingTerms) -> AwaitedSession:
        """A session for one text of the answer to `request`; takes the place of `open` wherever an answer is judged."""


OPTIONAL: Mapping[SlotName, tuple[type, ...]] = {
    "admit": (),
    "screen": (),
    "route": (RenamingRouter,),
    "assemble": (ThreadedAssembler,),
    "recall": (),
    "constrain": (FairConstrainer, WarmConstrainer),
    "generate": (LoadReporter, CapacityReporter, StartReporter, TextEmbedder, ModelHost),
    "moderate": (JudgingRail, PlacedRail),
    "record": (),
}
"""What a stage of each slot may offer, beside `Lifecycle`, `StatsReporter`, `TroubleReporter` and, for rails,
`DescribedRail`."""


@cache
def methods_of(protocol: type) -> tuple[str, ...]:
    """Names of the methods that an optional Protocol adds."""
    return tuple(name for name in vars(protocol) if not name.startswith("_"))


def offers(thing: object, protocol: type[P]) -> TypeGuard[P]:
    """Whether `thing` has the methods that `protocol` adds. Fast enough for every stream: `isinstance` takes 10 us."""
    return all(callable(getattr(thing, name, None)) for name in methods_of(protocol))  # type: ignore[arg-type]


def properties_of(rail: object) -> RailProperties | None:
    """What a rail says of itself; None where it says nothing."""
    found = rail.properties if isinstance(rail, DescribedRail) else None
    return found if isinstance(found, RailProperties) else None
