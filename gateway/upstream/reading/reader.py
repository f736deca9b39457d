"""Parse upstream chunks into facts, checking each field against its bound.

Not covered: the texts' content, which rails and grammars judge. Fields that are not named here are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sluicegate.gateway.upstream.bounds import (
    ENDS,
    HIGHEST_LOGPROB,
    LOWEST_LOGPROB,
    MOST_CALLS,
    MOST_COUNT,
    MOST_NAME,
    MOST_REASON,
    MOST_TOKEN_CHARS,
    Bounds,
)
from sluicegate.gateway.upstream.events import Broken, Malformed, StreamCut
from sluicegate.plugins import FinishReason, TokenLogprob
from sluicegate.plugins.frozen import frozen_when_checked

REASONS: Mapping[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "repetition": "length",  # of vLLM, where `repetition_detection` cut a loop
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "refusal": "content_filter",  # Anthropic's word, where a proxy passes it on
}
"""How other servers name the end of a choice. Every other word is no end: the answer is not used."""
GIVEN_UP = frozenset({"abort", "cancelled", "error", "insufficient_system_resource"})
"""The server stopped by itself, whatever it was asked."""
NOTHING: Mapping[str, Any] = {}


@dataclass(slots=True)
class CallPart:
    """The part of one call's name and arguments that a chunk adds."""

    index: int
    name: str
    arguments: str


@dataclass(slots=True)
class ChunkPart:
    """The part of one choice that a chunk adds."""

    index: int
    text: str
    reasoning: str
    calls: list[CallPart]
    reason: FinishReason | None
    logprobs: tuple[TokenLogprob, ...]
    refusal: str

    @property
    def is_empty(self) -> bool:
        return not (self.text or self.reasoning or self.calls or self.reason or self.refusal)


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class ReportedUsage:
    """The usage that the server reports."""

    prompt: int
    completion: int
    cached: int = 0
    reasoning: int = 0


def said(chunk: Mapping[str, Any], bounds: Bounds) -> Iterator[ChunkPart]:
    """Yield what `chunk` adds, choice by choice. Raises `Broken`."""
    choices = chunk.get("choices")
    if choices is None:
        return
    if type(choices) is not list or len(choices) > bounds.choices:
        raise Malformed(f"`choices` of the server is no list of at most {bounds.choices}")
    for choice in choices:
        if type(choice) is not dict:
            raise Malformed("`choices[]` of the server holds what is no object")
        yield _choice(choice, bounds)


def claim(chunk: Mapping[str, Any]) -> ReportedUsage | None:
    """Return the chunk's `usage`; None where it has none. Raises `Malformed`."""
    sent = chunk.get("usage")
    if sent is None:
        return None
    usage = _object(sent, "usage")
    prompt, completion = _count(usage, "prompt_tokens", "usage"), _count(usage, "completion_tokens", "usage")
    read = usage.get("prompt_tokens_details")
    written = usage.get("completion_tokens_details")
    cached = reasoning = 0
    if read is not None:
        where = "usage.prompt_tokens_details"
        cached = _count(_object(read, where), "cached_tokens", where)
    if written is not None:
        where = "usage.completion_tokens_details"
        reasoning = _count(_object(written, where), "reasoning_tokens", where)
    return ReportedUsage(prompt, completion, cached, reasoning)


def _choice(sent: Mapping[str, Any], bounds: Bounds) -> ChunkPart:
    index = sent.get("index", 0)
    if type(index) is not int or not 0 <= index < bounds.choices:
        raise Malformed(f"`choices[].index` of the server is no whole number below {bounds.choices}")
    delta = sent.get("delta")
    delta = NOTHING if delta is None else _object(delta, "choices[].delta")
    text = delta.get("content")
    if type(text) is str and len(delta) == 1 and bounds.logprobs is None and sent.get("finish_reason") is None:
        return ChunkPart(index, text, "", [], None, (), "")  # what nearly every chunk of a stream is
    text = _text(delta, "content")
    calls = delta.get("tool_calls")
    logprobs = sent.get("logprobs") if bounds.logprobs is not None and text else None
    return ChunkPart(
        index,
        text,
        _text(delta, "reasoning_content") or _text(delta, "reasoning"),
        _calls(calls) if calls is not None else [],
        _reason(sent.get("finish_reason")),
        _logprobs(logprobs, text, bounds) if logprobs is not None else (),
        _text(delta, "refusal"),
    )


def _reason(sent: Any) -> FinishReason | None:
    """Map a finish reason. Raises `StreamCut` where the server gave the choice up, `Broken` for an unknown word: what
    stands there so far may be cut anywhere, and no dialect has a word that would say so. The word itself is not
    repeated: it is the server's."""
    if sent is None or sent == "":
        return None
    if type(sent) is not str or len(sent) > MOST_REASON:
        raise Malformed(f"`finish_reason` of the server is no text of at most {MOST_REASON} characters")
    reason = REASONS.get(sent)
    if reason is not None:
        return reason
    if sent in GIVEN_UP:
        raise StreamCut("the server gave up on it before it was whole")
    raise Broken("its `finish_reason` is none of an answer that is whole, too long or refused")


def _calls(sent: Any) -> list[CallPart]:
    """Parse calls; one without an index has its place in the list, as in answers that are not streamed."""
    if type(sent) is not list or len(sent) > MOST_CALLS:
        raise Malformed(f"`tool_calls` of the server is no list of at most {MOST_CALLS}")
    return [_call(_object(call, "tool_calls[]"), place) for place, call in enumerate(sent)]


def _call(sent: Mapping[str, Any], place: int) -> CallPart:
    index = sent.get("index")
    index = place if index is None else index
    if type(index) is not int or not 0 <= index < MOST_CALLS:
        raise Malformed(f"`tool_calls[].index` of the server is no whole number below {MOST_CALLS}")
    function = sent.get("function")
    function = NOTHING if function is None else _object(function, "tool_calls[].function")
    name = _text(function, "name")
    if len(name) > MOST_NAME or len(_text(sent, "id")) > MOST_NAME:
        raise Malformed(f"a name or id in `tool_calls[]` of the server is longer than {MOST_NAME} characters")
    return CallPart(index, name, _text(function, "arguments"))


def _logprobs(sent: Any, text: str, bounds: Bounds) -> tuple[TokenLogprob, ...]:
    """Parse log probabilities: at most one token a byte of the text, besides those that end it. Ids are -1: they are of
    another tokenizer."""
    entries = _object(sent, "logprobs").get("content")
    if entries is None:
        return ()
    if type(entries) is not list or len(entries) > min(4 * len(text), bounds.tokens) + ENDS:
        raise Malformed("`logprobs.content` of the server is no list, or longer than its text or `max_tokens`")
    found = []
    asked = bounds.logprobs or 0
    for entry in entries:
        token, data, logprob = _token(entry, "logprobs.content[]")
        top = entry.get("top_logprobs")
        if top is not None and type(top) is not list:
            raise Malformed("`top_logprobs` of the server is no list")
        likeliest = tuple((-1, *_token(other, "top_logprobs[]")) for other in (top or ())[:asked])
        found.append(TokenLogprob(-1, token, data, logprob, likeliest))
    return tuple(found)


def _token(sent: Any, where: str) -> tuple[str, bytes, float]:
    entry = _object(sent, where)
    token: Any = entry.get("token")
    logprob: Any = entry.get("logprob")
    if type(token) is not str or len(token) > MOST_TOKEN_CHARS:
        raise Malformed(f"`{where}.token` of the server is no text of at most {MOST_TOKEN_CHARS} characters")
    if type(logprob) not in (int, float) or not LOWEST_LOGPROB <= logprob <= HIGHEST_LOGPROB:
        raise Malformed(f"`{where}.logprob` of the server is no number of at most 0")
    return token, _bytes(entry.get("bytes"), token, where), min(0.0, float(logprob))


def _bytes(sent: Any, token: str, where: str) -> bytes:
    """Return the sent bytes where they spell the token or a part of its code point, else the token's own: no bytes
    leave that are not in a text."""
    own = token.encode()
    if sent is None:
        return own
    if (
        type(sent) is not list
        or len(sent) > MOST_TOKEN_CHARS
        or not all(type(byte) is int and 0 <= byte <= 255 for byte in sent)
    ):
        raise Malformed(f"`{where}.bytes` of the server is no list of at most {MOST_TOKEN_CHARS} bytes")
    given = bytes(sent)
    if given == own or token in (given.decode("utf-8", "replace"), given.decode("utf-8", "backslashreplace")):
        return given
    return own


def _text(sent: Mapping[str, Any], name: str) -> str:
    found = sent.get(name)
    if found is None:
        return ""
    if type(found) is not str:
        raise Malformed(f"`{name}` of the server is no text")
    return found


def _count(sent: Mapping[str, Any], name: str, where: str) -> int:
    found = sent.get(name)
    if found is None:
        return 0
    if type(found) is not int or not 0 <= found <= MOST_COUNT:
        raise Malformed(f"`{where}.{name}` of the server is no whole number from 0 to {MOST_COUNT}")
    return found


def _object(sent: Any, where: str) -> Mapping[str, Any]:
    if type(sent) is not dict:
        raise Malformed(f"`{where}` of the server is no object")
    return sent
