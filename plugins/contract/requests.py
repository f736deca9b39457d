"""What a request is: messages, tools, the shape of the answer, how tokens are drawn, and who asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sluicegate.plugins.contract.names import ConstraintKind, Role
from sluicegate.plugins.frozen import quick


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
    """For an assistant's message: the calls it made."""
    tool_call_id: str | None = None
    """For a tool's message: the call that it answers."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may ask the caller to call. `parameters`: the JSON schema of its arguments."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    custom: bool = False
    """A custom tool: it takes a text, for which `parameters` have one string."""
    form: Constraint | None = None
    """For a custom tool: the pattern or grammar of its text."""


@quick
@dataclass(frozen=True, slots=True)
class ToolChoice:
    """`required`: at least one call. `names`: the only tools that may be called; None = all of the request's."""

    mode: Literal["none", "auto", "required"] = "auto"
    names: frozenset[str] | None = None
    parallel: bool = True
    """Whether an answer may contain more than one call."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """What shape the answer must have. `value`: schema dict | None | pattern | sequence of strings | grammar text |
    structural tag (a dict, see docs/grammar.md)."""

    kind: ConstraintKind
    value: Any = None
    name: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the compiler by name (`whitespace`, `property_order` ...); an unknown one is refused."""


@dataclass(frozen=True, slots=True)
class RepetitionDetection:
    """Generation ends, with `length`, once the newest tokens are one pattern of `min_pattern_size` to
    `max_pattern_size` tokens, written `min_count` times in a row; a constrained answer is first brought to its shortest
    valid end. Meanings are those of vLLM. `max_pattern_size` 0 = never, not even where an engine does by itself."""

    max_pattern_size: int
    min_count: int
    """At least 2."""
    min_pattern_size: int = 1


ONLY_DRAWS = {"only_draws": True}
"""Metadata of an option that changes no answer if the likeliest token is always taken."""


@quick
@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn. Defaults are those of the OpenAI API, except for what is None here and has a number there:
    the model's own."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_k: int | None = field(default=None, metadata=ONLY_DRAWS)
    """0 = all tokens."""
    top_p: float | None = field(default=None, metadata=ONLY_DRAWS)
    min_p: float | None = field(default=None, metadata=ONLY_DRAWS)
    repetition_penalty: float | None = None
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    seed: int | None = field(default=None, metadata=ONLY_DRAWS)
    stop: tuple[str, ...] = ()
    logprobs: int | None = None
    """None = none; k >= 0 = the chosen token's logprob and those of the k likeliest tokens."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    min_tokens: int = 0
    ignore_eos: bool = False
    typical_p: float = 1.0
    """Locally typical sampling: keep this much of the mass, nearest to the expected surprise first; 1 = off. It may
    leave the likeliest token out."""
    bad_words: tuple[str, ...] = ()
    """Texts that must not occur in the answer, tokenised with and without a space before."""
    best_of: int | None = None
    """Return the `n` best of this many choices, by mean logprob; with beam search, the number of beams. None = `n`."""
    use_beam_search: bool = False
    """Search for the likeliest answers instead of drawing; `temperature` and the filters of a draw are then ignored."""
    length_penalty: float = 1.0
    """Beams are ranked by logprob / length ** length_penalty."""
    early_stopping: bool | Literal["never"] = False
    """When to stop: True = once as many beams have finished as asked for; False = when a better one is unlikely;
    `never` = when a better one is impossible."""
    beam_groups: int = 1
    """Number of groups of beams, which avoid each other's tokens."""
    diversity_penalty: float = 0.0
    """Subtracted from a token's score for each earlier group that chose it in the same step."""
    close_on_length: bool = False
    """A constrained answer that runs out of tokens is completed to its shortest valid ending within `max_tokens`."""
    stop_token_ids: tuple[int, ...] = ()
    """Tokens that end generation like an end-of-sequence token; their text is not part of the answer. They end a
    constrained answer only where it is complete."""
    include_stop_str_in_output: bool = False
    """Include the stop string that ended generation, or the text of the token of `stop_token_ids`, in the answer."""
    repetition_detection: RepetitionDetection | None = None
    """Ends an answer that repeats itself; None = the engine's setting."""


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
    """Most tokens of all documents together; None = the template's or the operator's setting."""
    version: str = ""
    """Version of the template in use, with a digest of its text."""
    expanded: bool = False
    """Whether the template was filled in, with each document as a message of its own before the last one; `documents`
    then only keep their scores."""
    before: int = 0
    """Messages of the template before those that were sent, once expanded."""


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
    """Id of the key that was checked when the request was made, if it runs later (in a batch); never from the wire."""
    priority: int = 0
    """Lower runs first; 0 = interactive, 10 = batch."""
    deadline_s: float | None = None
    """Most seconds for generating, waiting included; then the request ends with `DeadlineExceeded`."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    cache: bool = True
    """False: neither look for a cached answer nor store this one."""
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    reasoning: bool = False
    """Whether the model reasons first, in a channel of its own."""
    raw: bool = False
    """Whether the only message is the prompt itself, without a chat template around it."""
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Variables of the model's chat template by name, without those that the gateway sets."""
    add_generation_prompt: bool = True
    """Whether the prompt ends with the beginning of an answer; False: with the last message."""
    continue_final_message: bool = False
    """Whether the last message is the beginning of the answer and stays open; it is not part of what is returned."""

    @property
    def callable_tools(self) -> tuple[Tool, ...]:
        """Return the tools that `tool_choice` lets the model call."""
        choice = self.tool_choice
        if not self.tools or choice.mode == "none":
            return ()
        return tuple(tool for tool in self.tools if choice.names is None or tool.name in choice.names)

    @property
    def custom_tools(self) -> frozenset[str]:
        """Return the names of the tools that take a text."""
        return frozenset(tool.name for tool in self.tools if tool.custom)

    reuse: Reuse = Reuse()
    parts: Parts | None = None
    """Template, variables and context documents, if the prompt is made of more than the messages."""
    explain: bool = False
    """Report how the answer came about: the decisions of stages, and the alternatives of each token."""
    confidence: bool = False
    """Report the probability of each JSON value."""
    partial: bool = False
    """Report in a stream which JSON values are complete."""
    retrieve: bool | None = None
    """Find documents for the question; None = the operator's setting."""
    nbytes: int = 0
    """Bytes of the body, if it was large; work on it then runs off the event loop."""


def question_of(request: Request) -> str:
    """Return what the user asks last; '' where nobody does."""
    return next((message.content for message in reversed(request.messages) if message.role == "user"), "")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as `admit` found out. `tenant` scopes caches and prefix blocks."""

    tenant: str = "anonymous"
    key_id: str | None = None
    scopes: frozenset[str] = frozenset()
    """What else the key may do; "admin" allows everything under `/admin`."""
    team: str | None = None
    models: frozenset[str] | None = None
    """Names of the models it may use; None = all."""
    tools: frozenset[str] | None = None
    """Names of the tools it may let a model call; None = all."""
    mcp: frozenset[str] | None = None
    """Tools of MCP servers it may call, `SERVER` or `SERVER/TOOL`; None = those of all servers that are open."""
    rails: frozenset[str] = frozenset()
    """Names of rails that must run, or its requests are refused."""
    routes: frozenset[str] | None = None
    """Paths it may call, `*` at the end for all below; None = all."""


@quick
@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model will read. `text` was tokenised to `token_ids` with no special tokens added."""

    text: str
    token_ids: tuple[int, ...]
