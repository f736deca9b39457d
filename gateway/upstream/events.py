"""What the other server streams: bytes in, its chunks out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import orjson

from sluicegate.gateway.upstream.bounds import FEW_BYTES, Bounds
from sluicegate.plugins import SluicegateError

DONE = b"[DONE]"


class Broken(SluicegateError):
    """The answer is no good: the stream was cut, is no stream, or breaks its schema. It may be asked for again."""

    code = "upstream_failed"


class Malformed(Broken):
    """What no server sends that means well: past a bound, or of a wrong type. It is not asked for again."""


class TimeUp(Exception):
    """The time that the request was given is over."""


async def whole(pieces: AsyncIterator[bytes], bounds: Bounds) -> dict[str, Any]:
    """An answer that is not streamed, as if it had been: one chunk with all of it. Raises `Broken`."""
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > bounds.event_bytes:
            raise Malformed(f"the server sent an answer of more than {bounds.event_bytes} bytes")
    found = _parsed(bytes(body), bounds)
    choices = found.get("choices")
    if type(choices) is not list or not all(type(choice) is dict for choice in choices):
        raise Malformed("the server sent no chat completion")
    return {**found, "choices": [{**choice, "delta": choice.get("message")} for choice in choices]}


async def chunks(pieces: AsyncIterator[bytes], bounds: Bounds) -> AsyncGenerator[dict[str, Any], None]:
    """JSON objects of `data:` lines until `[DONE]`. Raises `Broken` where the stream ends without it, or is none."""
    begun: list[bytes] = []  # of a line whose end has not come
    held, seen = 0, 0
    async for piece in pieces:
        seen += len(piece)
        if seen > bounds.answer_bytes:
            raise Malformed(f"the server sent a stream of more than {bounds.answer_bytes} bytes")
        *lines, rest = piece.split(b"\n")
        if lines and begun:
            lines[0] = b"".join([*begun, lines[0]])
            begun, held = [], 0
            if len(lines[0]) > bounds.event_bytes:
                raise _too_long(bounds)
        for line in lines:
            if not line or line[:5] != b"data:":  # blanks, comments, and fields that nobody reads
                continue
            if len(line) > bounds.event_bytes:
                raise _too_long(bounds)
            data = line[5:].strip()
            if data == DONE:
                return
            if data:
                yield _parsed(data, bounds)
        if rest:
            begun.append(rest)
            held += len(rest)
            if held > bounds.event_bytes:
                raise _too_long(bounds)
    raise Broken("the server ended its stream in the middle")


def _too_long(bounds: Bounds) -> Malformed:
    return Malformed(f"the server sent a line of more than {bounds.event_bytes} bytes")


def _parsed(data: bytes, bounds: Bounds) -> dict[str, Any]:
    """No number is NaN or infinite, no string holds half of a surrogate pair, nothing is deeper than 1024: the parser
    refuses them all. Whole numbers past 64 bits come as floats, which no reader takes for a whole number."""
    if len(data) > FEW_BYTES and data.count(b"[") + data.count(b"{") + data.count(b'"') > bounds.event_parts:
        raise Malformed("the server sent an event of more parts than were asked for")
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Broken("the server sent what is not JSON") from error
    if type(found) is not dict:
        raise Malformed("the server sent what is no JSON object")
    if found.get("error"):
        raise Broken("the server ended its stream with an error")
    return found
