"""Write the body for the upstream server: our request as `/chat/completions` spells it."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from sluicegate.gateway.fields import FORWARDED, asks
from sluicegate.gateway.upstream.dialects import SERVER_DIALECTS, written
from sluicegate.gateway.upstream.settings import UpstreamModelSettings
from sluicegate.plugins import Message, Request, RequestError, Sampling

_values_of = attrgetter(*(row.attribute for row in FORWARDED))
"""Of a `Sampling`, in the order of `FORWARDED`, in one call: most requests say next to nothing of these."""
_DEFAULTS = _values_of(Sampling())


def body_of(request: Request, settings: UpstreamModelSettings, name: str) -> dict[str, Any]:
    """Return the body to send. Raises `RequestError` for fields that the server does not know: none is left out
    silently."""
    body: dict[str, Any] = {
        "model": settings.model or name,
        "messages": [_message(message) for message in request.messages],
        **_sampling(request.sampling, settings),
        **written(request.constraint, settings.dialect),
        **_tools(request),
        **_prompting(request, settings),
    }
    if request.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if request.n != 1:
        body["n"] = request.n
    if request.reasoning:
        _check(SERVER_DIALECTS[settings.dialect].prompting, "sluicegate.reasoning")
        body["reasoning"] = True
    return body


def _check(fits: bool, parameter: str) -> None:
    if not fits:
        raise RequestError(
            f"`{parameter}` is not known to the server behind this model", param=parameter, code="unsupported_parameter"
        )


def with_complaint(body: dict[str, Any], answer: str, complaint: str) -> dict[str, Any]:
    """Append the broken answer and what is wrong with it."""
    asked = {"role": "user", "content": f"That answer is not valid: {complaint}. Give the whole answer again, valid."}
    return {**body, "messages": [*body["messages"], {"role": "assistant", "content": answer}, asked]}


def _message(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.name:
        found["name"] = message.name
    if message.tool_calls:
        found["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in message.tool_calls
        ]
    if message.tool_call_id:
        found["tool_call_id"] = message.tool_call_id
    return found


def _sampling(sampling: Sampling, settings: UpstreamModelSettings) -> dict[str, Any]:
    """Return what differs from the defaults, by the names of the table of fields. Raises `RequestError` for fields that
    the server does not know."""
    found: dict[str, Any] = {}
    for row, value, default in zip(FORWARDED, _values_of(sampling), _DEFAULTS, strict=True):
        if value == default:
            continue
        knows = row.is_known_to(settings.dialect)
        if knows or asks(row, value):
            _check(knows, row.path)
            found |= {row.path: value} if row.sent is None else row.sent(value)
    return found


def _prompting(request: Request, settings: UpstreamModelSettings) -> dict[str, Any]:
    """Return the fields that control how the server makes its prompt."""
    found: dict[str, Any] = {}
    if request.chat_template_kwargs:
        found["chat_template_kwargs"] = dict(request.chat_template_kwargs)
    if not request.add_generation_prompt:
        found["add_generation_prompt"] = False
    if request.continue_final_message:
        found["continue_final_message"] = True
    for name in reversed(found):
        _check(SERVER_DIALECTS[settings.dialect].prompting, name)
    return found


def _tools(request: Request) -> dict[str, Any]:
    tools = request.callable_tools
    if not tools:
        return {}
    choice = request.tool_choice
    asked: Any = choice.mode
    if choice.mode == "required" and choice.names is not None and len(choice.names) == 1:
        asked = {"type": "function", "function": {"name": next(iter(choice.names))}}
    return {
        "tools": [
            {
                "type": "function",
                "function": {"name": t.name, "description": t.description, "parameters": dict(t.parameters)},
            }
            for t in tools
        ],
        "tool_choice": asked,
        "parallel_tool_calls": choice.parallel,
    }
