"""Read bodies of `/v1/messages`, Anthropic's: content blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from sluicegate.gateway.api.body.parsing import Parsed, Tree, read_body
from sluicegate.gateway.api.body.provider_tools import OfferedTools
from sluicegate.gateway.api.body.shared_fields import (
    Extension,
    check_extension,
    contradiction,
    parts_of,
    reasoning_of,
    sampling_of,
    wishes_of,
    without_effect,
)
from sluicegate.gateway.api.body.tool_fields import OfferedTool, choice_of, tools_of
from sluicegate.gateway.api.body.unknown_fields import BodyFields, Listed, Wire
from sluicegate.gateway.prompts.places import BodyPlaces, MessageOrigin, of_origins
from sluicegate.plugins import (
    Constraint,
    Message,
    Request,
    RequestError,
    Sampling,
    Tool,
    ToolCall,
    ToolChoice,
    exact_json,
)
from sluicegate.plugins.json_names import Path

NAMES = {"stop": "stop_sequences"}
"""What this dialect calls parameters of chat, where it differs."""


class TextBlock(Wire):
    type: Literal["text"]
    text: str


class ToolUse(Wire):
    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]


class ToolResult(Wire):
    type: Literal["tool_result"]
    tool_use_id: str
    content: str | Listed[TextBlock] | None = None
    is_error: bool | None = None


class TextSource(Wire):
    type: Literal["text"]
    data: str


class DocumentBlock(Wire):
    """Text of others; the input rails judge it as a document."""

    type: Literal["document"]
    source: TextSource
    title: str | None = None


class SearchResult(Wire):
    """What a search found; the input rails judge it as a document."""

    type: Literal["search_result"]
    source: str
    title: str
    content: Listed[TextBlock]


class ThinkingBlock(Wire):
    """Thoughts of an earlier answer; models are not shown them again."""

    type: Literal["thinking", "redacted_thinking"]


ContentBlock = Annotated[
    TextBlock | ToolUse | ToolResult | DocumentBlock | SearchResult | ThinkingBlock, Field(discriminator="type")
]


class MessagesTurn(Wire):
    """`system`: what the system says in the middle of the conversation, besides the field `system`."""

    role: Literal["user", "assistant", "system"]
    content: str | Listed[ContentBlock]

    @model_validator(mode="after")
    def _says_what_its_role_may(self) -> MessagesTurn:
        blocks = () if isinstance(self.content, str) else self.content
        other = next((block.type for block in blocks if not isinstance(block, TextBlock)), None)
        if self.role == "system" and other:
            raise ValueError(f"a message of role 'system' is text, found a block of type {other!r}")
        return self


class CustomTool(Wire):
    type: Literal["custom"] | None = None
    name: str
    description: str | None = None
    input_schema: dict[str, Any]


class MessageToolChoice(Wire):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class JsonFormat(Wire):
    model_config = ConfigDict(populate_by_name=True)
    type: Literal["json_schema"]
    schema_: dict[str, Any] | bool = Field(alias="schema")

    @property
    def shapes(self) -> bool:
        return True


class OutputConfig(Wire):
    format: JsonFormat | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None


class Thinking(Wire):
    """`adaptive` thinks too: when to think is no choice of the models here. `budget_tokens` is less than `max_tokens`
    and has no effect: `max_tokens` bounds thoughts and answer together."""

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: Annotated[int, Field(ge=1)] | None = None


class Meta(Wire):
    user_id: str | None = None


class MessagesRequest(Wire):
    model: str
    messages: Annotated[Listed[MessagesTurn], Field(min_length=1)]
    max_tokens: Annotated[int, Field(ge=1)]
    system: str | Listed[TextBlock] | None = None
    stream: bool | None = None
    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    stop_sequences: Annotated[list[Annotated[str, Field(min_length=1)]], Field(max_length=16)] | None = None
    tools: OfferedTools[CustomTool] | None = None
    tool_choice: MessageToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: JsonFormat | None = None
    metadata: Meta | None = None
    sluicegate: Extension = Field(default_factory=Extension)


FIELDS = BodyFields(MessagesRequest, "messages")
OF_TOOL = {"parameters": "input_schema"}
OF_CALL = {"arguments": "input"}


@dataclass(frozen=True, slots=True)
class MessagesPlaces(BodyPlaces):
    """`origins`: of each message, the block that it was made of."""

    origins: tuple[MessageOrigin, ...] = ()

    def message(self, request: Request, at: int, rest: Path) -> Path:
        return of_origins(self.origins, at, rest, OF_CALL)

    def tool(self, request: Request, at: int, rest: Path) -> Path:
        return ("tools", at, *(OF_TOOL.get(str(step), step) for step in rest[:1]), *rest[1:])


PLACES = MessagesPlaces(NAMES)


def parse_messages(body: bytes | Tree, api_key: str | None = None) -> Parsed:
    """Read a request for messages. Raises `RequestError` that names the field by path."""
    wire, ignored = read_body(body, FIELDS)
    said = list(_messages(wire))
    request = _request(wire, tuple([message for _, message in said]), api_key)
    newer = wire.output_config is not None and wire.output_config.format is not None
    place = "output_config.format.schema" if newer else "output_format.schema"
    places = MessagesPlaces(NAMES, place, tuple([origin for origin, _ in said]))
    ignored += without_effect(request)
    return Parsed(request, explain=wire.sluicegate.explain, ignored=ignored, places=places)


def _thinks(thinking: Thinking, max_tokens: int) -> bool:
    """Return whether the model thinks. Raises `RequestError` for a budget that leaves no token for the answer."""
    budget = thinking.budget_tokens
    if budget is not None and budget >= max_tokens:
        raise RequestError(
            f"thinking.budget_tokens ({budget}) leaves none of max_tokens ({max_tokens}) for the answer; raise "
            "max_tokens",
            param="thinking.budget_tokens",
        )
    return thinking.type != "disabled"


def _request(wire: MessagesRequest, messages: tuple[Message, ...], api_key: str | None) -> Request:
    offered = (OfferedTool(tool.name, tool.description, tool.input_schema) for tool in wire.tools or ())
    tools = tools_of(offered, PLACES)
    constraint = _constraint(wire)
    thinking = None if wire.thinking is None else _thinks(wire.thinking, wire.max_tokens)
    reasoning = reasoning_of({"sluicegate.reasoning": wire.sluicegate.reasoning, "thinking": thinking})
    check_extension(wire.sluicegate, constraint, shaped=bool(tools) or reasoning)
    return Request(
        id=f"msg_{os.urandom(16).hex()}",
        model=wire.model,
        messages=messages,
        sampling=_sampling(wire),
        constraint=constraint,
        stream=bool(wire.stream),
        user=wire.metadata.user_id if wire.metadata else None,
        api_key=api_key,
        **wishes_of(wire.sluicegate),
        parts=parts_of(wire.sluicegate),
        tools=tools,
        tool_choice=_choice(wire, tools),
        reasoning=reasoning,
        add_generation_prompt=wire.messages[-1].role != "assistant",
        continue_final_message=_continued(wire, reasoning),
    )


def _continued(wire: MessagesRequest, reasoning: bool) -> bool:
    """Return whether the last message, of the assistant, is the beginning of the answer. Raises `RequestError` where it
    cannot be."""
    last = wire.messages[-1]
    if last.role != "assistant":
        return False
    said = [message for _, message in _turn(len(wire.messages) - 1, last)]
    if len(said) != 1 or said[0].tool_calls or not said[0].content.strip() or reasoning:
        raise RequestError(
            "`messages`: the last message is the assistant's, so that the answer goes on from it; that needs text, no "
            "calls of tools, and no thoughts, which would come before it",
            param="messages",
            code="contradiction",
        )
    return True


def _sampling(wire: MessagesRequest) -> Sampling:
    return sampling_of(wire, FIELDS, on_length=wire.sluicegate.on_length, logprobs=None)


def _choice(wire: MessagesRequest, tools: tuple[Tool, ...]) -> ToolChoice:
    asked = wire.tool_choice
    if asked is None:
        return ToolChoice()
    parallel = not asked.disable_parallel_tool_use
    if asked.type == "tool":
        return choice_of(tools, "required", [asked.name or ""], parallel=parallel)
    modes: dict[str, Literal["none", "auto", "required"]] = {"any": "required", "auto": "auto", "none": "none"}
    return choice_of(tools, modes[asked.type], None, parallel=parallel)


def _constraint(wire: MessagesRequest) -> Constraint | None:
    """Return the constraint of the answer, or None. `output_format` is the older place of `output_config.format`."""
    newer = wire.output_config.format if wire.output_config else None
    if newer is not None and wire.output_format is not None and newer != wire.output_format:
        raise contradiction("output_config.format", "output_format")
    asked = newer or wire.output_format
    if asked is None:
        return None
    if wire.stop_sequences:
        raise RequestError(
            "`stop_sequences` would cut a structured answer in the middle; leave them out", param="stop_sequences"
        )
    return Constraint("json_schema", asked.schema_, None, wire.sluicegate.grammar)


Said = tuple[MessageOrigin, Message]


def _messages(wire: MessagesRequest) -> Iterator[Said]:
    if wire.system:
        yield MessageOrigin(_at(("system",), wire.system)), Message("system", _text(wire.system))
    for at, turn in enumerate(wire.messages):
        yield from _turn(at, turn)


def _turn(at: int, turn: MessagesTurn) -> Iterator[Said]:
    """Yield results of tools and documents as messages of their own, which is how the rails know them."""
    if isinstance(turn.content, str):
        yield MessageOrigin(("messages", at, "content")), Message(turn.role, turn.content)
        return
    text: list[tuple[int, str]] = []
    calls: list[tuple[Path, ToolCall]] = []
    for number, block in enumerate(turn.content):
        place: Path = ("messages", at, "content", number)
        if isinstance(block, TextBlock):
            text.append((number, block.text))
        elif isinstance(block, ToolUse):
            calls.append((place, ToolCall(block.id, block.name, exact_json.write(block.input).decode())))
        elif isinstance(block, ToolResult):
            failed = "The call failed: " if block.is_error else ""
            said = Message("tool", failed + _text(block.content or ""), tool_call_id=block.tool_use_id)
            yield MessageOrigin(_at((*place, "content"), block.content), answers=(*place, "tool_use_id")), said
        elif isinstance(block, DocumentBlock):
            title = f"[{block.title}]\n" if block.title else ""
            yield MessageOrigin((*place, "source", "data")), Message("user", title + block.source.data, "document")
        elif isinstance(block, SearchResult):
            found = f"[{block.title}] {block.source}\n{_text(block.content)}"
            yield MessageOrigin(_at((*place, "content"), block.content)), Message("user", found, "document")
    if text or calls:
        place = ("messages", at, "content") + ((text[0][0], "text") if len(text) == 1 else ())
        said = Message(turn.role, "".join([part for _, part in text]), tool_calls=tuple([call for _, call in calls]))
        yield MessageOrigin(place, tuple([where for where, _ in calls])), said


def _at(place: Path, content: str | Listed[TextBlock] | None) -> Path:
    """Return the place of a text: the block, where there is one alone."""
    return (*place, 0, "text") if isinstance(content, list) and len(content) == 1 else place


def _text(content: str | Listed[TextBlock]) -> str:
    return content if isinstance(content, str) else "".join(block.text for block in content)
