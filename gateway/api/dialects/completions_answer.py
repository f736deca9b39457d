"""What leaves `/v1/completions`: texts, and the frames of a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from sluicegate.gateway.answer.delta import Delta
from sluicegate.gateway.api.extras import extension, finite, usage
from sluicegate.gateway.http.errors import error_body
from sluicegate.gateway.request.context import Exchange
from sluicegate.plugins import SluicegateError, TokenLogprob

DONE = b"data: [DONE]\n\n"


def completions(exchanges: Sequence[Exchange], *, explain: bool) -> bytes:
    """One body for all prompts; choices are numbered through, prompt by prompt."""
    first = exchanges[0]
    choices = [
        _choice(number * first.request.n + answer.index, answer.text, answer.logprobs, answer.finish_reason)
        for number, exchange in enumerate(exchanges)
        for answer in exchange.answers
    ]
    body = {**_envelope(first), "choices": choices, "usage": _summed([usage(exchange) for exchange in exchanges])}
    extra = _extension(exchanges, explain=explain)
    return orjson.dumps({**body, "sluicegate": extra} if extra else body)


def _summed(told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    counts = {name: sum(one[name] for one in told) for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
    cached = sum(one["prompt_tokens_details"]["cached_tokens"] for one in told)
    return {**counts, "prompt_tokens_details": {"cached_tokens": cached}}


def _extension(exchanges: Sequence[Exchange], *, explain: bool) -> dict[str, Any]:
    """Of several prompts, what there is to say of each, in their order."""
    each = [extension(exchange, explain=explain) for exchange in exchanges]
    return each[0] if len(each) == 1 else {"prompts": each} if any(each) else {}


class TextWriter:
    """Frames of one stream."""

    def __init__(self, exchange: Exchange, *, include_usage: bool, explain: bool) -> None:
        self._exchange = exchange
        self._include_usage = include_usage
        self._explain = explain
        self._told: tuple[str, ...] = ()
        self._offsets = [0] * exchange.request.n
        self._head = b"data: " + orjson.dumps(_envelope(exchange))[:-1] + b',"choices":['

    def opening(self) -> bytes:
        notes = extension(self._exchange, explain=False)
        self._told = self._exchange.not_enforced
        return self._head + b'],"sluicegate":' + orjson.dumps(notes) + b"}\n\n" if notes else b""

    def delta(self, delta: Delta) -> bytes:
        """Text is all there is here: what is said on other channels is not passed on, streamed or whole."""
        if delta.channel != "content":
            if delta.finish_reason is None:
                return b""
            delta = Delta(delta.index, finish_reason=delta.finish_reason)
        at = self._offsets[delta.index]
        self._offsets[delta.index] += len(delta.text)
        choice = _choice(delta.index, delta.text, delta.logprobs, delta.finish_reason, at)
        return self._head + orjson.dumps(choice) + b"]}\n\n"

    def closing(self) -> bytes:
        closed = any(answer.closed for answer in self._exchange.answers)
        late = self._explain or closed or self._exchange.not_enforced != self._told
        extra = extension(self._exchange, explain=self._explain) if late else {}
        if not self._include_usage and not extra:
            return DONE
        body = {**_envelope(self._exchange), "choices": [], "usage": usage(self._exchange)}
        return b"data: " + orjson.dumps({**body, "sluicegate": extra} if extra else body) + b"\n\n" + DONE

    def failing(self, error: SluicegateError) -> bytes:
        return b"data: " + error_body(error) + b"\n\n" + DONE


def _envelope(exchange: Exchange) -> dict[str, Any]:
    return {
        "id": exchange.request.id,
        "object": "text_completion",
        "created": exchange.entry.created_s,
        "model": exchange.served.name,
        "system_fingerprint": f"fp_{exchange.served.version[:12]}",
    }


def _choice(
    index: int, text: str, entries: Sequence[TokenLogprob], finish_reason: str | None, offset: int = 0
) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": _logprobs(entries, offset), "finish_reason": finish_reason}


def _logprobs(entries: Sequence[TokenLogprob], offset: int) -> dict[str, Any] | None:
    """The older shape: four lists of equal length. Offsets count characters of the answer."""
    if not entries:
        return None
    offsets = []
    for entry in entries:
        offsets.append(offset)
        offset += len(entry.token)
    return {
        "tokens": [entry.token for entry in entries],
        "token_logprobs": [finite(entry.logprob) for entry in entries],
        "top_logprobs": [{token: finite(logprob) for _, token, _, logprob in entry.top} for entry in entries],
        "text_offset": offsets,
    }
