"""Ask an ASGI application in its own process: one request, its answer as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.types import ASGIApp, Message, Scope

from sluicegate.gateway.ray_serve.messages import AnswerHead, EngineRequest

PATH = "/v1/chat/completions"
AHEAD = 64
"""Most messages by which the application may be ahead of the reader."""


async def answers(app: ASGIApp, request: EngineRequest) -> AsyncIterator[AnswerHead | bytes]:
    """Yield the head, then all that is there of the body at a time. Who stops reading hangs up: the application is
    told so, as by a server. Raises what the application raises."""
    sent: asyncio.Queue[Message | None] = asyncio.Queue(AHEAD)
    gone = asyncio.Event()
    unread = [{"type": "http.request", "body": request.body, "more_body": False}]

    async def receive() -> Message:
        if unread:
            return unread.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def run() -> None:
        try:
            await app(_scope(request), receive, sent.put)
        finally:
            if not gone.is_set():
                await sent.put(None)

    running = asyncio.create_task(run())
    try:
        while (message := await sent.get()) is not None:
            if message["type"] == "http.response.start":
                yield AnswerHead(message["status"], _texts(message["headers"]))
                continue
            body, ended = _drained(sent, message)
            if body:
                yield body
            if ended:
                break
        await running
    finally:
        gone.set()
        if not running.done():
            while not sent.empty():  # or it would wait for room to send what nobody reads
                sent.get_nowait()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def _drained(sent: asyncio.Queue[Message | None], first: Message) -> tuple[bytes, bool]:
    """Return the body of `first` and of all that waits behind it, and whether the answer has ended."""
    parts = [first.get("body", b"")]
    while not sent.empty():
        message = sent.get_nowait()
        if message is None:
            return b"".join(parts), True
        parts.append(message.get("body", b""))
    return b"".join(parts), False


def _scope(request: EngineRequest) -> Scope:
    headers = [(b"host", b"127.0.0.1"), (b"content-length", str(len(request.body)).encode())]
    headers += [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers]
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": PATH,
        "raw_path": PATH.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", 0),
    }


def _texts(headers: list[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
