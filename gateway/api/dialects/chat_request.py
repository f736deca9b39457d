"""Read bodies of `/v1/chat/completions`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from sluicegate.engine import RESERVED_VARIABLES
from sluicegate.gateway.api.body.constraint_fields import ConstrainedFields, constraint_of
from sluicegate.gateway.api.body.parsing import Parsed, Tree, read_body
from sluicegate.gateway.api.body.provider_tools import OfferedTools
from sluicegate.gateway.api.body.shared_fields import (
    check_combination,
    check_extension,
    parts_of,
    reasoning_of,
    sampling_of,
    wishes_of,
    without_effect,
)
from sluicegate.gateway.api.body.tool_fields import (
    AllowedChoice,
    CalledTool,
    ChatTool,
    Mode,
    NamedTool,
    choice_of,
    tools_of,
)
from sluicegate.gateway.api.body.unknown_fields import BodyFields, Listed, Wire
from sluicegate.gateway.prompts.places import BodyPlaces
from sluicegate.plugins import Constraint, Message, Request, RequestError, Sampling, Tool, ToolChoice
from sluicegate.plugins.json_names import Path

MAX_VARIABLES = 32
THOUGHTS = ("enable_thinking", "thinking")
"""Variables by which chat templates switch thoughts."""
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class TextPart(Wire):
    type: Literal["text"]
    text: str


class RefusalPart(Wire):
    type: Literal["refusal"]
    refusal: str


class ChatMessage(Wire):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | Listed[TextPart | RefusalPart] | None = None
    refusal: str | None = None
    name: str | None = None
    tool_calls: Listed[CalledTool] | None = None
    tool_call_id: str | None = None

    @model_validator(mode="after")
    def _fits_its_role(self) -> ChatMessage:
        if self.role == "tool" and not self.tool_call_id:
            raise ValueError("a message of role 'tool' needs `tool_call_id`: the call that it answers")
        if self.tool_calls and self.role != "assistant":
            raise ValueError("only an assistant's message has `tool_calls`")
        if self.content is None and self.role != "assistant":  # an assistant's may have been all thoughts, or calls
            raise ValueError(f'a message of role {self.role!r} needs `content`; an empty text is ""')
        return self

    def fact(self) -> Message:
        calls = tuple([call.fact() for call in self.tool_calls or ()])
        return Message(self.role, self._text(), self.name, calls, self.tool_call_id)

    def _text(self) -> str:
        if isinstance(self.content, list):
            parts = [part.text if isinstance(part, TextPart) else part.refusal for part in self.content]
            return "".join([*parts, self.refusal or ""])
        return (self.content or "") + (self.refusal or "")


class Reasoning(Wire):
    """`effort` other than "none" turns thoughts on; the model decides how many there are."""

    enabled: bool | None = None
    effort: Effort | None = None


class ChatRequest(ConstrainedFields):
    messages: Annotated[Listed[ChatMessage], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    tools: OfferedTools[ChatTool] | None = None
    tool_choice: Mode | NamedTool | AllowedChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning: Reasoning | None = None
    reasoning_effort: Effort | None = None
    include_reasoning: bool | None = None
    chat_template_kwargs: Annotated[dict[str, Any], Field(max_length=MAX_VARIABLES)] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    modalities: list[Literal["text"]] | None = None


FIELDS = BodyFields(ChatRequest, "chat")
OF_FUNCTION = {"name": "function.name", "description": "function.description", "parameters": "function.parameters"}
OF_TEXT_TOOL = {"name": "custom.name", "description": "custom.description", "form": "custom.format.grammar.definition"}


@dataclass(frozen=True, slots=True)
class ChatPlaces(BodyPlaces):
    """Messages and tools stand where they stand in a request; what is said of functions, one level deeper."""

    def message(self, request: Request, at: int, rest: Path) -> Path:
        if rest[:1] != ("tool_calls",) or rest[2:3] not in (("name",), ("arguments",)):
            return ("messages", at, *rest)
        called = request.messages[at].tool_calls[int(rest[1])]
        custom = called.name in request.custom_tools
        said = "input" if custom and rest[2] == "arguments" else rest[2]
        return ("messages", at, *rest[:2], "custom" if custom else "function", said)

    def tool(self, request: Request, at: int, rest: Path) -> Path:
        custom = at < len(request.tools) and request.tools[at].custom
        inner = (OF_TEXT_TOOL if custom else OF_FUNCTION).get(str(rest[0]), rest[0]) if rest else None
        below = rest[2:] if rest[:2] == ("form", "value") else rest[1:]
        return ("tools", at) if inner is None else ("tools", at, inner, *below)


PLACES = ChatPlaces()


def parse_chat(body: bytes | Tree, api_key: str | None = None) -> Parsed:
    """Read a request for chat completions. Raises `RequestError` that names the field by path."""
    wire, ignored = read_body(body, FIELDS)
    place, constraint = constraint_of(wire)
    request = _request(wire, constraint, api_key)
    return Parsed(
        request,
        include_usage=wire.include_usage,
        explain=wire.sluicegate.explain,
        ignored=(*ignored, *without_effect(request)),
        places=ChatPlaces(constraint=place) if place else PLACES,
    )


def _request(wire: ChatRequest, constraint: Constraint | None, api_key: str | None) -> Request:
    check_combination(wire, FIELDS)
    tools, choice = _tools(wire)
    reasoning = _reasoning(wire)
    check_extension(wire.sluicegate, constraint, shaped=bool(tools) or reasoning)
    return Request(
        id=f"chatcmpl-{os.urandom(16).hex()}",
        model=wire.model,
        messages=tuple([message.fact() for message in wire.messages]),
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
        chat_template_kwargs=_variables(wire.chat_template_kwargs),
        add_generation_prompt=wire.add_generation_prompt is not False and not wire.continue_final_message,
        continue_final_message=_continued(wire, reasoning),
    )


def _sampling(wire: ChatRequest) -> Sampling:
    if wire.top_logprobs and not wire.logprobs:
        raise RequestError("`top_logprobs` needs `logprobs: true`", param="top_logprobs")
    logprobs = (wire.top_logprobs or 0) if wire.logprobs else None
    return sampling_of(wire, FIELDS, on_length=wire.sluicegate.on_length, logprobs=logprobs)


def _tools(wire: ChatRequest) -> tuple[tuple[Tool, ...], ToolChoice]:
    if not wire.tools and not wire.tool_choice:
        return (), ToolChoice()
    tools = tools_of((tool.offered() for tool in wire.tools or ()), PLACES)
    asked, parallel = wire.tool_choice, wire.parallel_tool_calls
    if isinstance(asked, NamedTool):
        return tools, choice_of(tools, "required", [asked.name], parallel=False)
    if isinstance(asked, AllowedChoice):
        allowed = asked.allowed_tools
        return tools, choice_of(tools, allowed.mode, [t.name for t in allowed.tools], parallel=parallel)
    return tools, choice_of(tools, asked, None, parallel=parallel)


def _reasoning(wire: ChatRequest) -> bool:
    if wire.__pydantic_fields_set__.isdisjoint(THINKING):
        return False
    asked, variables = wire.reasoning or Reasoning(), wire.chat_template_kwargs or {}
    wishes = {
        "sluicegate.reasoning": wire.sluicegate.reasoning,
        "reasoning.enabled": asked.enabled,
        "reasoning.effort": None if asked.effort is None else asked.effort != "none",
        "reasoning_effort": None if wire.reasoning_effort is None else wire.reasoning_effort != "none",
        "include_reasoning": False if wire.include_reasoning is False else None,
    }
    for name in THOUGHTS:
        said = variables.get(name)
        wishes[f"chat_template_kwargs.{name}"] = said if isinstance(said, bool) else None
    return reasoning_of(wishes)


THINKING = frozenset({"sluicegate", "reasoning", "reasoning_effort", "include_reasoning", "chat_template_kwargs"})


def _variables(given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    for name in given or ():
        if name in RESERVED_VARIABLES:
            raise RequestError(
                f"`chat_template_kwargs.{name}` is set by the gateway itself; leave it out",
                param=f"chat_template_kwargs.{name}",
                code="unsupported_parameter",
            )
    return given or {}


def _continued(wire: ChatRequest, reasoning: bool) -> bool:
    """Return whether the last message is the beginning of the answer. Raises `RequestError` where it cannot be."""
    if not wire.continue_final_message:
        return False
    last = wire.messages[-1]
    for wrong, reason in (
        (bool(wire.add_generation_prompt), "and `add_generation_prompt` end the prompt in two ways; send one of them"),
        (last.role != "assistant", "needs a last message of the assistant: the beginning of the answer"),
        (bool(last.tool_calls), "needs a last message without calls of tools, which are whole"),
        (not last.fact().content.strip(), "needs a last message with text: the beginning of the answer"),
        (reasoning, "does not go together with thoughts, which come before the answer"),
    ):
        if wrong:
            raise RequestError(
                f"`continue_final_message` {reason}", param="continue_final_message", code="contradiction"
            )
    return True
