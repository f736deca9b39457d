"""ASGI responses that cancel their generation when the client disconnects (`gateway/http/disconnects.py`)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import AsyncGenerator
from typing import Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sluicegate.gateway.answer.delta import Delta
from sluicegate.gateway.api.body.parsing import Parsed
from sluicegate.gateway.http.disconnects import EXTENSION, ClientDisconnected, Disconnect, ended, unless_disconnected
from sluicegate.gateway.prompts.places import in_words_of
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.request.pipeline import Pipeline
from sluicegate.plugins import GenerationFailed, Overloaded, RequestError, SluicegateError

log = logging.getLogger("sluicegate.delivery")
HEARTBEAT = b": keep-alive\n\n"
STREAM_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}
"""The last asks nginx, and proxies that follow it, for every piece at once, whatever their configuration says."""


_SEPARATORS = re.compile(b"\xe2\x80[\xa8\xa9]|\xc2\x85")


def in_lines(events: bytes) -> bytes:
    """Return events without characters that end a line for some readers of streams: Python's `splitlines`, on which
    `httpx.Response.iter_lines` is built, cuts at U+2028, U+2029 and U+0085. They stand in JSON strings alone."""
    if events.isascii():
        return events
    return _SEPARATORS.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), events)


class StreamFormat(Protocol):
    """Writes a stream in one wire format. Every method returns whole events, as bytes."""

    def opening(self) -> bytes: ...

    def delta(self, delta: Delta) -> bytes: ...

    def closing(self) -> bytes: ...

    def failing(self, error: SluicegateError) -> bytes:
        """Write the error and the end, after which a client must not take what it has for an answer."""


class NoResponse(Response):
    """Answers nothing, to a client that has disconnected."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        return


class EventStream(Response):
    """Server-sent events of one exchange. The status is already decided: errors become an event, then `[DONE]`."""

    def __init__(
        self,
        pipeline: Pipeline,
        exchange: Exchange,
        writer: StreamFormat,
        headers: dict[str, str],
        heartbeat_s: float,
        parsed: Parsed,
    ) -> None:
        super().__init__()
        self._pipeline = pipeline
        self._exchange = exchange
        self._writer = writer
        self._extra = headers
        self._heartbeat_s = heartbeat_s
        self._begun = False
        self._parsed = parsed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await unless_disconnected(scope, receive, self._send(scope, send))
        except (ClientDisconnected, OSError):
            log.info("request %s: the client left", self._exchange.request.id)
        except Overloaded as error:
            await self._end_with(error, send)
        finally:
            await self._pipeline.close(self._exchange, asyncio.CancelledError())

    async def _end_with(self, error: SluicegateError, send: Send) -> None:
        """End a stream with an error because the gateway stops."""
        if not self._begun:
            await self._begin(send)
        last = self._writer.failing(error)
        await send({"type": "http.response.body", "body": last, "more_body": False})

    async def _begin(self, send: Send) -> None:
        self._begun = True
        headers = {**STREAM_HEADERS, **self._extra}
        raw = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})

    async def _send(self, scope: Scope, send: Send) -> None:
        await self._begin(send)
        beat = _Heartbeat(send, self._heartbeat_s)
        disconnect: Disconnect = scope.get("extensions", {}).get(EXTENSION) or Disconnect()
        disconnect.nudge = beat.now
        try:
            async for frame in frames_of(self._pipeline, self._exchange, self._writer, self._parsed):
                beat.sent_at = time.monotonic()
                await send({"type": "http.response.body", "body": in_lines(frame), "more_body": True})
        finally:
            disconnect.nudge = None
            await beat.end()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class _Heartbeat:
    """Sends a comment line after every silence, so that proxies keep the connection; it never cuts a frame."""

    def __init__(self, send: Send, every_s: float) -> None:
        self.sent_at = time.monotonic()
        self._send = send
        self._every_s = every_s
        self._beat: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(every_s, self._due)

    async def end(self) -> None:
        self._timer.cancel()
        if self._beat is not None:
            await ended(self._beat)

    def _due(self) -> None:
        self._timer = self._loop.call_later(self._every_s, self._due)
        if time.monotonic() - self.sent_at >= self._every_s:
            self.now()

    def now(self) -> None:
        """Send a comment line, unless one is on its way."""
        if self._beat is None or self._beat.done():
            message = {"type": "http.response.body", "body": HEARTBEAT, "more_body": True}
            self._beat = asyncio.ensure_future(self._send(message))


async def frames_of(
    pipeline: Pipeline, exchange: Exchange, writer: StreamFormat, parsed: Parsed
) -> AsyncGenerator[bytes, None]:
    """Yield the whole stream as the format writes it; errors become its last frame, in the words of `parsed`."""
    yield writer.opening()
    try:
        async with contextlib.aclosing(pipeline.stream(exchange)) as deltas:
            async for delta in deltas:
                if frame := writer.delta(delta):
                    yield frame
        yield writer.closing()
    except SluicegateError as error:
        if isinstance(error, RequestError):
            in_words_of(error, parsed.places, parsed.request)
        yield writer.failing(error)
    except Exception:
        log.exception("request %s broke in mid-stream", exchange.request.id)
        yield writer.failing(GenerationFailed("the gateway failed while it answered; the stream is not whole"))
