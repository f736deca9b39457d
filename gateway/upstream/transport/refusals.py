"""Translate upstream refusals. Their own words never reach a caller: they may quote a prompt or a key."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from sluicegate.gateway.upstream.http1.response import Response
from sluicegate.plugins import ContextLengthExceeded, RequestError

log = logging.getLogger("sluicegate.upstream")
MOST_BYTES = 65_536
LIMIT_S = 5.0
MOST_SHOWN = 500
CODES = frozenset(
    (
        "content_filter",
        "content_policy_violation",
        "context_length_exceeded",
        "integer_above_max_value",
        "integer_below_min_value",
        "invalid_function_parameters",
        "invalid_json_schema",
        "invalid_prompt",
        "invalid_type",
        "invalid_value",
        "missing_required_parameter",
        "string_above_max_length",
        "unknown_parameter",
        "unsupported_parameter",
        "unsupported_value",
    )
)
"""Codes of OpenAI's API that tell a caller something; others are not passed on."""
PARAMS = frozenset(
    (
        *("frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "messages", "model"),
        *("n", "parallel_tool_calls", "presence_penalty", "response_format", "seed", "stop", "stream", "temperature"),
        *("tool_choice", "tools", "top_logprobs", "top_p", "user"),
    )
)
"""Names of fields that a caller sent us."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Known parts of an error body, "" where absent. `message` is for logs only."""

    code: str = ""
    param: str = ""
    message: str = ""


async def refusal(answer: Response) -> Refusal:
    """Read an error body, bounded in bytes and time; empty where it is no error object."""
    body, until = bytearray(), asyncio.get_running_loop().time() + LIMIT_S
    with contextlib.suppress(OSError):
        while len(body) < MOST_BYTES and (piece := await answer.read(until)):
            body += piece
    with contextlib.suppress(orjson.JSONDecodeError):
        found = orjson.loads(bytes(body))
        if type(found) is dict and type(found.get("error")) is dict:
            return _listed(found["error"])
    return Refusal()


def _listed(sent: Mapping[str, Any]) -> Refusal:
    code, param, message = sent.get("code"), sent.get("param"), sent.get("message")
    place = param.partition("[")[0].partition(".")[0] if type(param) is str else ""
    return Refusal(
        code if type(code) is str and code in CODES else "",
        place if place in PARAMS else "",
        message if type(message) is str else "",
    )


def as_error(name: str, status: int, said: Refusal) -> RequestError:
    """Return our own error for a 400, 413 or 422."""
    reason = f" ({said.code.replace('_', ' ')})" if said.code else ""
    message = f"the server behind model {name!r} refused the request with status {status}{reason}"
    if said.code == "context_length_exceeded":
        return ContextLengthExceeded(message, param=said.param or None)
    return RequestError(message, param=said.param or None, code=said.code or None)


def shown(message: str) -> str:
    """Shorten a text for the log: one line of ASCII."""
    return message[:MOST_SHOWN].encode("unicode_escape").decode("ascii")
