"""What the other server streams: bytes in, its chunks out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import orjson

from plugins import SluicegateError

MAX_LINE_BYTES = 8 * 1024 * 1024
DONE = b"[DONE]"


class Broken(SluicegateError):
    """The answer is no good: the stream was cut, is no stream, or breaks its schema. It may be asked for again."""

    code = "upstream_failed"


async def whole(pieces: AsyncIterator[bytes]) -> dict[str, Any]:
    """An answer that is not streamed, as if it had been: one chunk with all of it. Raises `Broken`."""
    body = b""
    async for piece in pieces:
        body += piece
        if len(body) > MAX_LINE_BYTES:
            raise Broken(f"the server sent an answer of more than {MAX_LINE_BYTES} bytes")
    found = _parsed(body)
    choices = found.get("choices")
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise Broken("the server sent no chat completion")
    return {**found, "choices": [{**choice, "delta": choice.get("message")} for choice in choices]}


async def chunks(pieces: AsyncIterator[bytes]) -> AsyncGenerator[dict[str, Any], None]:
    """JSON objects of `data:` lines until `[DONE]`. Raises `Broken` where the stream ends without it, or is none."""
    rest = b""
    async for piece in pieces:
        rest += piece
        *lines, rest = rest.split(b"\n")
        for line in lines:
            data = _data(line)
            if data == DONE:
                return
            if data:
                yield _parsed(data)
        if len(rest) > MAX_LINE_BYTES:
            raise Broken(f"the server sent a line of more than {MAX_LINE_BYTES} bytes")
    raise Broken("the server ended its stream in the middle")


def _data(line: bytes) -> bytes:
    line = line.rstrip(b"\r")
    return line[5:].strip() if line.startswith(b"data:") else b""


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Broken("the server sent what is not JSON") from error
    if not isinstance(found, dict):
        raise Broken("the server sent what is no JSON object")
    if found.get("error"):
        raise Broken("the server ended its stream with an error")
    return found
