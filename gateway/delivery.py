"""ASGI responses that know when the client has left: its generation is cancelled, within one engine step."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Coroutine
from typing import Any, Protocol, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.exchange import Delta, Exchange
from gateway.pipeline import Pipeline
from plugins import GenerationFailed, SluicegateError

log = logging.getLogger("sluicegate.delivery")
HEARTBEAT = b": keep-alive\n\n"
T = TypeVar("T")


class Frames(Protocol):
    """How a wire format writes a stream. Every method answers whole events, as bytes."""

    def opening(self) -> bytes: ...

    def delta(self, delta: Delta) -> bytes: ...

    def closing(self) -> bytes: ...

    def failing(self, error: SluicegateError) -> bytes:
        """The error and the stream's end, after which a client must not take what it has for an answer."""


class ClientLeft(Exception):
    """The connection closed before the answer was whole."""


async def unless_left(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Await `work`; cancel it and raise `ClientLeft` as soon as the client disconnects."""
    task = asyncio.ensure_future(work)
    watcher = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait((task, watcher), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return await task
        raise ClientLeft
    finally:
        await _end(task, watcher)


class Nobody(Response):
    """The answer to a client that has left."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        return


class EventStream(Response):
    """Server-sent events of one exchange. The status is already decided: errors become an event, then `[DONE]`."""

    def __init__(
        self, pipeline: Pipeline, exchange: Exchange, writer: Frames, headers: dict[str, str], heartbeat_s: float
    ) -> None:
        super().__init__()
        self._pipeline = pipeline
        self._exchange = exchange
        self._writer = writer
        self._extra = headers
        self._heartbeat_s = heartbeat_s
        self._sent_at = time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await unless_left(receive, self._send(send))
        except (ClientLeft, OSError):
            log.info("request %s: the client left", self._exchange.request.id)
        finally:
            await self._pipeline.close(self._exchange, asyncio.CancelledError())

    async def _send(self, send: Send) -> None:
        headers = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache", **self._extra}
        raw = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})
        heartbeat = asyncio.ensure_future(self._keep_alive(send))
        try:
            async for frame in frames_of(self._pipeline, self._exchange, self._writer):
                self._sent_at = time.monotonic()
                await send({"type": "http.response.body", "body": frame, "more_body": True})
        finally:
            await _end(heartbeat)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _keep_alive(self, send: Send) -> None:
        """A comment line after every silence, so that proxies keep the connection; frames are never cut by it."""
        while True:
            await asyncio.sleep(self._heartbeat_s)
            if time.monotonic() - self._sent_at >= self._heartbeat_s:
                await send({"type": "http.response.body", "body": HEARTBEAT, "more_body": True})


async def frames_of(pipeline: Pipeline, exchange: Exchange, writer: Frames) -> AsyncGenerator[bytes, None]:
    """The whole stream as the format writes it; errors become its last frame."""
    yield writer.opening()
    try:
        async with contextlib.aclosing(pipeline.stream(exchange)) as deltas:
            async for delta in deltas:
                yield writer.delta(delta)
        yield writer.closing()
    except SluicegateError as error:
        yield writer.failing(error)
    except Exception:
        log.exception("request %s broke in mid-stream", exchange.request.id)
        yield writer.failing(GenerationFailed("the gateway failed while it answered; the stream is not whole"))


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _end(*tasks: Awaitable[Any]) -> None:
    for task in tasks:
        if isinstance(task, asyncio.Future) and not task.done():
            task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task
