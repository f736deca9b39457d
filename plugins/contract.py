"""What the slots of the pipeline promise each other: facts about a request, and one narrow Protocol per slot.

    admit -> screen -> route -> assemble -> recall -> constrain -> generate -> moderate -> record

Facts are frozen. A stage gets what it needs and returns what it decides; only the pipeline keeps state of a request.
This module imports none of ours but the errors, so that a plug-in needs nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
import numpy.typing as npt

from plugins.facts import quick
from plugins.timeline import Timeline

API_VERSION = 1
"""Raised when a Protocol here changes shape; a plug-in that names another version is refused with both numbers."""

SlotName = Literal["admit", "screen", "route", "assemble", "recall", "constrain", "generate", "moderate", "record"]
SLOTS: tuple[SlotName, ...] = get_args(SlotName)

Role = Literal["system", "developer", "user", "assistant", "tool"]
Channel = Literal["content", "reasoning", "tool_arguments"]
FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "cancelled", "error"]
ConstraintKind = Literal["json_schema", "json_object", "regex", "choice", "lark", "structural_tag", "text"]
Mask = npt.NDArray[np.int32]
"""Token bitmask, int32 [ceil(V/32)]: bit `t % 32` of word `t // 32` is 1 where token `t` is allowed."""


# --- what a request is ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolCall:
    """`arguments` is JSON text; in a stream it comes in pieces, and is empty where the call begins."""

    id: str
    name: str
    arguments: str = ""


@quick
@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    content: str
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    """Of an assistant: what it asked to be called."""
    tool_call_id: str | None = None
    """Of a tool: the call that this is the result of."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may ask the caller to call. `parameters`: the JSON schema of its arguments."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})


@quick
@dataclass(frozen=True, slots=True)
class ToolChoice:
    """`required`: at least one call. `names`: the only tools that may be called; None = all of the request's."""

    mode: Literal["none", "auto", "required"] = "auto"
    names: frozenset[str] | None = None
    parallel: bool = True
    """More than one call in an answer is allowed."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """What shape the answer must have. `value`: schema dict | None | pattern | sequence of strings | grammar text |
    structural tag (a dict, see docs/grammar.md)."""

    kind: ConstraintKind
    value: Any = None
    name: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the compiler by name (`whitespace`, `property_order` ...); an unknown one is refused."""


@quick
@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn. Defaults are those of the OpenAI API, except that `temperature` None = the model's own."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: int | None = None
    """None = none; k >= 0 = the chosen token's logprob and those of the k likeliest tokens."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    min_tokens: int = 0
    ignore_eos: bool = False
    typical_p: float = 1.0
    """Locally typical sampling: keep this much of the mass, nearest to the expected surprise first; 1 = off."""
    bad_words: tuple[str, ...] = ()
    """Never answered, as the tokenizer spells them with and without a space before."""
    best_of: int | None = None
    """The `n` best of so many choices, by mean logprob; with beam search, the number of beams. None = `n`."""
    use_beam_search: bool = False
    """Search for the likeliest answers instead of drawing; `temperature` and what narrows a draw mean nothing then."""
    length_penalty: float = 1.0
    """Beams are ranked by logprob / length ** length_penalty."""
    early_stopping: bool | Literal["never"] = False
    """Stop when there are as many finished beams as asked for (true), when a better one is unlikely, or impossible."""
    beam_groups: int = 1
    """Beams are searched in so many groups that avoid each other's tokens."""
    diversity_penalty: float = 0.0
    """Taken from a token's score for each group before that chose it in the same step."""
    close_on_length: bool = False
    """A constrained answer that runs out of tokens is brought to its shortest valid end within `max_tokens`."""


@quick
@dataclass(frozen=True, slots=True)
class Reuse:
    """What a request says about kept answers. `semantic`: whether one to the same question in other words will do
    (None: as the operator set it for the model); `threshold`: the least cosine for that, in (0, 1]; `tags`: names by
    which the answer can be withdrawn later."""

    semantic: bool | None = None
    threshold: float | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """Context that the caller found for the question. `score`: how good, in the caller's own measure."""

    text: str
    source: str = ""
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class Parts:
    """What a prompt is made of beside the messages. `template`: `name@version`, or `name` for the newest."""

    template: str = ""
    variables: Mapping[str, Any] = field(default_factory=dict)
    documents: tuple[Document, ...] = ()
    context_tokens: int | None = None
    """For all documents together; None = as the template or the operator says."""
    version: str = ""
    """Of the template that was found, with a digest of its text."""


@quick
@dataclass(frozen=True, slots=True)
class Request:
    """One chat completion as asked for, free of any wire format."""

    id: str
    model: str
    messages: tuple[Message, ...]
    sampling: Sampling = Sampling()
    constraint: Constraint | None = None
    n: int = 1
    stream: bool = False
    user: str | None = None
    api_key: str | None = field(default=None, repr=False)
    on_behalf_of: str | None = None
    """Id of the key that was checked when this was asked for, where it runs later (a batch's); never from the wire."""
    priority: int = 0
    """Lower runs first; 0 = interactive, 10 = batch."""
    deadline_s: float | None = None
    """Seconds that generating may take, waiting included; past them the request ends with `DeadlineExceeded`."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    cache: bool = True
    """False: neither look for a kept answer nor keep this one."""
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    reasoning: bool = False
    """The model thinks aloud first, in a channel of its own."""
    raw: bool = False
    """The one message is the prompt itself: no chat template is put around it."""

    @property
    def callable_tools(self) -> tuple[Tool, ...]:
        """Those that `tool_choice` lets the model call."""
        choice = self.tool_choice
        if choice.mode == "none":
            return ()
        return tuple(tool for tool in self.tools if choice.names is None or tool.name in choice.names)

    reuse: Reuse = Reuse()
    parts: Parts | None = None
    """Template, variables and context documents, where the prompt is to be made of more than the messages."""
    explain: bool = False
    """The caller wants to know how the answer came about: what stages decided, and what stood behind each token."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as `admit` found out. `tenant` scopes caches and prefix blocks."""

    tenant: str = "anonymous"
    key_id: str | None = None
    scopes: frozenset[str] = frozenset()
    """What the key may do besides asking models; "admin" may do everything under `/admin`."""
    team: str | None = None
    models: frozenset[str] | None = None
    """Names of the models it may ask; None = all."""
    tools: frozenset[str] | None = None
    """Names of the tools it may let a model call; None = all."""
    rails: frozenset[str] = frozenset()
    """Names of rails without which it is not served."""
    routes: frozenset[str] | None = None
    """Paths it may call, `*` at the end for all below; None = all."""


@quick
@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model will read. `text` was tokenised to `token_ids` with no special tokens added."""

    text: str
    token_ids: tuple[int, ...]


# --- what comes out ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    token_id: int
    token: str
    data: bytes
    """The token's exact bytes (a token may hold part of a code point)."""
    logprob: float
    top: tuple[tuple[int, str, bytes, float], ...] = ()
    """(token_id, token, bytes, logprob), likeliest first."""


@quick
@dataclass(frozen=True, slots=True)
class Piece:
    """A step of one choice: text that became final (whole code points), and, on the last one, why it ended."""

    index: int
    text: str = ""
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    finish_reason: FinishReason | None = None
    channel: Channel = "content"
    call: int = 0
    """Which call of its choice, where the channel is `tool_arguments`."""
    tool: str | None = None
    """Name of the tool, on the first piece of a call."""
    closed: bool = False
    """On the last piece: what was said last is only the shortest valid end, because no more tokens were left."""


@quick
@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens whose KV blocks were reused."""


@dataclass(frozen=True, slots=True)
class Span:
    """Characters [start, end) of a channel's decoded text, absolute offsets."""

    start: int
    end: int
    reason: str
    replacement: str = "[REDACTED]"


@quick
@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rail says about the text so far.

    `clear_to`: absolute offset before which the rail is content with what it has seen and with `redact`; it never
    decreases and never lies inside a redacted span. `redact`: spans new in this verdict, in order, none before an
    offset that was already clear. `block`: a reason; nothing at or after `clear_to` may ever be released. `escalate`: a
    reason; what begins at `escalate_at` (None: at the rail's last `clear_to`) waits for a person, and so does all that
    follows. The session goes on: what it redacts or blocks behind that place stays redacted or blocked.
    """

    clear_to: int
    redact: tuple[Span, ...] = ()
    block: str | None = None
    escalate: str | None = None
    escalate_at: int | None = None


@quick
@dataclass(frozen=True, slots=True)
class ScreenResult:
    """An input rail's verdict on one request. `messages` replaces the request's when the rail redacted."""

    action: Literal["pass", "redact", "block", "escalate"] = "pass"
    reason: str = ""
    messages: tuple[Message, ...] | None = None
    score: float | None = None
    restore: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Placeholders in `messages`, and the texts that this caller gets back for them in the answer."""


@quick
@dataclass(frozen=True, slots=True)
class Decision:
    """One line of a request's story: what a stage decided and how long it took."""

    slot: SlotName
    stage: str
    outcome: str
    duration_s: float
    detail: Mapping[str, Any] = field(default_factory=dict)
    began_s: float = 0.0
    """Seconds from the request's arrival to its beginning."""


@quick
@dataclass(frozen=True, slots=True)
class Answer:
    """A finished choice as it left the gateway."""

    index: int
    text: str
    finish_reason: FinishReason
    logprobs: tuple[TokenLogprob, ...] = ()
    refusal: str | None = None
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    closed: bool = False
    """As on its last `Piece`."""


@quick
@dataclass(frozen=True, slots=True)
class Outcome:
    """A request's end, for recorders. `error` is the code of the typed error, if one was sent."""

    request: Request
    caller: Caller
    model: str
    answers: tuple[Answer, ...]
    usage: Usage
    decisions: tuple[Decision, ...]
    duration_s: float
    time_to_first_chunk_s: float | None = None
    error: str | None = None
    cached: bool = False
    saved: Usage = Usage()
    """What a kept answer had cost to make."""
    timeline: Timeline | None = None
    """When the parts of the generation happened, where the generator says so."""
    gaps_s: tuple[float, ...] = ()
    """Seconds between two texts that left."""
    held_s: float = 0.0
    """The longest that text waited for a rail."""
    trace_id: str = ""
    """32 hex digits; "" where the trace is not exported."""


# --- what stages need of a model and of a grammar ------------------------------------------------------------------


@runtime_checkable
class Matcher(Protocol):
    """One sequence's way through a grammar. Not thread-safe; used by one thread at a time."""

    def fill_mask(self, row: Mask) -> bool:
        """Overwrite `row`; False means every token is allowed and the mask need not be applied."""

    def accept(self, token_id: int) -> None:
        """Advance; raises `TokenRejected`, and then nothing has changed."""

    def rollback(self, n: int) -> None:
        """Undo the last `n` accepted tokens; masks are then bit-identical to those before."""

    def forced_tokens(self) -> list[int]:
        """Tokens the grammar leaves no choice about from here, in canonical tokenisation; [] where unsure."""

    @property
    def can_stop(self) -> bool:
        """What was accepted is a whole value: an end-of-sequence token is allowed."""

    @property
    def is_finished(self) -> bool:
        """An end-of-sequence token was accepted, or nothing but one may follow."""


@runtime_checkable
class CompiledGrammar(Protocol):
    """Immutable; shared between requests and threads."""

    def matcher(self) -> Matcher: ...


class ServedModel(Protocol):
    """What stages may know of a model in memory. One with a true attribute `remote` is run by another server, which
    renders its prompts; its `tokenizer` has one token a byte, and what it answers is judged by the grammar here. One
    with a `base` is an adapter beside the model of that name."""

    name: str
    version: str
    context_length: int
    vocab_size: int
    """Columns of the logits, the padded vocabulary."""
    eos_token_ids: tuple[int, ...]
    tokenizer: Any
    """A `transformers` tokenizer."""


@quick
@dataclass(frozen=True, slots=True)
class Job:
    """One prompt to generate from, `n` choices."""

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
    traceparent: str = ""
    """W3C trace context of the request, for generators that pass it on to another process."""
    deadline_s: float | None = None
    """Seconds from now after which nobody wants the answer; None = whenever it comes."""
    version: str | None = None
    """Of the model that prompt and grammar were made for; another one is refused. None = any."""
    request: Request | None = None
    """What is asked, for generators that pass it on to another server."""


class Generation(Protocol):
    """A running generation. Iterating yields the choices' pieces as they come; each choice ends with a piece that has
    a `finish_reason`, and the iteration ends after the last. `cancel` is idempotent, may be called at any time from
    the event loop, and frees the blocks within one engine step. It may have a `timeline: Timeline`, which says when
    its parts happened."""

    def __aiter__(self) -> AsyncIterator[Piece]: ...

    def cancel(self) -> None: ...

    @property
    def usage(self) -> Usage: ...


@dataclass(frozen=True, slots=True)
class CacheKey:
    """Everything an answer depends on. `digest` is the SHA-256 hex of the canonical request within the scope."""

    tenant: str
    model: str
    digest: str


# --- the slots ------------------------------------------------------------------------------------------------------


class Admitter(Protocol):
    """Slot `admit`. Stages run in order; each gets the caller found so far. Raises a `RequestError` to refuse."""

    async def admit(self, request: Request, caller: Caller) -> Caller: ...


class InputRail(Protocol):
    """Slot `screen`. Sees the messages before anything is generated. May say `properties: RailProperties`."""

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


class Generator(Protocol):
    """Slot `generate`. Raises `Overloaded` where it will not queue the job."""

    @property
    def models(self) -> Mapping[str, ServedModel]: ...

    async def generate(self, job: Job) -> Generation: ...

    def stats(self) -> Mapping[str, float]:
        """Gauges by name: at least `requests_running`, `requests_waiting`, `kv_cache_usage_ratio` (0..1)."""


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a generator is with one model. `wait_s`: an estimate of what a request that comes now would wait."""

    running: int
    waiting: int
    """Sequences before a new one, as far as their tenants take no turns."""
    free_blocks: int
    total_blocks: int
    wait_s: float


@runtime_checkable
class LoadReporter(Protocol):
    """Optional for generators: what admission needs to shed load with a truthful `Retry-After`."""

    def load(self, model: str | None = None) -> Load:
        """`model` None = the first one served. Raises `NotFound`."""


@dataclass(frozen=True, slots=True)
class Embeddings:
    """`vectors` float32 [n, d], each of length 1; `tokens`: how many the model read for each text."""

    vectors: npt.NDArray[np.float32]
    tokens: tuple[int, ...]


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


@dataclass(frozen=True, slots=True)
class RailExample:
    """A text for trying a rail. `forbidden`: parts of it that must never leave, at every place where they occur;
    with none the text is harmless and must come out as it went in."""

    text: str
    forbidden: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RailProperties:
    """What a rail of slot `screen` or `moderate` says of itself: its optional attribute `properties`.

    `sluicegate plugins check` and `plugins.testing` try whether it is true.
    """

    version: str = "0"
    """Of the rail's rules; a new one makes answers that were kept under the old one stale."""
    look_back: int | None = None
    """Characters before `clear_to` that still count for what follows; None = the whole text may."""
    hold_back: int | None = None
    """Characters that the rail may keep waiting behind the newest one; None = not promised."""
    budget_s: float | None = None
    """Seconds that one call may take; None = not promised."""
    channels: frozenset[Channel] = frozenset(("content", "reasoning", "tool_arguments"))
    """Channels it looks at; on the others it lets everything through."""
    failure_mode: Literal["closed", "open"] = "closed"
    """What the author deems right when the rail itself fails. A wish: only the operator may open a failing rail."""
    examples: tuple[RailExample, ...] = ()


class Recorder(Protocol):
    """Slot `record`. Called once for every request, however it ended. Its failure never reaches the client."""

    async def record(self, outcome: Outcome) -> None: ...


Stage = Admitter | InputRail | Router | Assembler | ResponseCache | Constrainer | Generator | OutputRail | Recorder


@runtime_checkable
class Lifecycle(Protocol):
    """Optional for every stage: `start` is awaited before the first request, `close` after the last."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...


class StageFactory(Protocol):
    """What a plug-in registers: called once at start-up with its own settings (a table of the configuration file)."""

    def __call__(self, settings: Mapping[str, Any], /) -> Any: ...


class RegistryLike(Protocol):
    """What `register(registry)` of a plug-in gets."""

    def add(self, slot: SlotName, name: str, factory: StageFactory, *, api_version: int = API_VERSION) -> None: ...

    def build(self, slot: SlotName, name: str, settings: Mapping[str, Any]) -> Any:
        """Make another registered stage, in order to wrap it. Call it inside a factory: only then are all names known.
        Who wraps a stage passes `start` and `close` on to it."""
