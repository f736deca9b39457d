"""What leaves `/v1/chat/completions`: whole completions, and the frames of a stream."""

from __future__ import annotations

from typing import Any

import orjson

from sluicegate.gateway.answer.delta import Delta
from sluicegate.gateway.api.extras import extension, logprobs, usage
from sluicegate.gateway.http.errors import error_body
from sluicegate.gateway.request.context import Exchange
from sluicegate.plugins import Answer, SluicegateError, ToolCall

DONE = b"data: [DONE]\n\n"


def completion(exchange: Exchange, *, explain: bool) -> bytes:
    """The body of a non-streamed answer."""
    body = _envelope(exchange, "chat.completion")
    body["choices"] = [_choice(answer, exchange) for answer in exchange.answers]
    body["usage"] = usage(exchange)
    extra = extension(exchange, explain=explain)
    if extra:
        body["sluicegate"] = extra
    return orjson.dumps(body)


class ChunkWriter:
    """Frames of one stream. The part that never changes is rendered once: a chunk costs one small `dumps`."""

    def __init__(self, exchange: Exchange, *, include_usage: bool, explain: bool) -> None:
        self._exchange = exchange
        self._explain = explain
        self._include_usage = include_usage
        self._told: tuple[str, ...] = ()
        envelope = _envelope(exchange, "chat.completion.chunk")
        envelope["usage"] = None
        if not include_usage:
            del envelope["usage"]
        self._head = b"data: " + orjson.dumps(envelope)[:-1] + b',"choices":['

    def opening(self) -> bytes:
        """The role of every choice, and what could not be enforced, before any text."""
        content = b"null" if self._exchange.request.callable_tools else b'""'
        choices = b",".join(
            b'{"index":%d,"delta":{"role":"assistant","content":%b},"logprobs":null,"finish_reason":null}'
            % (i, content)
            for i in range(self._exchange.request.n)
        )
        notes = extension(self._exchange, explain=False)
        self._told = self._exchange.not_enforced
        tail = b',"sluicegate":' + orjson.dumps(notes) if notes else b""
        return self._head + choices + b"]" + tail + b"}\n\n"

    def delta(self, delta: Delta) -> bytes:
        if delta.channel == "content":
            fields: dict[str, Any] = {"content": delta.text} if delta.text else {}
        else:
            fields = _other_channel(delta)
        if delta.refusal is not None:
            fields["refusal"] = delta.refusal
        choice = {
            "index": delta.index,
            "delta": fields,
            "logprobs": logprobs(delta.logprobs),
            "finish_reason": delta.finish_reason,
        }
        return self._head + orjson.dumps(choice) + b"]" + self._held(delta) + b"}\n\n"

    def _held(self, delta: Delta) -> bytes:
        """Where the rest can be fetched, once a person has agreed."""
        review = self._exchange.review
        if delta.finish_reason is None or not review:
            return b""
        return b',"sluicegate":' + orjson.dumps({"review": dict(review)})

    def closing(self) -> bytes:
        """Usage and the story where asked for, what was closed early or stopped being enforced, then the end mark."""
        closed = any(answer.closed for answer in self._exchange.answers)
        late = self._explain or closed or self._exchange.not_enforced != self._told
        extra = extension(self._exchange, explain=self._explain) if late else {}
        if not self._include_usage and not extra:
            return DONE
        body = _envelope(self._exchange, "chat.completion.chunk")
        body["choices"] = []
        body["usage"] = usage(self._exchange)
        if extra:
            body["sluicegate"] = extra
        return b"data: " + orjson.dumps(body) + b"\n\n" + DONE

    def failing(self, error: SluicegateError) -> bytes:
        """An error inside a stream that has begun; clients of OpenAI raise it. The end mark follows."""
        return b"data: " + error_body(error) + b"\n\n" + DONE


def _envelope(exchange: Exchange, kind: str) -> dict[str, Any]:
    return {
        "id": exchange.request.id,
        "object": kind,
        "created": exchange.entry.created_s,
        "model": exchange.served.name,
        "system_fingerprint": f"fp_{exchange.served.version[:12]}",
    }


def _other_channel(delta: Delta) -> dict[str, Any]:
    """Thoughts under both names that clients look for; arguments of a call after its id and name."""
    if delta.channel == "reasoning":
        return {"reasoning_content": delta.text, "reasoning": delta.text} if delta.text else {}
    if delta.opened is not None:
        function = {"name": delta.opened.name, "arguments": ""}
        return {"tool_calls": [{"index": delta.call, "id": delta.opened.id, "type": "function", "function": function}]}
    return {"tool_calls": [{"index": delta.call, "function": {"arguments": delta.text}}]} if delta.text else {}


def _choice(answer: Answer, exchange: Exchange) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": _content(answer, exchange),
        "refusal": answer.refusal,
    }
    if answer.reasoning:
        message |= {"reasoning_content": answer.reasoning, "reasoning": answer.reasoning}
    if answer.tool_calls and answer.finish_reason != "content_filter":
        message["tool_calls"] = [_call(call) for call in answer.tool_calls]
    return {
        "index": answer.index,
        "message": message,
        "logprobs": logprobs(answer.logprobs),
        "finish_reason": answer.finish_reason,
    }


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _content(answer: Answer, exchange: Exchange) -> str | None:
    """A structured answer that a rail stopped half-way is not shown: half a JSON text is of no use to anyone."""
    if answer.finish_reason == "content_filter" and exchange.request.constraint is not None:
        return None
    return answer.text if answer.text or not answer.tool_calls else None
