"""One narrow Protocol for each slot of the pipeline, in its order, and what a stage may offer besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from sluicegate.plugins.contract.answers import Answer, CacheKey, Embeddings, Outcome
from sluicegate.plugins.contract.models import CompiledGrammar, Generation, Job, Load, ServedModel
from sluicegate.plugins.contract.names import Channel
from sluicegate.plugins.contract.requests import Caller, Constraint, Prompt, Request
from sluicegate.plugins.contract.verdicts import ScreenResult, Verdict


class Admitter(Protocol):
    """Slot `admit`. Stages run in order; each gets the caller found so far. Raises a `RequestError` to refuse."""

    async def admit(self, request: Request, caller: Caller) -> Caller: ...


class InputRail(Protocol):
    """Slot `screen`. Sees the request before anything is generated: `texts_of(request)` is all of it that a model may
    come to read. May say `properties: RailProperties`."""

    async def screen(self, request: Request, caller: Caller) -> ScreenResult: ...


class Router(Protocol):
    """Slot `route`. Names one of `models`, or raises `NotFound` listing them."""

    async def route(self, request: Request, caller: Caller, models: Mapping[str, ServedModel]) -> str: ...


class Assembler(Protocol):
    """Slot `assemble`. Raises `ContextLengthExceeded` with both numbers when the prompt does not fit."""

    async def assemble(self, request: Request, model: ServedModel) -> Prompt: ...


class ResponseCache(Protocol):
    """Slot `recall`. A store that is down answers None and is counted; it never raises into a request."""

    async def look_up(self, key: CacheKey) -> tuple[Answer, ...] | None: ...

    async def store(self, key: CacheKey, answers: tuple[Answer, ...]) -> None: ...


class Constrainer(Protocol):
    """Slot `constrain`. Compiles off the event loop; raises a `GrammarError` with a JSON pointer."""

    async def compile(self, constraint: Constraint, model: ServedModel) -> CompiledGrammar: ...


@runtime_checkable
class FairConstrainer(Protocol):
    """Optional for constrainers: compile in the turn of a tenant, so that none waits for what another one sends."""

    async def compile_for(self, tenant: str, constraint: Constraint, model: ServedModel) -> CompiledGrammar:
        """As `compile`; raises `RateLimited` besides, where too much of the tenant's work waits."""


class Generator(Protocol):
    """Slot `generate`. Raises `Overloaded` where it will not queue the job."""

    @property
    def models(self) -> Mapping[str, ServedModel]: ...

    async def generate(self, job: Job) -> Generation: ...

    def stats(self) -> Mapping[str, float]:
        """Gauges by name: at least `requests_running`, `requests_waiting`, `kv_cache_usage_ratio` (0..1)."""


@runtime_checkable
class LoadReporter(Protocol):
    """Optional for generators: what admission needs to shed load with a truthful `Retry-After`."""

    def load(self, model: str | None = None) -> Load:
        """`model` None = the first one served. Raises `NotFound`."""


@runtime_checkable
class TextEmbedder(Protocol):
    """Optional for generators: texts, or token ids, as vectors. Raises `NotFound`, `RequestError`, `Overloaded`."""

    async def embed(self, texts: Sequence[str | Sequence[int]], *, model: str | None = None) -> Embeddings:
        """`model` None = the first one served."""


@runtime_checkable
class ModelHost(Protocol):
    """Optional for generators: models that come and go while requests run."""

    async def add_model(self, settings: Any, *, replace: bool = False) -> ServedModel:
        """Load beside what runs, then serve. `replace`: requests that run finish on the old model. Raises
        `ModelLoadError`, `ConfigurationError`, or `RequestError` where the name is taken; nothing has changed then."""

    async def remove_model(self, name: str, *, drain_s: float | None = None) -> None:
        """New requests do not find it; those that run may finish for `drain_s`. Raises `NotFound`."""


class RailSession(Protocol):
    """One channel of one choice of one request. `feed` is given consecutive text; offsets in the verdict are absolute.

    The law: verdicts, taken together, do not depend on how the text was cut into chunks.

    A session may have `clears(text) -> bool`: there is nothing to say of `text`, if it is the whole of the channel. It
    leaves the session as it was, and answers True only where `feed` and `close` would neither block, redact nor ask.
    """

    def feed(self, text: str) -> Verdict: ...

    def close(self) -> Verdict:
        """No more text will come: settle everything (`clear_to` = length of the text, or block)."""


class OutputRail(Protocol):
    """Slot `moderate`. A factory of sessions. `name` is the name it is registered under; may say
    `properties: RailProperties`."""

    name: str

    def open(self, request: Request, caller: Caller, channel: Channel) -> RailSession: ...


class Recorder(Protocol):
    """Slot `record`. Called once for every request, however it ended. Its failure never reaches the client."""

    async def record(self, outcome: Outcome) -> None: ...


@runtime_checkable
class Lifecycle(Protocol):
    """Optional for every stage: `start` is awaited before the first request, `close` after the last."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...


Stage = Admitter | InputRail | Router | Assembler | ResponseCache | Constrainer | Generator | OutputRail | Recorder
