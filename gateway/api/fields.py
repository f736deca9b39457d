"""Fields that several wire formats share: how tokens are drawn, what shape the answer has, and our own extension."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any, Literal, TypedDict

import orjson
from pydantic import BaseModel, ConfigDict, Field

from cache import MAX_LABEL_CHARS, MAX_TAGS
from gateway.api.heeding import Wire, asks
from plugins import Constraint, Document, Parts, RequestError, Reuse, Sampling

MAX_CHOICES = 16
MAX_SEED = 2**63 - 1
Tag = Annotated[str, Field(min_length=1, max_length=MAX_LABEL_CHARS)]
Text = Annotated[str, Field(min_length=1)]
Stop = Text | Annotated[list[Text], Field(max_length=16)]


class CacheUse(BaseModel):
    model_config = ConfigDict(extra="forbid")
    semantic: bool | None = None
    threshold: Annotated[float, Field(gt=0, le=1)] | None = None
    tags: Annotated[list[Tag], Field(max_length=MAX_TAGS)] = []


class ContextDocument(BaseModel):
    """What the caller found for the question; `score` in a measure of its own."""

    model_config = ConfigDict(extra="forbid")
    text: str
    source: Annotated[str, Field(max_length=500)] = ""
    score: Annotated[float, Field(allow_inf_nan=False)] = 0.0


class Extension(BaseModel):
    """Our own object in a request's body; in OpenAI's clients `extra_body={"sluicegate": {...}}`."""

    model_config = ConfigDict(extra="forbid")
    explain: bool = False
    cache: bool | CacheUse = True
    grammar: dict[str, Any] = Field(default_factory=dict)
    reasoning: bool | None = None
    on_length: Literal["stop", "close"] = "stop"
    deadline_s: Annotated[float, Field(gt=0, le=86_400)] | None = None
    template: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    variables: dict[str, Any] = Field(default_factory=dict)
    context: list[ContextDocument] = Field(default_factory=list, max_length=1000)
    context_tokens: Annotated[int, Field(ge=1)] | None = None


class StreamOptions(Wire):
    include_usage: bool | None = None


class JsonSchemaFormat(Wire):
    """It is enforced, `strict` or not. `description` reaches no model: the schema's own does."""

    model_config = ConfigDict(populate_by_name=True)
    UNHEEDED = frozenset({"description"})
    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] | bool = Field(alias="schema")
    strict: bool | None = None


class StructuredOutputs(BaseModel):
    """The field that vLLM's clients send; exactly one of these says what the answer looks like."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    json_: dict[str, Any] | bool | str | None = Field(default=None, alias="json")
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: dict[str, Any] | str | None = None
    whitespace_pattern: str | None = None


class SharedFields(Wire):
    """Of every request that generates text in OpenAI's formats, with vLLM's additions."""

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    min_tokens: Annotated[int, Field(ge=0)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(ge=0.01, le=100)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    seed: Annotated[int, Field(ge=-MAX_SEED - 1, le=MAX_SEED)] | None = None
    stop: Stop | None = None
    n: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    logit_bias: dict[int, Annotated[float, Field(ge=-100, le=100)]] | None = None
    ignore_eos: bool | None = None
    typical_p: Annotated[float, Field(gt=0, le=1)] | None = None
    bad_words: Annotated[list[str], Field(max_length=128)] | None = None
    best_of: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    use_beam_search: bool | None = None
    length_penalty: float | None = None
    early_stopping: bool | Literal["never"] | None = None
    num_beam_groups: Annotated[int, Field(ge=1)] | None = None
    diversity_penalty: Annotated[float, Field(ge=0)] | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: dict[str, Any] | bool | str | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    guided_whitespace_pattern: str | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None
    sluicegate: Extension = Field(default_factory=Extension)

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)


BEAMS = frozenset({"length_penalty", "early_stopping", "num_beam_groups", "diversity_penalty"})
"""What only a beam search heeds."""


def sampling_of(wire: SharedFields, *, max_tokens: int | None, logprobs: int | None) -> Sampling:
    """Raises `RequestError` for what would have no effect beside the rest."""
    _check_company(wire)
    stop = (wire.stop,) if isinstance(wire.stop, str) else tuple(wire.stop or ())
    asked = _sampling(
        max_tokens,
        wire.temperature,
        max(wire.top_k or 0, 0),
        1.0 if wire.top_p is None else wire.top_p,
        wire.min_p or 0.0,
        wire.repetition_penalty or 1.0,
        wire.frequency_penalty or 0.0,
        wire.presence_penalty or 0.0,
        wire.seed,
        stop,
        logprobs,
        min_tokens=wire.min_tokens or 0,
        ignore_eos=bool(wire.ignore_eos),
        typical_p=1.0 if wire.typical_p is None else wire.typical_p,
        bad_words=tuple(wire.bad_words or ()),
        best_of=wire.best_of,
        use_beam_search=bool(wire.use_beam_search),
        length_penalty=1.0 if wire.length_penalty is None else wire.length_penalty,
        early_stopping=wire.early_stopping or False,
        beam_groups=wire.num_beam_groups or 1,
        diversity_penalty=wire.diversity_penalty or 0.0,
        close_on_length=wire.sluicegate.on_length == "close",
    )
    return replace(asked, logit_bias=wire.logit_bias) if wire.logit_bias else asked


@lru_cache(maxsize=256, typed=True)
def _sampling(*values: Any, **named: Any) -> Sampling:
    """One object for all requests that ask for the same: callers rarely change how they draw, and making one of
    twenty-three fields takes longer than looking it up."""
    return Sampling(*values, **named)


def check_stream(stream: bool | None, options: StreamOptions | None) -> None:
    if not stream and options is not None and options.model_fields_set:
        raise RequestError("`stream_options` need `stream: true`", param="stream_options")


def _check_company(wire: SharedFields) -> None:
    check_stream(wire.stream, wire.stream_options)
    if wire.use_beam_search:
        if wire.sluicegate.on_length == "close":
            raise RequestError("`on_length` cannot be close with `use_beam_search`", param="sluicegate.on_length")
        return
    for name in wire.__pydantic_fields_set__ & BEAMS:
        if asks(name, getattr(wire, name)):
            raise RequestError(f"`{name}` needs `use_beam_search: true`", param=name)


class Wishes(TypedDict):
    """Fields of a `Request` that our own object sets alike in every dialect."""

    cache: bool
    reuse: Reuse
    deadline_s: float | None
    explain: bool


def wishes_of(asked: Extension) -> Wishes:
    cache = asked.cache
    reuse = Reuse() if isinstance(cache, bool) else Reuse(cache.semantic, cache.threshold, tuple(cache.tags))
    return {"cache": cache is not False, "reuse": reuse, "deadline_s": asked.deadline_s, "explain": asked.explain}


def the_one(found: Constraint | None, other: Constraint | None, wire: SharedFields, names: str) -> Constraint | None:
    """At most one of two constraints, and no stop string beside it."""
    if found is not None and other is not None:
        raise RequestError(f"{names} both constrain the answer; send one", param="structured_outputs")
    constraint = found or other
    if constraint is not None and wire.stop:
        raise RequestError(
            "`stop` would cut a constrained answer in the middle; leave it out: the constraint says where it ends",
            param="stop",
            code="unsupported_parameter",
        )
    return constraint


def structured_of(wire: SharedFields) -> Constraint | None:
    """From `structured_outputs`, or from the `guided_...` fields that vLLM's clients sent before it."""
    older = _old_names(wire)
    if older is not None and wire.structured_outputs is not None:
        raise RequestError(
            "`structured_outputs` and `guided_...` both constrain the answer; send one", param="structured_outputs"
        )
    asked = older or wire.structured_outputs
    if asked is None:
        return None
    options = dict(wire.sluicegate.grammar)
    if asked.whitespace_pattern is not None:
        options["whitespace"] = asked.whitespace_pattern
    candidates = {
        "json_schema": _parsed(asked.json_, "json"),
        "regex": asked.regex,
        "choice": None if asked.choice is None else tuple(asked.choice),
        "lark": asked.grammar,
        "json_object": asked.json_object or None,
        "structural_tag": _parsed(asked.structural_tag, "structural_tag"),
    }
    given = {kind: value for kind, value in candidates.items() if value is not None}
    if len(given) != 1:
        raise RequestError(
            "`structured_outputs` needs exactly one of json, regex, choice, grammar, json_object and structural_tag, "
            f"got {len(given)}",
            param="structured_outputs",
        )
    (kind, value), *_ = given.items()
    return Constraint(kind, None if kind == "json_object" else value, options=options)  # type: ignore[arg-type]


GUIDED = {name: f"guided_{name}" for name in ("json", "regex", "choice", "grammar", "whitespace_pattern")}


def _old_names(wire: SharedFields) -> StructuredOutputs | None:
    if wire.__pydantic_fields_set__.isdisjoint(GUIDED.values()):
        return None
    given = {name: getattr(wire, older) for name, older in GUIDED.items()}
    found = {name: value for name, value in given.items() if value is not None}
    return StructuredOutputs.model_validate(found) if found else None


def _parsed(value: dict[str, Any] | bool | str | None, name: str) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise RequestError(
            f"`structured_outputs.{name}` is not valid JSON: {error}", param="structured_outputs"
        ) from error


def check_extension(asked: Extension, constraint: Constraint | None, *, shaped: bool) -> None:
    """Raises `RequestError` for a wish that this request gives nothing to act on. `shaped`: the output has a shape even
    where the answer is free, by tools or thoughts."""
    if not asked.__pydantic_fields_set__:
        return
    for given, name, needs in (
        (asked.grammar and constraint is None, "grammar", "an answer with a schema or another constraint"),
        (asked.on_length == "close" and constraint is None and not shaped, "on_length", "a constrained answer"),
        (asked.variables and asked.template is None, "variables", "`template`"),
        (asked.context_tokens is not None and not asked.context, "context_tokens", "`context`"),
    ):
        if given:
            raise RequestError(f"`sluicegate.{name}` has no effect without {needs}", param=f"sluicegate.{name}")


def parts_of(extension: Extension) -> Parts | None:
    """None where the messages are all there is."""
    if extension.template is None and not extension.context:
        return None
    documents = tuple(Document(d.text, d.source, d.score) for d in extension.context)
    return Parts(extension.template or "", extension.variables, documents, extension.context_tokens)
