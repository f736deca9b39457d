"""OpenAI bodies for what leaves the gateway: whole completions, stream chunks and errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from gateway.exchange import Delta, Exchange
from plugins import Answer, Decision, RequestError, ServiceError, SluicegateError, TokenLogprob, Usage

DONE = b"data: [DONE]\n\n"
HEARTBEAT = b": keep-alive\n\n"


def completion(exchange: Exchange, *, explain: bool) -> bytes:
    """The body of a non-streamed answer."""
    body = _envelope(exchange, "chat.completion")
    body["choices"] = [_choice(answer, exchange) for answer in exchange.answers]
    body["usage"] = usage(exchange.usage)
    extension = _extension(exchange, explain=explain)
    if extension:
        body["sluicegate"] = extension
    return orjson.dumps(body)


class ChunkWriter:
    """Frames of one stream. The part that never changes is rendered once: a chunk costs one small `dumps`."""

    def __init__(self, exchange: Exchange, *, include_usage: bool, explain: bool) -> None:
        self._exchange = exchange
        self._explain = explain
        self._include_usage = include_usage
        envelope = _envelope(exchange, "chat.completion.chunk")
        envelope["usage"] = None
        if not include_usage:
            del envelope["usage"]
        self._head = b"data: " + orjson.dumps(envelope)[:-1] + b',"choices":['

    def opening(self) -> bytes:
        """The role of every choice, and what could not be enforced, before any text."""
        choices = b",".join(
            b'{"index":%d,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}' % i
            for i in range(self._exchange.request.n)
        )
        notes = _extension(self._exchange, explain=False)
        tail = b',"sluicegate":' + orjson.dumps(notes) if notes else b""
        return self._head + choices + b"]" + tail + b"}\n\n"

    def delta(self, delta: Delta) -> bytes:
        fields: dict[str, Any] = {"content": delta.text} if delta.text else {}
        if delta.refusal is not None:
            fields["refusal"] = delta.refusal
        choice = {
            "index": delta.index,
            "delta": fields,
            "logprobs": _logprobs(delta.logprobs),
            "finish_reason": delta.finish_reason,
        }
        return self._head + orjson.dumps(choice) + b"]}\n\n"

    def closing(self) -> bytes:
        """Usage and the stages' story, each where asked for, then the end mark."""
        extension = _extension(self._exchange, explain=self._explain) if self._explain else {}
        if not self._include_usage and not extension:
            return DONE
        body = _envelope(self._exchange, "chat.completion.chunk")
        body["choices"] = []
        body["usage"] = usage(self._exchange.usage)
        if extension:
            body["sluicegate"] = extension
        return b"data: " + orjson.dumps(body) + b"\n\n" + DONE


def error_frame(error: SluicegateError) -> bytes:
    """An error inside a stream that has begun; clients of OpenAI raise it. The end mark follows."""
    return b"data: " + error_body(error) + b"\n\n" + DONE


def error_body(error: SluicegateError) -> bytes:
    detail: dict[str, Any] = {"message": error.message, "type": "server_error", "param": None, "code": error.code}
    if isinstance(error, RequestError | ServiceError):
        detail["type"] = error.kind
    if isinstance(error, RequestError):
        detail["param"] = error.param
    pointer = getattr(error, "pointer", None)
    if pointer is not None:
        detail["pointer"] = pointer
    return orjson.dumps({"error": detail})


def error_status(error: SluicegateError) -> int:
    return error.status if isinstance(error, RequestError | ServiceError) else 500


def error_headers(error: SluicegateError) -> dict[str, str]:
    """`Retry-After` where it is known; what would fail again tells clients not to try."""
    retry_after_s = getattr(error, "retry_after_s", None)
    if retry_after_s is not None:
        return {"retry-after": str(max(1, round(retry_after_s)))}
    return {"x-should-retry": "false"} if error_status(error) >= 500 else {}


def usage(counted: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": counted.prompt_tokens,
        "completion_tokens": counted.completion_tokens,
        "total_tokens": counted.prompt_tokens + counted.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": counted.cached_tokens},
    }


def story(decisions: Iterable[Decision]) -> list[dict[str, Any]]:
    """What each stage decided and how long it took, for `explain`."""
    return [
        {
            "slot": d.slot,
            "stage": d.stage,
            "outcome": d.outcome,
            "ms": round(d.duration_s * 1e3, 3),
            **({"detail": dict(d.detail)} if d.detail else {}),
        }
        for d in decisions
    ]


def _envelope(exchange: Exchange, kind: str) -> dict[str, Any]:
    return {
        "id": exchange.request.id,
        "object": kind,
        "created": exchange.created_s,
        "model": exchange.served.name,
        "system_fingerprint": f"fp_{exchange.served.version[:12]}",
    }


def _choice(answer: Answer, exchange: Exchange) -> dict[str, Any]:
    return {
        "index": answer.index,
        "message": {"role": "assistant", "content": _content(answer, exchange), "refusal": answer.refusal},
        "logprobs": _logprobs(answer.logprobs),
        "finish_reason": answer.finish_reason,
    }


def _content(answer: Answer, exchange: Exchange) -> str | None:
    """A structured answer that a rail stopped half-way is not shown: half a JSON text is of no use to anyone."""
    if answer.finish_reason == "content_filter" and exchange.request.constraint is not None:
        return None
    return answer.text


def _logprobs(entries: tuple[TokenLogprob, ...]) -> dict[str, Any] | None:
    if not entries:
        return None
    content = [
        {
            "token": e.token,
            "bytes": list(e.data),
            "logprob": _finite(e.logprob),
            "top_logprobs": [
                {"token": token, "bytes": list(data), "logprob": _finite(logprob)} for _, token, data, logprob in e.top
            ],
        }
        for e in entries
    ]
    return {"content": content, "refusal": None}


def _finite(logprob: float) -> float:
    """JSON has no infinity; the API's own convention for "practically never" is -9999."""
    return max(logprob, -9999.0)


def _extension(exchange: Exchange, *, explain: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if exchange.not_enforced:
        found["not_enforced"] = list(exchange.not_enforced)
    if explain:
        found["stages"] = story(exchange.decisions)
        found["cached"] = exchange.cached is not None
    return found
