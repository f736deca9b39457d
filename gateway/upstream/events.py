"""Parse an upstream stream: bytes in, chunks of JSON out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import orjson

from sluicegate.gateway.upstream.bounds import FEW_BYTES, Bounds
from sluicegate.plugins import SluicegateError

DONE = b"[DONE]"
BOM = b"\xef\xbb\xbf"
MARKED = BOM + b"data:"
"""How a stream may begin: without a look at it the first event would be a field of another name, and its text lost."""


class Broken(SluicegateError):
    """The answer cannot be used: it is cut, not a stream, or violates its schema. It may be requested again."""

    code = "upstream_failed"


class StreamCut(Broken):
    """The stream was cut, fell silent or is no stream: the server is at fault, whatever the request."""


class Malformed(Broken):
    """A field exceeds a bound or has a wrong type: the server is hostile or broken. The answer is not requested
    again."""


class TimeUp(Exception):
    """The request's time limit is over."""


async def alone(pieces: AsyncIterator[bytes], bounds: Bounds) -> dict[str, Any]:
    """Return an answer that is not streamed as one chunk. Raises `Broken`."""
    most, length = bounds.event_bytes, 0
    read: list[bytes] = []
    async for piece in pieces:
        length += len(piece)
        if length > most:
            raise Malformed(f"the server sent an answer of more than {most} bytes")
        read.append(piece)
    found = _parsed(b"".join(read).removeprefix(BOM), bounds)
    choices = found.get("choices")
    if type(choices) is not list or not all(type(choice) is dict for choice in choices):
        raise Malformed("the server sent no chat completion")
    return {**found, "choices": [{**choice, "delta": choice.get("message")} for choice in choices]}


async def chunks(pieces: AsyncIterator[bytes], bounds: Bounds) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the JSON objects of `data:` lines until `[DONE]`. Raises `Broken` where that is missing."""
    begun: list[bytes] = []  # of a line whose end has not come
    held, seen = 0, 0
    longest, most = bounds.event_bytes, bounds.answer_bytes
    async for piece in pieces:
        seen += len(piece)
        if seen > most:
            raise Malformed(f"the server sent a stream of more than {most} bytes")
        *lines, rest = piece.split(b"\n")
        if lines and begun:
            lines[0] = b"".join([*begun, lines[0]])
            begun, held = [], 0
            if len(lines[0]) > longest:
                raise _too_long(bounds)
        for line in lines:
            if line[:5] != b"data:":  # blanks, comments, and fields that nobody reads
                if line[:8] != MARKED:
                    continue
                line = line[len(BOM) :]
            if len(line) > longest:
                raise _too_long(bounds)
            data = line[5:].strip()
            if data == DONE:
                return
            if data:
                yield _parsed(data, bounds)
        if rest:
            begun.append(rest)
            held += len(rest)
            if held > longest:
                raise _too_long(bounds)
    raise StreamCut("the server ended its stream in the middle")


def _too_long(bounds: Bounds) -> Malformed:
    return Malformed(f"the server sent a line of more than {bounds.event_bytes} bytes")


def _parsed(data: bytes, bounds: Bounds) -> dict[str, Any]:
    """Parse one event. The parser refuses NaN, infinity, lone surrogates and nesting past 1024; integers past 64 bits
    become floats, which readers do not accept as integers."""
    if len(data) > FEW_BYTES and data.count(b"[") + data.count(b"{") + data.count(b'"') > bounds.event_parts:
        raise Malformed("the server sent an event of more parts than were asked for")
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise StreamCut("the server sent what is not JSON") from error
    if type(found) is not dict:
        raise Malformed("the server sent what is no JSON object")
    if found.get("error"):
        raise StreamCut("the server ended its stream with an error")
    return found
