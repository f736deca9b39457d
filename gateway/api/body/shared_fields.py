"""Fields that several dialects share: sampling options, our own extension, and what does not go together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any, Literal, TypedDict

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from sluicegate.cache import MAX_LABEL_CHARS, MAX_TAGS
from sluicegate.gateway.answer.partial import PartialValues
from sluicegate.gateway.api.body.unknown_fields import BodyFields, Wire
from sluicegate.gateway.fields import MAX_CHOICES, asks
from sluicegate.plugins import Constraint, Document, Parts, Request, RequestError, Reuse, Sampling

Tag = Annotated[str, Field(min_length=1, max_length=MAX_LABEL_CHARS)]
Text = Annotated[str, Field(min_length=1)]
Stop = Text | Annotated[list[Text], Field(max_length=16)]
PLAIN_ID = re.compile("0|-?[1-9][0-9]{0,18}")
LONGEST_PATTERN = 1024
MOST_REPEATS = 10_000


def _plain_id(key: Any) -> Any:
    """Return a token id that is spelled in the one usual way: of `7` and `07` in one object only one would count."""
    if isinstance(key, str) and not PLAIN_ID.fullmatch(key):
        raise ValueError("a token id is written in digits alone, without spaces, signs or zeros in front")
    return key


def _no_truth(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"a bias is a number, not {str(value).lower()}")
    return value


TokenId = Annotated[int, BeforeValidator(_plain_id)]
Bias = Annotated[float, BeforeValidator(_no_truth), Field(ge=-100, le=100)]


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
    confidence: bool = False
    partial: bool = False
    cache: bool | CacheUse = True
    grammar: dict[str, Any] = Field(default_factory=dict)
    reasoning: bool | None = None
    on_length: Literal["stop", "close"] = "stop"
    deadline_s: Annotated[float, Field(gt=0, le=86_400)] | None = None
    template: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    variables: dict[str, Any] = Field(default_factory=dict)
    context: list[ContextDocument] = Field(default_factory=list, max_length=1000)
    context_tokens: Annotated[int, Field(ge=1)] | None = None
    retrieve: bool | None = None


NO_EXTENSION = Extension()
"""Of every body that has none: making one costs as much as reading a short body. Nothing writes to it."""


class StreamOptions(Wire):
    include_usage: bool | None = None


class Repetition(BaseModel):
    """Repetition detection; `max_pattern_size` 0 = never."""

    model_config = ConfigDict(extra="forbid")
    max_pattern_size: Annotated[int, Field(ge=0, le=LONGEST_PATTERN)] = 0
    min_pattern_size: Annotated[int, Field(ge=0, le=LONGEST_PATTERN)] = 0
    min_count: Annotated[int, Field(ge=0, le=MOST_REPEATS)] = 0

    @model_validator(mode="after")
    def _fits(self) -> Repetition:
        if self.min_pattern_size > self.max_pattern_size:
            raise ValueError("`min_pattern_size` is larger than `max_pattern_size`")
        if self.max_pattern_size and self.min_count < 2:
            raise ValueError("`min_count` must be 2 or more: a pattern that is there once repeats nothing")
        return self


class SharedFields(Wire):
    """Of every request that generates text in OpenAI's formats, with vLLM's and SGLang's additions."""

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    stop: Stop | None = None
    logit_bias: dict[TokenId, Bias] | None = None
    repetition_detection: Repetition | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None
    sluicegate: Extension = Field(default_factory=lambda: NO_EXTENSION)

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)


def sampling_of(wire: Wire, fields: BodyFields[Any], *, on_length: str, logprobs: int | None, **fixed: Any) -> Sampling:
    """Make the `Sampling` of the options in `wire`; `fixed` gives attributes that it leaves out. Raises `RequestError`
    for two fields that contradict each other."""
    found, bias, rows = fixed, None, fields.sampling
    names: dict[str, str] = {}
    values = wire.__dict__
    for name in wire.__pydantic_fields_set__:
        row = rows.get(name)
        if row is None or (value := values[name]) is None:
            continue
        fact = value if row.fact is None else row.fact(value)
        if row.attribute == "logit_bias":
            bias = fact
            continue
        other = names.setdefault(row.attribute, name)
        if other != name and found[row.attribute] != fact:
            raise contradiction(min(name, other), max(name, other))
        found[row.attribute] = fact
    if logprobs is not None:
        found["logprobs"] = logprobs
    if on_length == "close":
        found["close_on_length"] = True
    asked = _sampling(frozenset(found.items()))
    _check_lengths(asked)
    return replace(asked, logit_bias=bias) if bias else asked


@lru_cache(maxsize=256)
def _sampling(found: frozenset[tuple[str, Any]]) -> Sampling:
    """Return one object for all requests that ask for the same: callers rarely change how they draw."""
    return Sampling(**dict(found))


def contradiction(one: str, other: str) -> RequestError:
    return RequestError(
        f"`{one}` and `{other}` say different things; send one of them", param=other, code="contradiction"
    )


def _check_lengths(asked: Sampling) -> None:
    if asked.max_tokens is not None and asked.min_tokens > asked.max_tokens:
        raise RequestError(
            f"`min_tokens` is {asked.min_tokens}, more than the {asked.max_tokens} that `max_tokens` leaves",
            param="min_tokens",
            code="contradiction",
        )


def check_stream(stream: bool | None, options: StreamOptions | None) -> None:
    if not stream and options is not None and options.include_usage:
        raise RequestError("`stream_options` need `stream: true`", param="stream_options")


def check_combination(wire: SharedFields, fields: BodyFields[Any]) -> None:
    """Refuse fields without effect in this combination. Raises `RequestError`."""
    check_stream(wire.stream, wire.stream_options)
    values = wire.__dict__
    if values.get("use_beam_search") and wire.sluicegate.on_length == "close":
        raise RequestError("`on_length` cannot be close with `use_beam_search`", param="sluicegate.on_length")
    for name in wire.__pydantic_fields_set__ & fields.dependent.keys():
        row = fields.dependent[name]
        if not values.get(row.needs) and asks(row, values[name]):
            raise RequestError(f"`{name}` needs `{row.needs}: true`", param=name)


class Wishes(TypedDict):
    """`Request` attributes that our extension object sets in every dialect."""

    cache: bool
    reuse: Reuse
    deadline_s: float | None
    explain: bool
    confidence: bool
    partial: bool
    retrieve: bool | None


def wishes_of(asked: Extension) -> Wishes:
    cache = asked.cache
    reuse = Reuse() if isinstance(cache, bool) else Reuse(cache.semantic, cache.threshold, tuple(cache.tags))
    return {
        "cache": cache is not False and not asked.confidence,
        "reuse": reuse,
        "deadline_s": asked.deadline_s,
        "explain": asked.explain,
        "confidence": asked.confidence,
        "partial": asked.partial,
        "retrieve": asked.retrieve,
    }


def reasoning_of(wishes: Mapping[str, bool | None]) -> bool:
    """Return whether thoughts are asked for. `wishes`: by field, None where it says nothing. Raises `RequestError`
    where two of them disagree."""
    said: tuple[str, bool] | None = None
    for name, wish in wishes.items():
        if wish is None:
            continue
        if said is not None and said[1] != wish:
            raise contradiction(said[0], name)
        said = said or (name, wish)
    return said is not None and said[1]


def check_extension(asked: Extension, constraint: Constraint | None, *, shaped: bool) -> None:
    """Refuse an extension without effect in this request. Raises `RequestError`. `shaped`: tools or thoughts give the
    output a shape even where the answer is free."""
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
    if asked.grammar and constraint is not None and not shaped and _is_without_json(constraint):
        _check_of_json(asked.grammar)


OF_TEXT = frozenset({"regex", "choice", "lark"})
JSON_OPTIONS = ("whitespace", "property_order", "close_objects", "integer_digits", "fraction_digits")


def _is_without_json(constraint: Constraint) -> bool:
    return constraint.kind in OF_TEXT and "%json" not in str(constraint.value)


def _check_of_json(options: Mapping[str, Any]) -> None:
    """Refuse options of JSON where no JSON is described. Raises `RequestError`."""
    for name in JSON_OPTIONS:
        if name in options:
            raise RequestError(
                f"`sluicegate.grammar.{name}` has no effect on a pattern, choices or a grammar; leave it out",
                param=f"sluicegate.grammar.{name}",
                code="unsupported_parameter",
            )


def without_effect(request: Request) -> tuple[str, ...]:
    """Return the paths of our own fields that ask to be told what this request has not. They are reported and not
    refused: the answer is the same."""
    if not request.partial or (request.stream and PartialValues.expected(request)):
        return ()
    return ("sluicegate.partial",)


def parts_of(extension: Extension) -> Parts | None:
    """Return None where the messages are all there is."""
    if extension.template is None and not extension.context:
        return None
    documents = tuple(Document(d.text, d.source, d.score) for d in extension.context)
    return Parts(extension.template or "", extension.variables, documents, extension.context_tokens)
