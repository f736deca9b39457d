"""The OpenAI wire format of `/v1/chat/completions`: JSON in, `Request` out."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from gateway.api.bodies import Parsed, read_body
from gateway.api.fields import (
    JsonSchemaFormat,
    SharedFields,
    check_extension,
    parts_of,
    sampling_of,
    structured_of,
    the_one,
    wishes_of,
)
from gateway.api.heeding import Wire, ignored_in
from gateway.api.tool_fields import AllowedChoice, CalledTool, FunctionTool, Mode, NamedTool, choice_of, tools_of
from plugins import Constraint, Message, Request, RequestError, Sampling, Tool, ToolChoice

UNSUPPORTED = {
    "functions": "function calls are served under their newer name: send `tools`",
    "function_call": "function calls are served under their newer name: send `tool_choice`",
    "audio": "only text is generated",
    "prediction": "predicted outputs are not served",
    "web_search_options": "the gateway never searches the web",
}
"""Fields that change what an answer means: refused while they have no effect, never ignored."""


class TextPart(Wire):
    type: Literal["text"]
    text: str


class RefusalPart(Wire):
    type: Literal["refusal"]
    refusal: str


class ChatMessage(Wire):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart | RefusalPart] | None = None
    refusal: str | None = None
    name: str | None = None
    tool_calls: list[CalledTool] | None = None
    tool_call_id: str | None = None

    @model_validator(mode="after")
    def _fits_its_role(self) -> ChatMessage:
        if self.role == "tool" and not self.tool_call_id:
            raise ValueError("a message of role 'tool' needs `tool_call_id`: the call that it answers")
        if self.tool_calls and self.role != "assistant":
            raise ValueError("only an assistant's message has `tool_calls`")
        return self

    def fact(self) -> Message:
        calls = tuple(call.fact() for call in self.tool_calls or ())
        return Message(self.role, self._text(), self.name, calls, self.tool_call_id)

    def _text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text if isinstance(part, TextPart) else part.refusal for part in self.content)
        return self.content or self.refusal or ""


class ResponseFormat(Wire):
    """With `structural_tag`, the other fields are those of the tag itself; `schema` beside `json_object` is how other
    servers, and clients that were written for them, spell a schema."""

    model_config = ConfigDict(populate_by_name=True)
    type: Literal["text", "json_object", "json_schema", "structural_tag"]
    json_schema: JsonSchemaFormat | None = None
    schema_: dict[str, Any] | bool | None = Field(default=None, alias="schema")

    @model_validator(mode="after")
    def _has_schema(self) -> ResponseFormat:
        if self.type == "json_schema" and self.json_schema is None:
            raise ValueError("`json_schema` is required when `type` is 'json_schema'")
        if self.type != "json_schema" and self.json_schema is not None:
            raise ValueError(f"`json_schema` is given, but `type` is {self.type!r}; make it 'json_schema'")
        if self.type != "json_object" and self.schema_ is not None:
            raise ValueError(f"`schema` stands beside 'json_object' or inside `json_schema`, not beside {self.type!r}")
        return self

    @property
    def takes_all(self) -> bool:
        return self.type == "structural_tag"


class Reasoning(Wire):
    """`effort` other than "none" turns thoughts on; how many there are is the model's affair."""

    enabled: bool | None = None
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None


class ChatRequest(SharedFields):
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    response_format: ResponseFormat | None = None
    tools: list[FunctionTool] | None = None
    tool_choice: Mode | NamedTool | AllowedChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning: Reasoning | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    modalities: list[Literal["text"]] | None = None


def parse_chat(body: bytes | Mapping[str, Any], api_key: str | None = None) -> Parsed:
    """Raises `RequestError` that names the field by path."""
    wire = read_body(body, ChatRequest, UNSUPPORTED)
    return Parsed(
        _request(wire, api_key),
        include_usage=wire.include_usage,
        explain=wire.sluicegate.explain,
        ignored=ignored_in(wire),
    )


def _request(wire: ChatRequest, api_key: str | None) -> Request:
    tools, choice = _tools(wire)
    constraint, reasoning = _constraint(wire), _reasoning(wire)
    check_extension(wire.sluicegate, constraint, shaped=bool(tools) or reasoning)
    return Request(
        id=f"chatcmpl-{uuid.uuid4().hex}",
        model=wire.model,
        messages=tuple(message.fact() for message in wire.messages),
        sampling=_sampling(wire),
        constraint=constraint,
        n=wire.n or 1,
        stream=bool(wire.stream),
        user=wire.user,
        api_key=api_key,
        metadata=wire.metadata or {},
        **wishes_of(wire.sluicegate),
        parts=parts_of(wire.sluicegate),
        tools=tools,
        tool_choice=choice,
        reasoning=reasoning,
    )


def _sampling(wire: ChatRequest) -> Sampling:
    if wire.top_logprobs and not wire.logprobs:
        raise RequestError("`top_logprobs` needs `logprobs: true`", param="top_logprobs")
    logprobs = (wire.top_logprobs or 0) if wire.logprobs else None
    return sampling_of(wire, max_tokens=wire.max_completion_tokens or wire.max_tokens, logprobs=logprobs)


def _tools(wire: ChatRequest) -> tuple[tuple[Tool, ...], ToolChoice]:
    if not wire.tools and not wire.tool_choice:
        return (), ToolChoice()
    functions = [tool.function for tool in wire.tools or ()]
    tools = tools_of((f.name, f.description, f.parameters) for f in functions)
    asked, parallel = wire.tool_choice, wire.parallel_tool_calls
    if isinstance(asked, NamedTool):
        return tools, choice_of(tools, "required", [asked.function.name], parallel=False)
    if isinstance(asked, AllowedChoice):
        allowed = asked.allowed_tools
        return tools, choice_of(tools, allowed.mode, [t.function.name for t in allowed.tools], parallel=parallel)
    return tools, choice_of(tools, asked, None, parallel=parallel)


def _reasoning(wire: ChatRequest) -> bool:
    asked = wire.reasoning
    if wire.sluicegate.reasoning is not None:
        return wire.sluicegate.reasoning
    if asked is not None:
        return asked.enabled if asked.enabled is not None else asked.effort != "none"
    return wire.reasoning_effort not in (None, "none")


def _constraint(wire: ChatRequest) -> Constraint | None:
    names = "`response_format` and `structured_outputs`"
    return the_one(constraint_of(wire.response_format, wire), structured_of(wire), wire, names)


def constraint_of(asked: ResponseFormat | None, wire: SharedFields) -> Constraint | None:
    if asked is None or asked.type == "text":
        return None
    options = wire.sluicegate.grammar
    if asked.type == "json_object" and asked.schema_ is not None:
        return Constraint("json_schema", asked.schema_, options=options)
    if asked.type == "json_object":
        return Constraint("json_object", options=options)
    if asked.type == "structural_tag":
        return Constraint("structural_tag", asked.model_dump(exclude={"json_schema", "schema_"}), options=options)
    assert asked.json_schema is not None
    return Constraint("json_schema", asked.json_schema.schema_, asked.json_schema.name, options)
