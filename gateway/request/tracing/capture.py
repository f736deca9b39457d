"""Capture the texts of a request for traces, where the operator opted in: never more than the rails let through.

Answers are as they left. Messages are as the input rails left them, and read once more by the output rails, so that a
trace holds nothing that must not leave in an answer; a message that a rail would block is withheld whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.telemetry.finished_request import CapturedContent
from sluicegate.plugins import ContentBlocked, Message, PendingReview
from sluicegate.safety import HoldbackWindow

VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
WITHHELD = "[withheld by a safety rail]"
MOST_CHARS = 50_000
"""Most characters of one schema."""
REFUSED = (ContentBlocked.code, PendingReview.code)


def wanted(environ: Mapping[str, str], setting: bool) -> bool:
    """Return whether the operator opted in, by the configuration or by the variable of the conventions."""
    return setting or environ.get(VARIABLE, "").upper() in ("SPAN_ONLY", "SPAN_AND_EVENT", "TRUE")


class OutputCapture:
    """Reads with the output rails that the request ran on."""

    def __call__(self, exchange: Exchange) -> CapturedContent | None:
        """Return None where the messages were never screened; those that an input rail refused are withheld whole."""
        if exchange.model is None:
            withheld = tuple([(message.role, WITHHELD) for message in exchange.request.messages])
            said = tuple([(message.role, message.content) for message in exchange.request.messages])
            return CapturedContent(withheld, (), withheld=said) if exchange.error in REFUSED else None
        messages = tuple([(message.role, self._read(message, exchange)) for message in exchange.request.messages])
        answers = tuple(
            [(hidden(answer.text, exchange.safety.restore), answer.finish_reason) for answer in exchange.answers]
        )
        return CapturedContent(messages, answers, self._asked(exchange))

    def _asked(self, exchange: Exchange) -> tuple[tuple[str, str], ...]:
        """Return what shape was asked for, in the caller's words."""
        request = exchange.request
        found: list[tuple[str, Any]] = (
            [] if request.constraint is None else [(request.constraint.kind, request.constraint.value)]
        )
        found += [
            (f"tool {tool.name}", {"description": tool.description, "parameters": tool.parameters})
            for tool in request.tools
        ]
        return tuple([(what, self._read(Message("user", _written(value)), exchange)) for what, value in found])

    def _read(self, message: Message, exchange: Exchange) -> str:
        try:
            window = HoldbackWindow([rail for _, rail in exchange.stages.moderate], exchange.request, exchange.caller)
            steps = (window.feed(message.content), window.close())
        except Exception:  # a rail's own failure: withholding is always safe
            return WITHHELD
        return WITHHELD if window.blocked else "".join([step.text for step in steps])


def _written(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]}… ({len(text)} characters)"


def hidden(text: str, restored: Mapping[str, str]) -> str:
    """Put placeholders back for values that only the caller may see. `restored`: placeholder -> value."""
    for placeholder, value in sorted(restored.items(), key=lambda pair: -len(pair[1])):
        for spelled in {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}:
            text = text.replace(spelled, placeholder)
    return text
