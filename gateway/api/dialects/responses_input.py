"""Items of `input` in `/v1/responses`: as they are written, as messages, and where each stood."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import model_validator

from sluicegate.gateway.answer.custom_text import arguments_of
from sluicegate.gateway.api.body.depth import JsonText
from sluicegate.gateway.api.body.unknown_fields import Listed, Wire
from sluicegate.gateway.prompts.places import BodyPlaces, MessageOrigin, of_origins
from sluicegate.plugins import Message, Request, RequestError, ToolCall
from sluicegate.plugins.json_names import Path

NAMES = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "logprobs": "top_logprobs",
}
"""What this dialect calls parameters of chat, where it differs."""


class ResponsePart(Wire):
    """`input_text`, `output_text` or `refusal`."""

    type: Literal["input_text", "output_text", "text", "refusal"]
    text: str | None = None
    refusal: str | None = None

    @model_validator(mode="after")
    def _says_something(self) -> ResponsePart:
        wanted = "refusal" if self.type == "refusal" else "text"
        if getattr(self, wanted) is None:
            raise ValueError(f'`{wanted}` is required when `type` is {self.type!r}; an empty one is ""')
        return self

    def said(self) -> str:
        return (self.text or "") + (self.refusal or "")


class InputMessage(Wire):
    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: str | Listed[ResponsePart]


class FunctionCall(Wire):
    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: JsonText


class FunctionOutput(Wire):
    type: Literal["function_call_output"]
    call_id: str
    output: str | Listed[ResponsePart]


class ReasoningItem(Wire):
    """Thoughts of an earlier answer; models are not shown them again."""

    type: Literal["reasoning"]


class CustomCall(Wire):
    type: Literal["custom_tool_call"]
    call_id: str
    name: str
    input: str


class CustomOutput(Wire):
    type: Literal["custom_tool_call_output"]
    call_id: str
    output: str | Listed[ResponsePart]


Item = FunctionCall | FunctionOutput | CustomCall | CustomOutput | ReasoningItem | InputMessage


OF_CALL = {"id": "call_id"}
OF_TEXT_CALL = OF_CALL | {"arguments": "input"}


@dataclass(frozen=True, slots=True)
class ResponsePlaces(BodyPlaces):
    """`origins`: of each message, the item that it was made of."""

    origins: tuple[MessageOrigin, ...] = ()

    def message(self, request: Request, at: int, rest: Path) -> Path:
        is_call = rest[:1] == ("tool_calls",) and len(rest) > 1
        called = request.messages[at].tool_calls[int(rest[1])].name if is_call else ""
        return of_origins(self.origins, at, rest, OF_TEXT_CALL if called in request.custom_tools else OF_CALL)

    def tool(self, request: Request, at: int, rest: Path) -> Path:
        if rest[:1] == ("form",):
            return ("tools", at, "format", "definition")
        return ("tools", at, *rest)


PLACES = ResponsePlaces(NAMES)


Said = tuple[MessageOrigin, Message]


def messages_of(instructions: str | None, given: str | list[Any]) -> list[Said]:
    """Return the messages of a body, each with its place. Raises `RequestError` where there are none."""
    said = [(MessageOrigin(("instructions",)), Message("system", instructions))] if instructions else []
    for origin, message in _items(given):
        before, last = said[-1] if said else (None, None)
        if message.tool_calls and before is not None and last is not None and last.role == "assistant":
            calls = before.calls + origin.calls
            said[-1] = before._replace(calls=calls), replace(last, tool_calls=last.tool_calls + message.tool_calls)
        else:
            said.append((origin, message))
    if all(message.role == "system" for _, message in said):
        raise RequestError("`input` has no message", param="input")
    return said


def _items(items: str | list[Any]) -> Iterator[Said]:
    if isinstance(items, str):
        yield MessageOrigin(("input",)), Message("user", items)
        return
    for at, item in enumerate(items):
        place: Path = ("input", at)
        if isinstance(item, FunctionCall):
            call = ToolCall(item.call_id, item.name, item.arguments)
            yield MessageOrigin(place, (place,)), Message("assistant", "", tool_calls=(call,))
        elif isinstance(item, CustomCall):
            call = ToolCall(item.call_id, item.name, arguments_of(item.input))
            yield MessageOrigin(place, (place,)), Message("assistant", "", tool_calls=(call,))
        elif isinstance(item, FunctionOutput | CustomOutput):
            origin = MessageOrigin(_at((*place, "output"), item.output), answers=(*place, "call_id"))
            yield origin, Message("tool", _text(item.output), tool_call_id=item.call_id)
        elif isinstance(item, InputMessage):
            yield MessageOrigin(_at((*place, "content"), item.content)), Message(item.role, _text(item.content))


def _at(place: Path, content: str | Listed[ResponsePart]) -> Path:
    """Return the place of a text: the part, where there is one alone."""
    if isinstance(content, str) or len(content) != 1:
        return place
    return (*place, 0, "text" if content[0].refusal is None else "refusal")


def _text(content: str | Listed[ResponsePart]) -> str:
    return content if isinstance(content, str) else "".join(part.said() for part in content)
