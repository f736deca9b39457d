"""One narrow Protocol for each slot of the pipeline, in its order; `optional` holds what a stage may offer besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sluicegate.plugins.contract.answers import Answer, CacheKey, Outcome
from sluicegate.plugins.contract.models import CompiledGrammar, Generation, Job, ServedModel
from sluicegate.plugins.contract.names import Channel
from sluicegate.plugins.contract.requests import Caller, Constraint, Document, Prompt, Request
from sluicegate.plugins.contract.verdicts import ScreenResult, Verdict


class Admitter(Protocol):
    """Slot `admit`. Stages run in order; each gets the caller found so far. Raises a `RequestError` to refuse."""

    async def admit(self, request: Request, caller: Caller) -> Caller: ...


class InputRail(Protocol):
    """Slot `screen`. Sees the request before anything is generated: `texts_of(request)` is all of it that a model may
    come to read."""

    async def screen(self, request: Request, caller: Caller) -> ScreenResult: ...


class Router(Protocol):
    """Slot `route`. Names one of `models`, or raises `NotFound` listing them."""

    async def route(self, request: Request, caller: Caller, models: Mapping[str, ServedModel]) -> str: ...


class Retriever(Protocol):
    """Slot `retrieve`. Finds documents for the request's last message (`question_of`), best first, which the input
    rails have read already; what it finds is screened after it. Raises where it could not look: nothing found is an
    empty sequence."""

    async def retrieve(self, request: Request, caller: Caller) -> Sequence[Document]: ...


class Assembler(Protocol):
    """Slot `assemble`. Raises `ContextLengthExceeded` with both numbers when the prompt does not fit."""

    async def assemble(self, request: Request, model: ServedModel) -> Prompt: ...


class ResponseCache(Protocol):
    """Slot `recall`. A store that is down answers None and is counted; it never raises into a request."""

    async def look_up(self, key: CacheKey) -> tuple[Answer, ...] | None: ...

    async def store(self, key: CacheKey, answers: tuple[Answer, ...]) -> None: ...


class Constrainer(Protocol):
    """Slot `constrain`. Compiles off the event loop; raises a `GrammarError` with a JSON pointer."""

    @property
    def unconstrained(self) -> Constraint | None:
        """Return what stands in for a request without a constraint, such as a blocklist over free text; None = nothing.
        A stage around another one passes it on."""

    async def compile(self, constraint: Constraint, model: ServedModel) -> CompiledGrammar: ...


class Generator(Protocol):
    """Slot `generate`. Raises `Overloaded` where it will not queue the job."""

    @property
    def models(self) -> Mapping[str, ServedModel]: ...

    async def generate(self, job: Job) -> Generation: ...

    def stats(self) -> Mapping[str, float]:
        """Return gauges by name: at least `requests_running`, `requests_waiting`, `kv_cache_usage_ratio` (0..1)."""


class RailSession(Protocol):
    """One channel of one choice of one request. `feed` is given consecutive text; offsets in the verdict are absolute.

    The law: verdicts, taken together, do not depend on how the text was cut into chunks.
    """

    def feed(self, text: str) -> Verdict: ...

    def close(self) -> Verdict:
        """Settle everything, as no more text will come (`clear_to` = length of the text, or block)."""


class AwaitedSession(Protocol):
    """As `RailSession`, judged elsewhere: by a model, in a thread, behind an address. The same law holds, and nothing
    leaves while a call is awaited. It may be cancelled."""

    async def feed(self, text: str) -> Verdict: ...

    async def close(self) -> Verdict: ...


class OutputRail(Protocol):
    """Slot `moderate`. A factory of sessions. `name` is the name it is registered under."""

    name: str

    def open(self, request: Request, caller: Caller, channel: Channel) -> RailSession: ...


class Recorder(Protocol):
    """Slot `record`. Called once for every request, however it ended. Its failure never reaches the client."""

    async def record(self, outcome: Outcome) -> None: ...


Stage = (
    Admitter
    | InputRail
    | Router
    | Retriever
    | Assembler
    | ResponseCache
    | Constrainer
    | Generator
    | OutputRail
    | Recorder
)
