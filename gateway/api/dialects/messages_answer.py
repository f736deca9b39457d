"""Write answers of `/v1/messages`: messages of content blocks, the events of a stream, errors in Anthropic's shape."""

from __future__ import annotations

from typing import Any

import orjson

from sluicegate.gateway.answer.delta import Delta
from sluicegate.gateway.api.body.parsing import Parsed
from sluicegate.gateway.api.dialects.blocks import Block, BlockWriter, event
from sluicegate.gateway.api.extras import extended
from sluicegate.gateway.http.errors import error_detail, error_status
from sluicegate.gateway.request.context import Exchange
from sluicegate.plugins import Answer, RequestError, SluicegateError, TokenLogprob, exact_json

STOP = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}
NO_THREADS = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
"""What Anthropic's client reads to send the whole conversation with each turn instead, by itself."""


def message(exchange: Exchange, parsed: Parsed) -> bytes:
    """Write the body of a non-streamed answer."""
    [answer] = exchange.answers
    body = {
        **_envelope(exchange),
        "content": _content(answer, exchange),
        "stop_reason": _stop(answer),
        "stop_sequence": answer.stopped_by or None,
        "stop_details": _details(answer.refusal),
        "usage": _usage(exchange),
    }
    return exact_json.write(extended(body, exchange, explain=parsed.explain))


def _content(answer: Answer, exchange: Exchange) -> list[dict[str, Any]]:
    """Leave out a call whose arguments were cut short: `input` is an object, never half of one."""
    stopped = answer.finish_reason == "content_filter" or answer.refusal is not None
    blocks: list[dict[str, Any]] = []
    if answer.reasoning:
        blocks.append({"type": "thinking", "thinking": answer.reasoning, "signature": ""})
    if answer.text and not (stopped and exchange.request.constraint is not None):
        blocks.append({"type": "text", "text": answer.text})
    for call in () if stopped else answer.tool_calls:
        try:
            given = exact_json.read(call.arguments)
        except ValueError:
            continue
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": given})
    return blocks


class MessageWriter(BlockWriter):
    """Events of one stream."""

    def __init__(self, exchange: Exchange, parsed: Parsed) -> None:
        super().__init__(exchange)
        self._explain = parsed.explain
        self._refusal: str | None = None

    def opening(self) -> bytes:
        begun = {
            **_envelope(self._exchange),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(self._exchange),
        }
        return event("message_start", {"message": extended(begun, self._exchange, explain=False)})

    def delta(self, delta: Delta) -> bytes:
        if delta.finish_reason is not None:
            self._refusal = delta.refusal
        return super().delta(delta)

    def closing(self) -> bytes:
        [answer] = self._exchange.answers
        stopped = answer.stopped_by or None
        ended = {"stop_reason": _stop(answer), "stop_sequence": stopped, "stop_details": _details(self._refusal)}
        last = {"delta": ended, "usage": _usage(self._exchange)}
        fields = extended(last, self._exchange, explain=self._explain)
        return event("message_delta", fields) + event("message_stop", {})

    def failing(self, error: SluicegateError) -> bytes:
        return event("error", {"error": _detail(error)})

    def _opened(self, block: Block) -> bytes:
        if block.kind == "refusal":  # said in `stop_details`
            return b""
        begun: dict[str, Any] = {"type": "text", "text": ""}
        if block.kind == "reasoning":
            begun = {"type": "thinking", "thinking": "", "signature": ""}
        elif block.call is not None:
            begun = {"type": "tool_use", "id": block.call.id, "name": block.call.name, "input": {}}
        return event("content_block_start", {"index": block.number, "content_block": begun})

    def _grown(self, block: Block, text: str, logprobs: tuple[TokenLogprob, ...]) -> bytes:
        if block.kind == "refusal":
            return b""
        kind, name = _DELTAS[block.kind]
        return event("content_block_delta", {"index": block.number, "delta": {"type": kind, name: text}})

    def _closed(self, block: Block) -> bytes:
        return b"" if block.kind == "refusal" else event("content_block_stop", {"index": block.number})


_DELTAS = {
    "content": ("text_delta", "text"),
    "reasoning": ("thinking_delta", "thinking"),
    "tool_arguments": ("input_json_delta", "partial_json"),
}


def message_error(error: SluicegateError) -> bytes:
    return orjson.dumps({"type": "error", "error": _detail(error)})


def _detail(error: SluicegateError) -> dict[str, Any]:
    """Return Anthropic's fields, and those of ours that are known: the place, and what a caller goes on with."""
    status = error_status(error)
    kind = KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error")
    ours = {name: value for name, value in error_detail(error).items() if value is not None}
    detail: dict[str, Any] = {**ours, "type": kind}
    if isinstance(error, RequestError) and error.param == "thread":
        detail["details"] = NO_THREADS
    return detail


def _envelope(exchange: Exchange) -> dict[str, Any]:
    return {"id": exchange.request.id, "type": "message", "role": "assistant", "model": exchange.served.name}


def _stop(answer: Answer) -> str:
    if answer.refusal is not None:
        return "refusal"
    if answer.stopped_by and answer.finish_reason == "stop":
        return "stop_sequence"
    return STOP.get(answer.finish_reason, "end_turn")


def _details(refusal: str | None) -> dict[str, Any] | None:
    return None if refusal is None else {"type": "refusal", "category": None, "explanation": refusal}


def _usage(exchange: Exchange) -> dict[str, Any]:
    """Count as Anthropic does: what came from the prefix cache apart."""
    counted = exchange.reported_usage
    return {
        "input_tokens": counted.prompt_tokens - counted.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": counted.cached_tokens,
        "output_tokens": counted.completion_tokens,
    }
