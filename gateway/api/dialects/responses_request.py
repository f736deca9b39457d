"""Read bodies of `/v1/responses`: input items. Nothing is stored, so that what needs a stored response is refused."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from sluicegate.gateway.api.body.parsing import Parsed, Tree, read_body
from sluicegate.gateway.api.body.provider_tools import OfferedTools
from sluicegate.gateway.api.body.shared_fields import (
    Extension,
    StreamOptions,
    check_extension,
    check_stream,
    parts_of,
    reasoning_of,
    sampling_of,
    wishes_of,
    without_effect,
)
from sluicegate.gateway.api.body.tool_fields import (
    GrammarText,
    Mode,
    OfferedTool,
    choice_of,
    text_tool,
    tools_of,
)
from sluicegate.gateway.api.body.unknown_fields import BodyFields, Listed, Wire
from sluicegate.gateway.api.dialects.chat_request import Reasoning
from sluicegate.gateway.api.dialects.responses_input import NAMES, PLACES, Item, ResponsePlaces, messages_of
from sluicegate.plugins import Constraint, Message, Request, Sampling, Tool, ToolChoice

NOT_STORED = "responses are not stored here; send the whole conversation in `input`"
LOGPROBS = "message.output_text.logprobs"
"""All that can be included."""


class ResponseTextFormat(Wire):
    type: Literal["text", "grammar"]
    syntax: Literal["lark", "regex"] | None = None
    definition: str | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> ResponseTextFormat:
        if {self.syntax is None, self.definition is None} != {self.type == "text"}:
            raise ValueError("`syntax` and `definition` stand beside the type 'grammar', and only there")
        return self

    @property
    def grammar(self) -> GrammarText | None:
        if self.syntax is None or self.definition is None:
            return None
        return GrammarText(syntax=self.syntax, definition=self.definition)


class ResponseTool(Wire):
    """A function, or a custom tool, which takes a text."""

    type: Literal["function", "custom"]
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    format: ResponseTextFormat | None = None
    strict: bool | None = None

    @model_validator(mode="after")
    def _has_its_type(self) -> ResponseTool:
        other = "format" if self.type == "function" else "parameters"
        if getattr(self, other) is not None:
            raise ValueError(f"`{other}` is given, but `type` is {self.type!r}")
        return self

    def offered(self) -> OfferedTool:
        if self.type == "function":
            return OfferedTool(self.name, self.description, self.parameters)
        return text_tool(self.name, self.description, self.format.grammar if self.format else None)


class ResponseToolChoice(Wire):
    """A function by name, or several of them under a mode."""

    type: Literal["function", "custom", "allowed_tools"]
    name: str | None = None
    mode: Literal["auto", "required"] | None = None
    tools: Listed[ResponseToolChoice] | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> ResponseToolChoice:
        if self.type != "allowed_tools" and not self.name:
            raise ValueError("`name` says which tool")
        if self.type == "allowed_tools" and (self.mode is None or self.tools is None):
            raise ValueError("`allowed_tools` needs `mode` and `tools`")
        return self


class TextFormat(Wire):
    model_config = ConfigDict(populate_by_name=True)
    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] | bool | None = Field(default=None, alias="schema")
    strict: bool | None = None

    @property
    def shapes(self) -> bool:
        return True

    @model_validator(mode="after")
    def _has_schema(self) -> TextFormat:
        if self.type == "json_schema" and self.schema_ is None:
            raise ValueError("`schema` is required when `type` is 'json_schema'")
        if self.type != "json_schema" and self.schema_ is not None:
            raise ValueError(f"`schema` is given, but `type` is {self.type!r}; make it 'json_schema'")
        return self


class TextOptions(Wire):
    format: TextFormat | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ResponsesRequest(Wire):
    model: str
    input: str | Annotated[Listed[Item], Field(min_length=1)]
    instructions: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    include: Listed[str] | None = None
    text: TextOptions | None = None
    tools: OfferedTools[ResponseTool] | None = None
    tool_choice: Mode | ResponseToolChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning: Reasoning | None = None
    metadata: dict[str, str] | None = None
    user: str | None = None
    sluicegate: Extension = Field(default_factory=Extension)


FIELDS = BodyFields(ResponsesRequest, "responses")


@dataclass(frozen=True, slots=True)
class ParsedResponse(Parsed):
    """`echo`: what the answer repeats of the request."""

    echo: Mapping[str, Any] = field(default_factory=dict)


def parse_response(body: bytes | Tree, api_key: str | None = None) -> ParsedResponse:
    """Read a request for a response. Raises `RequestError` that names the field by path."""
    wire, ignored = read_body(body, FIELDS)
    said = messages_of(wire.instructions, wire.input)
    request = _request(wire, tuple([message for _, message in said]), api_key)
    return ParsedResponse(
        request,
        explain=wire.sluicegate.explain,
        ignored=(*ignored, *_not_included(wire), *without_effect(request)),
        places=ResponsePlaces(NAMES, "text.format.schema", tuple([origin for origin, _ in said])),
        echo=_echo(wire, request.tool_choice),
    )


def _not_included(wire: ResponsesRequest) -> Iterator[str]:
    return (f"include[]: {name}" for name in wire.include or () if name != LOGPROBS)


def _request(wire: ResponsesRequest, messages: tuple[Message, ...], api_key: str | None) -> Request:
    tools = tools_of((tool.offered() for tool in wire.tools or ()), PLACES)
    constraint, reasoning = _constraint(wire), _reasoning(wire)
    check_stream(wire.stream, wire.stream_options)
    check_extension(wire.sluicegate, constraint, shaped=bool(tools) or reasoning)
    return Request(
        id=f"resp_{os.urandom(16).hex()}",
        model=wire.model,
        messages=messages,
        sampling=_sampling(wire),
        constraint=constraint,
        stream=bool(wire.stream),
        user=wire.user,
        api_key=api_key,
        metadata=wire.metadata or {},
        **wishes_of(wire.sluicegate),
        parts=parts_of(wire.sluicegate),
        tools=tools,
        tool_choice=_choice(wire, tools),
        reasoning=reasoning,
    )


def _sampling(wire: ResponsesRequest) -> Sampling:
    wanted = wire.top_logprobs is not None or LOGPROBS in (wire.include or ())
    logprobs = (wire.top_logprobs or 0) if wanted else None
    return sampling_of(wire, FIELDS, on_length=wire.sluicegate.on_length, logprobs=logprobs)


def _choice(wire: ResponsesRequest, tools: tuple[Tool, ...]) -> ToolChoice:
    asked = wire.tool_choice
    if not isinstance(asked, ResponseToolChoice):
        return choice_of(tools, asked, None, parallel=wire.parallel_tool_calls) if asked or tools else ToolChoice()
    if asked.type != "allowed_tools":
        return choice_of(tools, "required", [asked.name or ""], parallel=False)
    return choice_of(tools, asked.mode, [t.name or "" for t in asked.tools or ()], parallel=wire.parallel_tool_calls)


def _reasoning(wire: ResponsesRequest) -> bool:
    asked = wire.reasoning or Reasoning()
    effort = None if asked.effort is None else asked.effort != "none"
    return reasoning_of(
        {
            "sluicegate.reasoning": wire.sluicegate.reasoning,
            "reasoning.enabled": asked.enabled,
            "reasoning.effort": effort,
        }
    )


def _constraint(wire: ResponsesRequest) -> Constraint | None:
    asked = wire.text.format if wire.text else None
    if asked is None or asked.type == "text":
        return None
    options = wire.sluicegate.grammar
    if asked.type == "json_object":
        return Constraint("json_object", options=options)
    return Constraint("json_schema", asked.schema_, asked.name, options)


def _echo(wire: ResponsesRequest, choice: ToolChoice) -> dict[str, Any]:
    form = wire.text.format.model_dump(by_alias=True, exclude_none=True) if wire.text and wire.text.format else None
    asked, given = wire.tool_choice, wire.__dict__
    return {
        "background": False,
        "instructions": wire.instructions,
        "max_output_tokens": given["max_output_tokens"],
        "max_tool_calls": None,
        "metadata": wire.metadata or {},
        "parallel_tool_calls": choice.parallel and wire.parallel_tool_calls is not False,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": wire.reasoning.effort if wire.reasoning else None, "summary": None},
        "safety_identifier": None,
        "service_tier": "default",
        "store": False,
        "text": {"format": form or {"type": "text"}},
        "tool_choice": asked.model_dump(exclude_none=True)
        if isinstance(asked, ResponseToolChoice)
        else asked or "auto",
        "tools": [_echoed(tool) for tool in wire.tools or ()],
        "truncation": "disabled",
        "user": wire.user,
    }


def _echoed(tool: ResponseTool) -> dict[str, Any]:
    said = tool.model_dump(exclude_none=True)
    return {"description": None, "strict": None, "parameters": None, **said} if tool.type == "function" else said
