"""What stages may use of a grammar, of a loaded model, and of a running generation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from sluicegate.plugins.contract.answers import Piece, Usage
from sluicegate.plugins.contract.names import Mask
from sluicegate.plugins.contract.requests import Prompt, Request, Sampling
from sluicegate.plugins.frozen import quick
from sluicegate.plugins.timeline import Timeline


class ClosingTokens(Protocol):
    @property
    def tokens(self) -> Sequence[int]: ...


@runtime_checkable
class Matcher(Protocol):
    """The state of one sequence in a grammar. Not thread-safe; used by one thread at a time."""

    @property
    def worked_s(self) -> float:
        """Return the CPU seconds spent in all calls that computed something; 0 where that is not measured."""

    def bound(self, cpu_s: float, *, wait: bool = True, pause: Callable[[], None] | None = None) -> None:
        """Limit the CPU time of one call: past `cpu_s` seconds `fill_mask` and `accept` raise `GrammarTooCostly`, and
        may then be called again. `wait`: whether a call waits for other matchers of the grammar that compute; `pause`
        is called now and then during a long call. A matcher whose calls are always short may ignore this."""

    def fill_mask(self, row: Mask) -> bool:
        """Overwrite `row`, a token bitmask int32 [ceil(V/32)]. Return False where every token is allowed and the mask
        need not be applied."""

    def accept(self, token_id: int) -> None:
        """Advance by one token. Raises `TokenRejected` where the grammar refuses it; the state is then unchanged."""

    def rollback(self, n: int) -> None:
        """Undo the last `n` accepted tokens. Later masks are bit-identical to those before these tokens."""

    def forced_tokens(self) -> list[int]:
        """Return the tokens that the grammar leaves no choice about from here, in canonical tokenisation; [] where
        unsure."""

    def shortest_completion(self) -> ClosingTokens | None:
        """Return the shortest completion found that ends validly; None where none was found. Leaves the state
        unchanged."""

    @property
    def can_stop(self) -> bool:
        """Return whether the accepted text is a complete value, so that an end-of-sequence token is allowed."""

    @property
    def is_finished(self) -> bool:
        """Return whether an end-of-sequence token was accepted, or nothing but one may follow."""


@runtime_checkable
class CompiledGrammar(Protocol):
    """Immutable; shared between requests and threads."""

    @property
    def notes(self) -> Sequence[str]:
        """Return the constraints that the grammar could not enforce, by name and place, for the response to report."""

    def matcher(self) -> Matcher: ...


@dataclass(frozen=True, slots=True)
class Capacity:
    """Cache and adapter state for an endpoint picker that routes by prefix and adapter. Adapters are given by name."""

    block_size: int
    """Positions of a KV block."""
    num_blocks: int
    """KV blocks of all models together."""
    adapters: int = 0
    """Number of loaded adapters; all of them can run at the same time."""
    running: tuple[str, ...] = ()
    """Adapters whose requests are being computed."""
    waiting: tuple[str, ...] = ()
    """Adapters whose requests all wait."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A current malfunction. `reason`: the fault and its remedy, in words that contain no secret."""

    reason: str
    refuses: bool = False
    """Whether requests that need the part are refused as long as the trouble lasts."""


class ServedModel(Protocol):
    """What stages may know of a model, loaded here or run by another server."""

    name: str
    version: str
    context_length: int
    vocab_size: int
    """Columns of the logits, the padded vocabulary."""
    eos_token_ids: tuple[int, ...]
    tokenizer: Any
    """A `transformers` tokenizer."""
    default_temperature: float
    """Temperature of requests that set none; 0 = greedy."""
    defaults: Mapping[str, float]
    """Other attributes of `Sampling` that the model's own configuration sets, for requests that leave them out."""
    notes: tuple[str, ...]
    """Sentences for operators on how the model is served."""
    remote: bool
    """Another server runs it and renders its prompts. Its `tokenizer` has one token per byte, and the local grammar
    validates its answers."""

    @property
    def base(self) -> str | None:
        """Name of the model that this one is an adapter of."""


@runtime_checkable
class ProbedModel(Protocol):
    """A `ServedModel` with probes on its hidden states."""

    @property
    def probe_labels(self) -> tuple[str, ...]:
        """Return the labels that the probes detect; empty where the model has none."""


@quick
@dataclass(frozen=True, slots=True)
class Job:
    """A generation to run: one prompt, `n` choices."""

    request_id: str
    model: str
    prompt: Prompt
    sampling: Sampling
    grammar: CompiledGrammar | None = None
    n: int = 1
    tenant: str = "anonymous"
    priority: int = 0
    explain: bool = False
    """Describe every token in the generation's `timeline`."""
    probed: bool = False
    """Have the model's probes score every token (`Piece.probed`); a model without probes ignores it."""
    by_sentence: bool = False
    """Whoever reads the answer holds its text to the end of a sentence or line: probed pieces may be joined."""
    scores_behind: bool = False
    """Nobody waits for the probes' scores: text may leave before them, and they follow (`Piece.behind`)."""
    traceparent: str = ""
    """W3C trace context of the request, for generators that pass it on to another process."""
    deadline_s: float | None = None
    """Seconds from now after which the answer is no longer wanted; None = no limit."""
    version: str | None = None
    """Version of the model that prompt and grammar were made for; any other version is refused. None = any."""
    request: Request | None = None
    """The request, for generators that pass it on to another server."""
    tool_grammars: Mapping[str, CompiledGrammar] = field(default_factory=dict)
    """Grammars of tools' arguments by tool name, for generators that recognise calls themselves. The arguments of a
    tool without one are validated when they are complete."""


class Generation(Protocol):
    """A running generation. Iteration yields pieces of all choices as they are generated; each choice ends with a piece
    that has a `finish_reason`, and the iteration ends after the last."""

    @property
    def timeline(self) -> Timeline | None:
        """Return the times of the generation's phases; None = not known."""

    async def begin(self) -> None:
        """Prepare the generation. Awaited once, before the first piece: an error raised here can still become an HTTP
        status. After it `usage` is right, however the generation ends."""

    def __aiter__(self) -> AsyncIterator[Piece]: ...

    def cancel(self) -> None:
        """Stop the generation and free its KV blocks within one engine step. Idempotent; callable any time from the
        event loop."""

    @property
    def usage(self) -> Usage: ...


@dataclass(frozen=True, slots=True)
class ServerHealth:
    """How the last requests to a server went. `left_alone`: its breaker is open, and it is tried again in `wait_s`."""

    server: str
    state: Literal["well", "failing", "left_alone"]
    running: int
    failures_in_a_row: int
    failures: int
    """Failures since the start."""
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a generator is with one model. `wait_s`: an estimate of what a request that comes now would wait."""

    running: int
    waiting: int
    """Sequences before a new one, unless tenants take turns."""
    free_blocks: int
    total_blocks: int
    wait_s: float
