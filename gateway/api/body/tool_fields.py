"""Tool fields of requests, in OpenAI's form, to which the other dialects are converted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from pydantic import model_validator

from sluicegate.gateway.answer.custom_text import INPUT, arguments_of, custom_parameters
from sluicegate.gateway.api.body.depth import JsonText
from sluicegate.gateway.api.body.unknown_fields import Wire
from sluicegate.gateway.prompts.places import BodyPlaces
from sluicegate.plugins import (
    Constraint,
    InvalidGrammar,
    Request,
    RequestError,
    Tool,
    ToolCall,
    ToolChoice,
    place_of,
)

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
NO_TOOLS = Request("", "", ())
_NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}


class Function(Wire):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class GrammarText(Wire):
    syntax: Literal["lark", "regex"]
    definition: str


class CustomFormat(Wire):
    type: Literal["text", "grammar"]
    grammar: GrammarText | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> CustomFormat:
        if (self.type == "grammar") != (self.grammar is not None):
            raise ValueError("`grammar` stands beside the type 'grammar', and only there")
        return self


class TextTool(Wire):
    """A custom tool: it takes a text, perhaps under a grammar."""

    name: str
    description: str | None = None
    format: CustomFormat | None = None


class ChatTool(Wire):
    type: Literal["function", "custom"]
    function: Function | None = None
    custom: TextTool | None = None

    @model_validator(mode="after")
    def _has_its_type(self) -> ChatTool:
        check_type(self)
        return self

    def offered(self) -> OfferedTool:
        if self.function is not None:
            return OfferedTool(self.function.name, self.function.description, self.function.parameters)
        assert self.custom is not None
        form = self.custom.format.grammar if self.custom.format else None
        return text_tool(self.custom.name, self.custom.description, form)


class Named(Wire):
    name: str


class NamedTool(Wire):
    type: Literal["function", "custom"]
    function: Named | None = None
    custom: Named | None = None

    @model_validator(mode="after")
    def _has_its_type(self) -> NamedTool:
        check_type(self)
        return self

    @property
    def name(self) -> str:
        named = self.function or self.custom
        assert named is not None
        return named.name


class AllowedTools(Wire):
    mode: Literal["auto", "required"]
    tools: list[NamedTool]


class AllowedChoice(Wire):
    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools


class CalledFunction(Wire):
    name: str
    arguments: JsonText


class CalledText(Wire):
    name: str
    input: str


class CalledTool(Wire):
    id: str
    type: Literal["function", "custom"] = "function"
    function: CalledFunction | None = None
    custom: CalledText | None = None

    @model_validator(mode="after")
    def _has_its_type(self) -> CalledTool:
        check_type(self)
        return self

    def fact(self) -> ToolCall:
        if self.function is not None:
            return ToolCall(self.id, self.function.name, self.function.arguments)
        assert self.custom is not None
        return ToolCall(self.id, self.custom.name, arguments_of(self.custom.input))


def check_type(wire: ChatTool | NamedTool | CalledTool) -> None:
    """Check that the field that `type` names is there, and the other is not. Raises `ValueError`."""
    other = "custom" if wire.type == "function" else "function"
    if getattr(wire, wire.type) is None:
        raise ValueError(f"`{wire.type}` is required when `type` is {wire.type!r}")
    if getattr(wire, other) is not None:
        raise ValueError(f"`{other}` is given, but `type` is {wire.type!r}")


Mode = Literal["none", "auto", "required", "any"]
"""`any` is Mistral's and Anthropic's word for `required`."""


class OfferedTool(NamedTuple):
    """A tool in any dialect. `parameters`: the schema of its arguments, unread."""

    name: str
    description: str | None
    parameters: dict[str, Any] | None
    custom: bool = False
    form: Constraint | None = None


def text_tool(name: str, description: str | None, grammar: GrammarText | None) -> OfferedTool:
    """Return a tool that takes text. The model is shown the grammar too: a mask cannot tell it what the text is for."""
    if grammar is None:
        return OfferedTool(name, description, custom_parameters(), custom=True)
    kind, called = ("lark", "Lark grammar") if grammar.syntax == "lark" else ("regex", "regular expression")
    shown = f"`{INPUT}` follows this {called}:\n{grammar.definition}"
    described = f"{description}\n\n{shown}" if description else shown
    form = Constraint(kind, grammar.definition)  # type: ignore[arg-type]
    return OfferedTool(name, described, custom_parameters(), custom=True, form=form)


def tools_of(given: Iterable[OfferedTool], places: BodyPlaces) -> tuple[Tool, ...]:
    """Return the tools of a request. Raises `RequestError` that names the tool, in the words of `places`."""
    tools: dict[str, Tool] = {}
    for i, (name, description, parameters, custom, form) in enumerate(given):
        if not _NAME.fullmatch(name):
            raise RequestError(
                f"{name[:80]!r} is no name for a tool; use 1 to 128 letters, digits, `_`, `-` and `.`",
                param=f"tools[{i}]",
            )
        if name in tools:
            raise RequestError(f"two tools are named {name!r}", param=f"tools[{i}]")
        tools[name] = Tool(name, description or "", _arguments(i, name, parameters, places), custom, form)
    return tuple(tools.values())


def _arguments(i: int, name: str, parameters: dict[str, Any] | None, places: BodyPlaces) -> dict[str, Any]:
    """Return a schema of an object, also where the given one forgets to say so."""
    if not parameters:
        return _NO_ARGUMENTS
    kind = parameters.get("type", "object")
    if kind != "object":
        raise InvalidGrammar(
            f"the arguments of tool {name!r} must be an object, not {kind!r}",
            pointer="/type",
            param=place_of(places.tool(NO_TOOLS, i, ("parameters",))),
        )
    return parameters if "type" in parameters else {**parameters, "type": "object"}


def choice_of(
    tools: Sequence[Tool], mode: Mode | None, names: Iterable[str] | None, *, parallel: bool | None
) -> ToolChoice:
    """Return which tools may or must be called. Raises `RequestError` where a choice names a tool that is not there, or
    demands a call where none is possible."""
    wanted = None if names is None else frozenset(names)
    missing = sorted(wanted - {tool.name for tool in tools}) if wanted else []
    if missing:
        raise RequestError(f"`tool_choice` names {missing[0]!r}, which is not in `tools`", param="tool_choice")
    mode = "required" if mode == "any" else mode
    if mode == "required" and (not tools or wanted == frozenset()):
        raise RequestError("`tool_choice` demands a call, but there are no tools", param="tool_choice")
    return ToolChoice(mode or "auto", wanted, parallel is not False)
