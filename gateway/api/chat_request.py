"""The OpenAI wire format of `/v1/chat/completions`: JSON in, `Request` out."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from cache import MAX_LABEL_CHARS, MAX_TAGS
from plugins import Constraint, Message, Request, RequestError, Reuse, Sampling

MAX_CHOICES = 16
Tag = Annotated[str, Field(min_length=1, max_length=MAX_LABEL_CHARS)]
UNSUPPORTED = {
    "tools": "tool calls are not served yet; describe the call as a JSON schema in `response_format`",
    "functions": "function calls are not served yet; describe the call as a JSON schema in `response_format`",
    "audio": "only text is generated",
    "prediction": "predicted outputs are not served",
    "web_search_options": "the gateway never searches the web",
}
"""Fields that change what an answer means: refused while they have no effect, never ignored."""


class TextPart(BaseModel):
    type: Literal["text"]
    text: str


class ChatMessage(BaseModel):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
    name: str | None = None
    tool_calls: None = None

    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content)
        return self.content or ""


class JsonSchemaFormat(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    name: str | None = None
    schema_: dict[str, Any] | bool = Field(alias="schema")
    strict: bool | None = None


class ResponseFormat(BaseModel):
    """With `structural_tag`, the other fields are those of the tag itself."""

    model_config = ConfigDict(extra="allow")
    type: Literal["text", "json_object", "json_schema", "structural_tag"]
    json_schema: JsonSchemaFormat | None = None

    @model_validator(mode="after")
    def _has_schema(self) -> ResponseFormat:
        if self.type == "json_schema" and self.json_schema is None:
            raise ValueError("`json_schema` is required when `type` is 'json_schema'")
        return self


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


class StreamOptions(BaseModel):
    include_usage: bool = False


class CacheUse(BaseModel):
    model_config = ConfigDict(extra="forbid")
    semantic: bool | None = None
    threshold: Annotated[float, Field(gt=0, le=1)] | None = None
    tags: Annotated[list[Tag], Field(max_length=MAX_TAGS)] = []


class Extension(BaseModel):
    """Our own object in a request's body; in OpenAI's clients `extra_body={"sluicegate": {...}}`."""

    model_config = ConfigDict(extra="forbid")
    explain: bool = False
    cache: bool | CacheUse = True
    grammar: dict[str, Any] = Field(default_factory=dict)


Text = Annotated[str, Field(min_length=1)]


class ChatRequest(BaseModel):
    model_config = ConfigDict(extra="allow", protected_namespaces=())
    model: str
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    min_tokens: Annotated[int, Field(ge=0)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    seed: int | None = None
    stop: Text | Annotated[list[Text], Field(max_length=16)] | None = None
    n: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    logit_bias: dict[int, Annotated[float, Field(ge=-100, le=100)]] | None = None
    ignore_eos: bool | None = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: dict[str, Any] | bool | str | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    guided_whitespace_pattern: str | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None
    sluicegate: Extension = Extension()


class ParsedRequest:
    """A `Request` and what only the wire needs to know."""

    __slots__ = ("explain", "ignored", "include_usage", "request")

    def __init__(self, request: Request, *, include_usage: bool, explain: bool, ignored: tuple[str, ...]) -> None:
        self.request = request
        self.include_usage = include_usage
        self.explain = explain
        self.ignored = ignored
        """Names of fields that nobody here knows; said in a header, since clients send ever new ones."""


def parse_chat(body: bytes, api_key: str | None = None) -> ParsedRequest:
    """Raises `RequestError` that names the field by path."""
    try:
        tree = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestError(f"the body is not valid JSON: {error}", code="invalid_json") from error
    if not isinstance(tree, dict):
        raise RequestError(f"the body must be a JSON object, found {type(tree).__name__}", code="invalid_json")
    _refuse_unsupported(tree)
    try:
        wire = ChatRequest.model_validate(tree)
    except ValidationError as error:
        raise _first_complaint(error) from error
    extra = sorted(wire.model_extra or {})
    return ParsedRequest(
        _request(wire, api_key),
        include_usage=bool(wire.stream_options and wire.stream_options.include_usage),
        explain=wire.sluicegate.explain,
        ignored=tuple(extra),
    )


def _refuse_unsupported(tree: Mapping[str, Any]) -> None:
    for name, reason in UNSUPPORTED.items():
        if tree.get(name):
            raise RequestError(f"`{name}`: {reason}", param=name, code="unsupported_parameter")


def _first_complaint(error: ValidationError) -> RequestError:
    first = error.errors(include_url=False, include_context=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    return RequestError(f"`{path}`: {first['msg']}", param=path or None, code="invalid_parameter")


def _request(wire: ChatRequest, api_key: str | None) -> Request:
    return Request(
        id=f"chatcmpl-{uuid.uuid4().hex}",
        model=wire.model,
        messages=tuple(Message(m.role, m.text(), m.name) for m in wire.messages),
        sampling=_sampling(wire),
        constraint=_constraint(wire),
        n=wire.n or 1,
        stream=bool(wire.stream),
        user=wire.user,
        api_key=api_key,
        metadata=wire.metadata or {},
        cache=wire.sluicegate.cache is not False,
        reuse=_reuse(wire.sluicegate.cache),
    )


def _reuse(asked: bool | CacheUse) -> Reuse:
    return Reuse() if isinstance(asked, bool) else Reuse(asked.semantic, asked.threshold, tuple(asked.tags))


def _sampling(wire: ChatRequest) -> Sampling:
    if wire.top_logprobs is not None and not wire.logprobs:
        raise RequestError("`top_logprobs` needs `logprobs: true`", param="top_logprobs")
    stop = (wire.stop,) if isinstance(wire.stop, str) else tuple(wire.stop or ())
    return Sampling(
        max_tokens=wire.max_completion_tokens or wire.max_tokens,
        temperature=wire.temperature,
        top_k=max(wire.top_k or 0, 0),
        top_p=1.0 if wire.top_p is None else wire.top_p,
        min_p=wire.min_p or 0.0,
        repetition_penalty=wire.repetition_penalty or 1.0,
        frequency_penalty=wire.frequency_penalty or 0.0,
        presence_penalty=wire.presence_penalty or 0.0,
        seed=wire.seed,
        stop=stop,
        logprobs=(wire.top_logprobs or 0) if wire.logprobs else None,
        logit_bias=wire.logit_bias or {},
        min_tokens=wire.min_tokens or 0,
        ignore_eos=bool(wire.ignore_eos),
    )


def _constraint(wire: ChatRequest) -> Constraint | None:
    found = [c for c in (_from_response_format(wire), _from_structured_outputs(wire)) if c is not None]
    if found and wire.stop:
        raise RequestError(
            "`stop` would cut a constrained answer in the middle; leave it out: the constraint says where it ends",
            param="stop",
            code="unsupported_parameter",
        )
    if len(found) > 1:
        raise RequestError(
            "`response_format` and `structured_outputs` both constrain the answer; send one", param="structured_outputs"
        )
    return found[0] if found else None


def _from_response_format(wire: ChatRequest) -> Constraint | None:
    asked = wire.response_format
    if asked is None or asked.type == "text":
        return None
    options = wire.sluicegate.grammar
    if asked.type == "json_object":
        return Constraint("json_object", options=options)
    if asked.type == "structural_tag":
        return Constraint("structural_tag", asked.model_dump(exclude={"json_schema"}), options=options)
    assert asked.json_schema is not None
    return Constraint("json_schema", asked.json_schema.schema_, asked.json_schema.name, options)


def _from_structured_outputs(wire: ChatRequest) -> Constraint | None:
    asked = _old_names(wire) if wire.structured_outputs is None else wire.structured_outputs
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


def _old_names(wire: ChatRequest) -> StructuredOutputs | None:
    """The `guided_...` fields that vLLM's clients sent before `structured_outputs`."""
    names = ("json", "regex", "choice", "grammar", "whitespace_pattern")
    given = {name: getattr(wire, f"guided_{name}") for name in names}
    found = {name: value for name, value in given.items() if value is not None}
    return StructuredOutputs.model_validate(found) if found else None


def _parsed(value: dict[str, Any] | bool | str | None, name: str) -> Any:
    """Some clients send the value as JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise RequestError(
            f"`structured_outputs.{name}` is not valid JSON: {error}", param="structured_outputs"
        ) from error
