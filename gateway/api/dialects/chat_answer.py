"""Write answers of `/v1/chat/completions`: whole, and as the frames of a stream."""

from __future__ import annotations

from typing import Any

import orjson

from sluicegate.gateway.answer.custom_text import TextDecoder, text_of
from sluicegate.gateway.answer.delta import Delta
from sluicegate.gateway.answer.partial import PartialValues
from sluicegate.gateway.api.body.parsing import Parsed
from sluicegate.gateway.api.dialects.chunks import ChunkStream, envelope
from sluicegate.gateway.api.extras import delta_notes, extended, logprobs, usage
from sluicegate.gateway.request.context import Exchange
from sluicegate.plugins import Answer, TokenLogprob, ToolCall, exact_json


def completion(exchange: Exchange, *, explain: bool) -> bytes:
    """Write the body of a non-streamed answer."""
    body = envelope(exchange, "chat.completion")
    body["choices"] = [_choice(answer, exchange) for answer in exchange.answers]
    body["usage"] = usage(exchange)
    return exact_json.write(extended(body, exchange, explain=explain))


class ChunkWriter(ChunkStream):
    """Frames of one stream."""

    kind = "chat.completion.chunk"

    def __init__(self, exchange: Exchange, parsed: Parsed) -> None:
        super().__init__(exchange, parsed)
        self._custom = exchange.request.custom_tools
        self._texts: dict[tuple[int, int], TextDecoder] = {}
        """By choice and number: calls of custom tools."""
        self._partial = PartialValues(exchange.request) if exchange.request.partial else None

    def _envelope(self) -> dict[str, Any]:
        return super()._envelope() | ({"usage": None} if self._include_usage else {})

    def _opened(self, notes: bytes) -> bytes:
        """Write the event that opens every choice with its role."""
        content = b"null" if self._exchange.request.callable_tools else b'""'
        choices = b",".join(
            b'{"index":%d,"delta":{"role":"assistant","content":%b},"logprobs":null,"finish_reason":null}'
            % (i, content)
            for i in range(self._exchange.request.n)
        )
        return self._head + choices + b"]" + notes + b"}\n\n"

    def delta(self, delta: Delta) -> bytes:
        if delta.channel == "content":
            fields: dict[str, Any] = {"content": delta.text} if delta.text else {}
        else:
            fields = (self._custom_call(delta) if self._custom else None) or _other_channel(delta)
        if delta.refusal is not None:
            fields["refusal"] = delta.refusal
        choice = {
            "index": delta.index,
            "delta": fields,
            "logprobs": logprobs(delta.logprobs) if delta.logprobs else None,
            "finish_reason": delta.finish_reason,
        }
        return self._head + orjson.dumps(choice) + b"]" + self._notes(delta) + b"}\n\n"

    def _custom_call(self, delta: Delta) -> dict[str, Any] | None:
        """Return the fields of a custom tool's delta; None where the delta is of no custom tool."""
        place = delta.index, delta.call
        if delta.opened is not None and delta.opened.name in self._custom:
            self._texts[place] = TextDecoder()
            opened = {"name": delta.opened.name, "input": ""}
            return {"tool_calls": [{"index": delta.call, "id": delta.opened.id, "type": "custom", "custom": opened}]}
        if delta.channel != "tool_arguments" or place not in self._texts:
            return None
        return {"tool_calls": [{"index": delta.call, "custom": {"input": self._texts[place].feed(delta.text)}}]}

    def _notes(self, delta: Delta) -> bytes:
        if self._partial is None and delta.finish_reason is None:
            return b""
        notes = delta_notes(self._exchange, self._partial, delta)
        return b',"sluicegate":' + exact_json.write(notes) if notes else b""


def _other_channel(delta: Delta) -> dict[str, Any]:
    """Write thoughts under both names that clients look for; arguments of a call after its id and name."""
    if delta.channel == "reasoning":
        return {"reasoning_content": delta.text, "reasoning": delta.text} if delta.text else {}
    if delta.opened is not None:
        function = {"name": delta.opened.name, "arguments": ""}
        return {"tool_calls": [{"index": delta.call, "id": delta.opened.id, "type": "function", "function": function}]}
    return {"tool_calls": [{"index": delta.call, "function": {"arguments": delta.text}}]} if delta.text else {}


def _choice(answer: Answer, exchange: Exchange) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": answered_content(answer, exchange),
        "refusal": answer.refusal,
    }
    if answer.reasoning:
        message |= {"reasoning_content": answer.reasoning, "reasoning": answer.reasoning}
    if answer.tool_calls and answer.finish_reason != "content_filter" and answer.refusal is None:
        custom = exchange.request.custom_tools
        message["tool_calls"] = [_call(call, custom) for call in answer.tool_calls]
    return {
        "index": answer.index,
        "message": message,
        "logprobs": logprobs(answered_logprobs(answer, exchange)),
        "finish_reason": answer.finish_reason,
    }


def _call(call: ToolCall, custom: frozenset[str]) -> dict[str, Any]:
    if call.name in custom:
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": text_of(call.arguments)}}
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def answered_content(answer: Answer, exchange: Exchange) -> str | None:
    """Return None for a structured answer that stopped half-way: half a JSON text is of no use to anyone."""
    if _is_half(answer, exchange):
        return None
    return answer.text if answer.text or not (answer.tool_calls or _declined(answer)) else None


def _declined(answer: Answer) -> bool:
    """Return whether another server said why it does not answer."""
    return answer.refusal is not None and answer.finish_reason != "content_filter"


def answered_logprobs(answer: Answer, exchange: Exchange) -> tuple[TokenLogprob, ...]:
    """Return the log probabilities of the text that is answered: none where it is left out."""
    return () if _is_half(answer, exchange) else answer.logprobs


def _is_half(answer: Answer, exchange: Exchange) -> bool:
    stopped = answer.finish_reason == "content_filter" or answer.refusal is not None
    return stopped and exchange.request.constraint is not None
