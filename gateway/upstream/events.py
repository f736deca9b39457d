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
        raise Broken("the server sent an event that is not JSON") from error
    if not isinstance(found, dict):
        raise Broken("the server sent an event that is no JSON object")
    if found.get("error"):
        raise Broken("the server ended its stream with an error")
    return found
