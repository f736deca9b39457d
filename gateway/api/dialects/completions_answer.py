"""Write answers of `/v1/completions`: whole, and as the frames of a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from sluicegate.gateway.answer.delta import Delta
from sluicegate.gateway.answer.partial import PartialValues
from sluicegate.gateway.answer.token_offsets import TokenOffsets
from sluicegate.gateway.api.body.parsing import Parsed
from sluicegate.gateway.api.dialects.chunks import ChunkStream, envelope
from sluicegate.gateway.api.extras import delta_notes, extension, finite, usage
from sluicegate.gateway.request.context import Exchange
from sluicegate.plugins import TokenLogprob, exact_json


def completions(exchanges: Sequence[Exchange], parsed: Parsed) -> bytes:
    """Write one body for all prompts; choices are numbered through, prompt by prompt."""
    first = exchanges[0]
    choices = [
        _choice(
            number * first.request.n + answer.index,
            answer.text,
            _logprobs(answer.logprobs, TokenOffsets().feed(answer.text, answer.logprobs)),
            answer.finish_reason if answer.refusal is None else "content_filter",
            answer.refusal,
        )
        for number, exchange in enumerate(exchanges)
        for answer in exchange.answers
    ]
    spent = _summed([usage(exchange) for exchange in exchanges])
    body = {**envelope(first, "text_completion"), "choices": choices, "usage": spent}
    extra = _extension(exchanges, explain=parsed.explain)
    return exact_json.write({**body, "sluicegate": extra} if extra else body)


def _summed(each: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    counts = {name: sum(one[name] for one in each) for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
    cached = sum(one["prompt_tokens_details"]["cached_tokens"] for one in each)
    return {**counts, "prompt_tokens_details": {"cached_tokens": cached}}


def _extension(exchanges: Sequence[Exchange], *, explain: bool) -> dict[str, Any]:
    """Return the notes on one prompt, or of several those on each, in their order."""
    each = [extension(exchange, explain=explain) for exchange in exchanges]
    return each[0] if len(each) == 1 else {"prompts": each} if any(each) else {}


class TextWriter(ChunkStream):
    """Frames of one stream."""

    kind = "text_completion"

    def __init__(self, exchange: Exchange, parsed: Parsed) -> None:
        super().__init__(exchange, parsed)
        self._offsets = [TokenOffsets() for _ in range(exchange.request.n)]
        """By choice; fed only where log probabilities were asked for."""
        self._is_scored = exchange.request.sampling.logprobs is not None
        self._partial = PartialValues(exchange.request) if exchange.request.partial else None

    def _opened(self, notes: bytes) -> bytes:
        return self._head + b"]" + notes + b"}\n\n" if notes else b""

    def delta(self, delta: Delta) -> bytes:
        """Write text; other channels are not passed on in this dialect."""
        if delta.channel != "content":
            if delta.finish_reason is None:
                return b""
            delta = Delta(delta.index, finish_reason=delta.finish_reason, refusal=delta.refusal)
        offsets = self._offsets[delta.index].feed(delta.text, delta.logprobs) if self._is_scored else []
        reason = delta.finish_reason if delta.refusal is None else "content_filter"
        choice = _choice(delta.index, delta.text, _logprobs(delta.logprobs, offsets), reason, delta.refusal)
        notes = delta_notes(self._exchange, self._partial, delta)
        told = b',"sluicegate":' + exact_json.write(notes) if notes else b""
        return self._head + orjson.dumps(choice) + b"]" + told + b"}\n\n"


def _choice(
    index: int, text: str, logprobs: dict[str, Any] | None, finish_reason: str | None, refusal: str | None
) -> dict[str, Any]:
    """Write one choice. OpenAI's has no field for a refusal: `refusal` stands there only where a choice was stopped."""
    written = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish_reason}
    return written if refusal is None else {**written, "refusal": refusal}


def _logprobs(entries: Sequence[TokenLogprob], offsets: list[int]) -> dict[str, Any] | None:
    """Write the older shape: four lists of equal length. Offsets count characters of the answer."""
    if not entries:
        return None
    return {
        "tokens": [entry.token for entry in entries],
        "token_logprobs": [finite(entry.logprob) for entry in entries],
        "top_logprobs": [{token: finite(logprob) for _, token, _, logprob in entry.top} for entry in entries],
        "text_offset": offsets,
    }
