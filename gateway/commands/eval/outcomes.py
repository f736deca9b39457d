"""What came back for a case, read from a chat completion."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

REFUSED_CODES = frozenset(("content_filter", "pending_review", "content_policy_violation"))


@dataclass(frozen=True, slots=True)
class UsedTool:
    name: str
    arguments: Any
    """Parsed; the original text where it is not JSON."""


@dataclass(frozen=True, slots=True)
class CaseReply:
    """An answer, a refusal, or neither: `error` says why it could not be asked."""

    text: str = ""
    tool_calls: tuple[UsedTool, ...] = ()
    refused: bool = False
    finish_reason: str = ""
    seconds: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    error: str = ""

    @property
    def value(self) -> Any:
        """Return the answer as a JSON value. Raises `ValueError`."""
        return json.loads(self.text)


def reply_of(status: int, body: Any, seconds: float) -> CaseReply:
    """Read the body of `/v1/chat/completions`; a refusal by a rail is an answer of its kind, not an error."""
    if not isinstance(body, dict):
        return CaseReply(seconds=seconds, error=f"status {status}, no JSON object")
    error = body.get("error")
    if status != 200 or error:
        told = error if isinstance(error, dict) else {}
        if told.get("code") in REFUSED_CODES:
            return CaseReply(text=str(told.get("message", "")), refused=True, finish_reason="refused", seconds=seconds)
        return CaseReply(seconds=seconds, error=f"status {status}: {told.get('message') or str(error)[:200]}")
    try:
        return _answered(body, seconds)
    except (LookupError, TypeError, AttributeError) as missing:
        return CaseReply(seconds=seconds, error=f"status {status}: no chat completion ({missing!r})")


def _answered(body: Mapping[str, Any], seconds: float) -> CaseReply:
    choice, usage = body["choices"][0], body.get("usage") or {}
    message, finish = choice["message"], str(choice.get("finish_reason"))
    calls = tuple(
        UsedTool(call["function"]["name"], _parsed(call["function"]["arguments"]))
        for call in message.get("tool_calls") or ()
        if "function" in call
    )
    return CaseReply(
        message.get("content") or message.get("refusal") or "",
        calls,
        finish == "content_filter" or bool(message.get("refusal")),
        finish,
        seconds,
        int(usage.get("prompt_tokens") or 0),
        int(usage.get("completion_tokens") or 0),
    )


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError):
        return text
