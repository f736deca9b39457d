"""Tools on the wire, in OpenAI's spelling and in what the spellings of others become."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from sluicegate.gateway.api.body.depth import JsonText
from sluicegate.gateway.api.body.unknown_fields import Wire
from sluicegate.plugins import InvalidGrammar, RequestError, Tool, ToolCall, ToolChoice

MAX_TOOLS = 128
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}


class Function(Wire):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class FunctionTool(Wire):
    type: Literal["function"]
    function: Function


class Named(Wire):
    name: str


class NamedTool(Wire):
    type: Literal["function"]
    function: Named


class AllowedTools(Wire):
    mode: Literal["auto", "required"]
    tools: list[NamedTool]


class AllowedChoice(Wire):
    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools


class CalledFunction(Wire):
    name: str
    arguments: JsonText


class CalledTool(Wire):
    id: str
    type: Literal["function"] = "function"
    function: CalledFunction

    def fact(self) -> ToolCall:
        return ToolCall(self.id, self.function.name, self.function.arguments)


Mode = Literal["none", "auto", "required"]


def tools_of(given: Iterable[tuple[str, str | None, dict[str, Any] | None]]) -> tuple[Tool, ...]:
    """Make tools of (name, description, schema of the arguments). Raises `RequestError` that names the tool."""
    tools: dict[str, Tool] = {}
    for i, (name, description, parameters) in enumerate(given):
        if not _NAME.fullmatch(name):
            raise RequestError(
                f"{name!r} is no name for a tool; use letters, digits, `_`, `-` and `.`", param=f"tools.{i}"
            )
        if name in tools:
            raise RequestError(f"two tools are named {name!r}", param=f"tools.{i}")
        if len(tools) == MAX_TOOLS:
            raise RequestError(f"at most {MAX_TOOLS} tools are read", param="tools")
        tools[name] = Tool(name, description or "", _arguments(name, parameters))
    return tuple(tools.values())


def _arguments(name: str, parameters: dict[str, Any] | None) -> dict[str, Any]:
    """Return a schema of an object, also where the given one forgets to say so."""
    if not parameters:
        return _NO_ARGUMENTS
    kind = parameters.get("type", "object")
    if kind != "object":
        raise InvalidGrammar(f"the arguments of tool {name!r} must be an object, not {kind!r}", pointer="/type")
    return parameters if "type" in parameters else {**parameters, "type": "object"}


def choice_of(
    tools: Sequence[Tool], mode: Mode | None, names: Iterable[str] | None, *, parallel: bool | None
) -> ToolChoice:
    """Raises `RequestError` where a choice names a tool that is not there, or demands a call where none is possible."""
    wanted = None if names is None else frozenset(names)
    missing = sorted(wanted - {tool.name for tool in tools}) if wanted else []
    if missing:
        raise RequestError(f"`tool_choice` names {missing[0]!r}, which is not in `tools`", param="tool_choice")
    if mode == "required" and (not tools or wanted == frozenset()):
        raise RequestError("`tool_choice` demands a call, but there are no tools", param="tool_choice")
    return ToolChoice(mode or "auto", wanted, parallel is not False)
