"""What is asked of the other server: our request in the words of `/chat/completions`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.upstream.settings import UpstreamModelSettings
from plugins import Constraint, Message, Request, RequestError, Sampling, UnsupportedGrammar

ONLY_HERE: Mapping[str, tuple[str, Any]] = {
    "typical_p": ("typical_p", 1.0),
    "bad_words": ("bad_words", ()),
    "best_of": ("best_of", None),
    "use_beam_search": ("use_beam_search", False),
    "close_on_length": ("sluicegate.on_length", False),
}
"""Parameters that no other server is asked for: what callers call them, and the values that mean nothing."""
BEYOND_OPENAI: Mapping[str, Any] = {
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "min_tokens": 0,
    "ignore_eos": False,
}
"""Parameters that OpenAI's own API does not have, with the values that mean nothing."""


def body_of(request: Request, settings: UpstreamModelSettings, name: str) -> dict[str, Any]:
    """Raises `RequestError` for what that server would not understand: nothing is left out silently."""
    body: dict[str, Any] = {
        "model": settings.model or name,
        "messages": [_message(message) for message in request.messages],
        **_sampling(request.sampling, settings),
        **_constraint(request.constraint, settings),
        **_tools(request),
    }
    if request.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if request.n != 1:
        body["n"] = request.n
    if request.reasoning:
        _check(settings.dialect == "vllm", "sluicegate.reasoning")
        body["reasoning"] = True
    return body


def _check(fits: bool, parameter: str) -> None:
    if not fits:
        raise RequestError(
            f"`{parameter}` is not known to the server behind this model", param=parameter, code="unsupported_parameter"
        )


def with_complaint(body: dict[str, Any], answer: str, complaint: str) -> dict[str, Any]:
    """The same, with the broken answer and what is wrong with it."""
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
    found: dict[str, Any] = {
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": None if sampling.top_p == 1.0 else sampling.top_p,
        "frequency_penalty": sampling.frequency_penalty or None,
        "presence_penalty": sampling.presence_penalty or None,
        "seed": sampling.seed,
        "stop": list(sampling.stop) or None,
        "logit_bias": {str(token): bias for token, bias in sampling.logit_bias.items()} or None,
    }
    if sampling.logprobs is not None:
        found |= {"logprobs": True, "top_logprobs": sampling.logprobs}
    for parameter, nothing in BEYOND_OPENAI.items():
        value = getattr(sampling, parameter)
        if value == nothing:
            continue
        _check(settings.dialect == "vllm", parameter)
        found[parameter] = value
    for attribute, (parameter, nothing) in ONLY_HERE.items():
        _check(getattr(sampling, attribute) == nothing, parameter)
    return {parameter: value for parameter, value in found.items() if value is not None}


def _constraint(constraint: Constraint | None, settings: UpstreamModelSettings) -> dict[str, Any]:
    if constraint is None:
        return {}
    if constraint.kind == "json_object":
        return {"response_format": {"type": "json_object"}}
    if constraint.kind == "json_schema":
        schema = {"name": constraint.name or "answer", "schema": constraint.value, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    if settings.dialect != "vllm":
        raise UnsupportedGrammar(
            f"the server behind this model takes JSON schemas only, not {constraint.kind}", param="structured_outputs"
        )
    name = {"lark": "grammar"}.get(constraint.kind, constraint.kind)
    value = list(constraint.value) if constraint.kind == "choice" else constraint.value
    return {"structured_outputs": {name: value}}


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
