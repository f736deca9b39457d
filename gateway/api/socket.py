"""`/v1/chat/completions/ws`: chat completions over a WebSocket, one after the other on one connection.

Each text message is the body of a chat completion; the answer is always streamed: a message for each chunk, then
`[DONE]`.
`{"type": "cancel"}` ends the answer that is being written, and so does closing the connection. Every message is a
request of its own, with a key check, limits and rails of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson
from fastapi import APIRouter, Response, WebSocket, WebSocketDisconnect

from gateway.admin import api_key_of
from gateway.api.bodies import Parsed
from gateway.api.chat_answer import ChunkWriter
from gateway.api.chat_request import parse_chat
from gateway.api.errors import error_body, error_status
from gateway.delivery import frames_of
from gateway.telemetry import parent_context
from plugins import GenerationFailed, PermissionDenied, RequestError, SluicegateError

if TYPE_CHECKING:
    from gateway.house import House

log = logging.getLogger("sluicegate.socket")
WAITING = 8
"""Messages read ahead; a client that sends more waits."""
DONE = "[DONE]"
GONE = (WebSocketDisconnect, RuntimeError, OSError)
"""What a socket raises that nobody reads any more."""


def add_socket_routes(router: APIRouter, house: House) -> None:
    @router.websocket("/v1/chat/completions/ws")
    async def chat_socket(socket: WebSocket) -> None:
        try:
            _check_origin(socket)
            house.identify(api_key_of(socket))
        except RequestError as error:
            await socket.send_denial_response(Response(error_body(error), error_status(error)))
            return
        await socket.accept()
        await Conversation(house, socket).run()


def _check_origin(socket: WebSocket) -> None:
    """Browsers let any page open a socket to anywhere, and say from where: only pages of this gateway may."""
    origin = socket.headers.get("origin")
    if origin and urlsplit(origin).netloc != socket.headers.get("host"):
        raise PermissionDenied(f"pages of {origin!r} may not open a socket here")


class Conversation:
    """One connection. Messages are read while an answer is written, so that it can be ended."""

    def __init__(self, house: House, socket: WebSocket) -> None:
        self._house = house
        self._socket = socket
        self._messages: asyncio.Queue[str | None] = asyncio.Queue(WAITING)
        self._answering: asyncio.Task[None] | None = None

    async def run(self) -> None:
        reader = asyncio.ensure_future(self._read())
        try:
            while (message := await self._messages.get()) is not None:
                await self._run_one(message)
        except GONE:
            log.info("a client left its socket while it was answered")
        finally:
            reader.cancel()
            self._cancel()

    async def _run_one(self, message: str) -> None:
        task = self._answering = asyncio.ensure_future(self._answer(message))
        await asyncio.wait((task,))
        self._answering = None
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def _read(self) -> None:
        try:
            while True:
                message = await self._socket.receive_text()
                if _is_cancel(message):
                    self._cancel()
                else:
                    await self._messages.put(message)
        except (*GONE, KeyError):  # a KeyError: bytes where text was expected
            self._cancel()
            while not self._messages.empty():
                self._messages.get_nowait()
            self._messages.put_nowait(None)

    def _cancel(self) -> None:
        if self._answering is not None:
            self._answering.cancel()

    async def _answer(self, message: str) -> None:
        try:
            await self._stream(message)
        except SluicegateError as error:
            await self._send(error_body(error))
        except GONE:
            raise
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):
                await self._socket.send_text(DONE)
            raise
        except Exception:
            log.exception("a message could not be answered")
            await self._send(error_body(GenerationFailed("the gateway failed while it answered")))
        else:
            return
        await self._socket.send_text(DONE)

    async def _stream(self, message: str) -> None:
        key = api_key_of(self._socket)
        tenant = self._house.identify(key).tenant
        parsed = await self._house.reader.parse_text(message, tenant, _parsed, key)
        self._house.check_ready()
        pipeline = self._house.pipeline
        context, route = parent_context(self._socket.headers), self._socket.url.path
        exchange = await pipeline.open(parsed.request, context, route=route)
        exchange.ignored += parsed.ignored
        writer = ChunkWriter(exchange, include_usage=parsed.include_usage, explain=parsed.explain)
        try:
            async with contextlib.aclosing(frames_of(pipeline, exchange, writer)) as frames:
                async for frame in frames:
                    await self._send(frame)
        finally:
            await pipeline.close(exchange, asyncio.CancelledError())

    async def _send(self, frame: bytes) -> None:
        """A frame may hold several events; each is a message."""
        for event in frame.decode().split("\n\n"):
            if event:
                await self._socket.send_text(event.removeprefix("data: "))


def _parsed(tree: Mapping[str, Any], key: str | None) -> Parsed:
    if tree.get("stream", True) is not True:
        raise RequestError("over a socket every answer is streamed; leave `stream` out", param="stream")
    return parse_chat({**tree, "stream": True}, key)


def _is_cancel(message: str) -> bool:
    if len(message) > 64 or "cancel" not in message:
        return False
    with contextlib.suppress(orjson.JSONDecodeError):
        return bool(orjson.loads(message) == {"type": "cancel"})
    return False
