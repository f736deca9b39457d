"""Turn messages into bodies as HTTP has them, which HTTP's own parsers read: one table of fields, one set of errors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from google.protobuf.message import DecodeError

from sluicegate.gateway.api.body.parsing import Parsed, Tree
from sluicegate.gateway.api.body.reader import Reader, check_values
from sluicegate.gateway.api.dialects.chat_request import parse_chat
from sluicegate.gateway.api.endpoints.embeddings import ParsedEmbeddings, parse_embeddings
from sluicegate.gateway.grpc.messages import EmbedRequest, GenerateRequest, Message, Tool, ToolCall
from sluicegate.gateway.grpc.wire import check_entries, no_message
from sluicegate.gateway.prompts.places import BodyPlaces
from sluicegate.plugins import Request, RequestError
from sluicegate.plugins.json_names import Path

AS_THEY_ARE = frozenset({"model", "n", "temperature", "top_p", "seed", "max_tokens", "user", "parallel_tool_calls"})
M = TypeVar("M", GenerateRequest, EmbedRequest)
Read = Callable[[bytes, Reader, str | None], Parsed]


def read_chat(body: bytes, reader: Reader, key: str | None, *, stream: bool) -> Parsed:
    """Read a request for text. Raises `RequestError` that names the field as a chat completion's body has it."""
    message = _made(GenerateRequest, body, reader)
    texts = (message.more_json, *(tool.parameters for tool in message.tools))
    check_values(",".join(texts).encode(), reader.max_values)
    more = _object(message.more_json, "more_json", reader)
    tree = {"model": message.model, "messages": [], "stream": stream, **_tree(message, reader)}
    body_of_http = _with(more, tree, reader)
    try:
        parsed = parse_chat(body_of_http, key)
    except RequestError as error:
        in_fields(error)
        raise
    return replace(parsed, places=CallPlaces(NAMES, in_a_message(parsed.places.constraint)))


NAMES = {"logprobs": "top_logprobs"}
_DEEPER = re.compile(r"(?<=\d)(\]?)\.(?:function|custom)(?=\.)|\.format\.grammar(?=\.definition)")
_NAMED = re.compile(r"`(structured_outputs\.\w+)`")
_SHAPES = {"structured_outputs.regex": "regex", "structured_outputs.choice": "choice.values"}
_SHAPES |= {"structured_outputs.grammar": "grammar", "response_format": "json_object"}


@dataclass(frozen=True, slots=True)
class CallPlaces(BodyPlaces):
    """Tools and calls have no level for functions and texts."""

    def message(self, request: Request, at: int, rest: Path) -> Path:
        if rest[:1] == ("tool_calls",) and rest[2:3] == ("arguments",):
            custom = request.messages[at].tool_calls[int(rest[1])].name in request.custom_tools
            return ("messages", at, *rest[:2], "input" if custom else "arguments")
        return ("messages", at, *rest)

    def tool(self, request: Request, at: int, rest: Path) -> Path:
        form = request.tools[at].form if rest[:1] == ("form",) else None
        return ("tools", at, *rest) if form is None else ("tools", at, form.kind)


def in_a_message(place: str) -> str:
    """Return a place of a body as a message has it."""
    return _SHAPES.get(place) or _DEEPER.sub(r"\1", place)


def in_fields(error: RequestError) -> None:
    """Rename in `error` what HTTP's parser found, where a message has it elsewhere."""
    named = [in_a_message(place) for place in _NAMED.findall(error.message)]
    error.message = _NAMED.sub(lambda found: f"`{in_a_message(found[1])}`", error.message)
    if error.param == "structured_outputs" and named:
        error.param = named[0]
    if (param := error.param) is not None:
        error.param = in_a_message(param)
        error.message = error.message.replace(f"`{param}`", f"`{error.param}`")


def read_embeddings(body: bytes, reader: Reader, key: str | None) -> ParsedEmbeddings:
    """Read a request for embeddings. Raises `RequestError` that names the field."""
    message = _made(EmbedRequest, body, reader)
    tree: dict[str, Any] = {"model": message.model, "input": list(message.input)}
    tree |= {"user": message.user} if message.user else {}
    tree |= {"dimensions": message.dimensions} if message.HasField("dimensions") else {}
    more = _object(message.more_json, "more_json", reader)
    parsed = parse_embeddings(_with(more, tree, reader), key)
    if parsed.packed:
        raise RequestError(
            "`encoding_format`: vectors are lists of floats here, never base64; leave it out",
            param="encoding_format",
            code="unsupported_parameter",
        )
    return parsed


def _with(more: Tree, tree: dict[str, Any], reader: Reader) -> Tree:
    """Return `tree` and what `more_json` adds to it."""
    for name in more:
        if name in tree or name == "stream_options":
            raise RequestError(
                f"`{name}` in `more_json` has a field or a method of its own; send it there alone",
                param=name,
                code="contradiction",
            )
    tree.update(more)
    reader.check(tree)
    return tree


def _made(kind: type[M], body: bytes, reader: Reader) -> M:
    check_entries(body, kind.DESCRIPTOR, reader.max_values)
    try:
        return kind.FromString(body)
    except DecodeError as error:
        raise no_message() from error


def _tree(message: GenerateRequest, reader: Reader) -> dict[str, Any]:
    """Return the fields that are set, by their names in a body."""
    found: dict[str, Any] = {}
    for field, value in message.ListFields():
        name = field.name
        if name in AS_THEY_ARE:
            found[name] = _finite(name, value)
        elif name != "more_json" and (write := WRITERS.get(name)) is not None:
            found |= write(value, reader)
    return found | _tool_choice(message)


def _finite(name: str, value: Any) -> Any:
    """Return a value, unless it is infinite or no number: raises `RequestError`. JSON has no such numbers, so that no
    bound of a body refuses them."""
    if isinstance(value, float) and not math.isfinite(value):
        raise RequestError(f"`{name}` must be a finite number, found {value}", param=name, code="invalid_parameter")
    return value


def _messages(given: Any, reader: Reader) -> Tree:
    return {"messages": [dict(_message(one)) for one in given]}


def _message(one: Message) -> Iterator[tuple[str, Any]]:
    yield "role", one.role
    if one.HasField("content"):
        yield "content", one.content
    if one.name:
        yield "name", one.name
    if one.tool_calls:
        yield "tool_calls", [_call(call) for call in one.tool_calls]
    if one.tool_call_id:
        yield "tool_call_id", one.tool_call_id


def _call(call: ToolCall) -> Tree:
    if not call.HasField("input"):
        return {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
    if call.arguments:
        raise RequestError(
            f"the call {call.id!r} has `arguments` and `input`; a custom tool's has `input` alone",
            param="messages",
            code="contradiction",
        )
    return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.input}}


def _tools(given: Any, reader: Reader) -> Tree:
    return {"tools": [_tool(one, f"tools[{place}]", reader) for place, one in enumerate(given)]}


def _tool(one: Tool, where: str, reader: Reader) -> Tree:
    said: dict[str, Any] = {"name": one.name} | ({"description": one.description} if one.description else {})
    syntax = one.WhichOneof("format")
    if not one.custom:
        if syntax:
            raise RequestError(f"`{where}.{syntax}` is for a custom tool; set `custom`", param=where)
        if one.parameters:
            said["parameters"] = _object(one.parameters, f"{where}.parameters", reader)
        return {"type": "function", "function": said}
    if one.parameters:
        raise RequestError(f"`{where}`: a custom tool takes a text and has no `parameters`", param=where)
    if syntax:
        said["format"] = {"type": "grammar", "grammar": {"syntax": syntax, "definition": getattr(one, syntax)}}
    return {"type": "custom", "custom": said}


def _tool_choice(message: GenerateRequest) -> dict[str, Any]:
    mode, names = message.tool_choice, list(message.allowed_tools)
    if not names:
        return {"tool_choice": mode} if mode else {}
    kinds = {tool.name: "custom" if tool.custom else "function" for tool in message.tools}
    allowed = [{"type": (kind := kinds.get(name, "function")), kind: {"name": name}} for name in names]
    return {
        "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": mode or "auto", "tools": allowed}},
    }


def _object(text: str, where: str, reader: Reader) -> dict[str, Any]:
    """Return the object that `text` is as JSON, none for no text. Raises `RequestError` that names the place."""
    if not text:
        return {}
    try:
        return reader.tree(text.encode())
    except RequestError as error:
        said, body = error.message, "the body "
        error.message = f"`{where}` {said.removeprefix(body)}" if said.startswith(body) else f"`{where}`: {said}"
        error.param = error.param or where
        raise


def _json_object(asked: bool, reader: Reader) -> Tree:
    return {"response_format": {"type": "json_object"}} if asked else {}


Writer = Callable[[Any, Reader], Tree]
WRITERS: dict[str, Writer] = {
    "messages": _messages,
    "tools": _tools,
    "json_schema": lambda text, reader: {"json_schema": text},
    "json_object": _json_object,
    "regex": lambda text, reader: {"structured_outputs": {"regex": text}},
    "choice": lambda choices, reader: {"structured_outputs": {"choice": list(choices.values)}},
    "grammar": lambda text, reader: {"structured_outputs": {"grammar": text}},
    "structural_tag": lambda text, reader: {"structural_tag": text},
    "stop": lambda texts, reader: {"stop": list(texts)},
    "top_logprobs": lambda count, reader: {"logprobs": True, "top_logprobs": count},
    "metadata": lambda pairs, reader: {"metadata": dict(pairs)},
}
"""Writers of fields that the HTTP body spells differently."""
