"""A dialect over a WebSocket, one request after the other on one connection: `/v1/chat/completions/ws`.

Each text message is the body of a request; the answer is always streamed: a message for each chunk, then
`[DONE]`, exactly one for every message however it ended.
`{"type": "cancel"}` ends the oldest message before it that has no end yet, begun or not; closing the connection ends
all. Every message is a request of its own, with a key check, limits and rails of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import orjson
from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from starlette.routing import WebSocketRoute

from sluicegate.gateway.api.body.parsing import InWordsOf, Parsed, Tree
from sluicegate.gateway.api.delivery import frames_of
from sluicegate.gateway.api.dialect import TextDialect
from sluicegate.gateway.http.api_key import api_key_of
from sluicegate.gateway.http.errors import ErrorForms
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.telemetry import parent_context
from sluicegate.plugins import GenerationFailed, RequestError, SluicegateError

log = logging.getLogger("sluicegate.socket")
WAITING = 64
"""Messages read ahead, together no larger than a body may be; a client that sends more waits."""
DONE = "[DONE]"
GONE = (WebSocketDisconnect, RuntimeError, OSError)
"""What a socket raises that nobody reads any more."""


def _not_text() -> RequestError:
    return RequestError("a message must be text, found a binary one", code="invalid_json")


def add_no_socket_route(router: APIRouter, forms: ErrorForms) -> None:
    """Refuse the WebSockets of all other paths; to be added last."""

    @router.websocket("/{path:path}")
    async def refuse(socket: WebSocket) -> None:
        served = [route.path for route in socket.app.routes if isinstance(route, WebSocketRoute)][:-1]
        path = socket.scope["path"]
        found = f"WebSocket {path[:200]}: Not Found; WebSockets are served at {', '.join(served) or 'no path'}"
        error = RequestError(found, code="unknown_url")
        error.status = 404
        await forms.refuse(error, socket.scope, socket.receive, socket.send)


def add_socket_route(router: APIRouter, runtime: Runtime, dialect: TextDialect[Any], forms: ErrorForms) -> None:
    @router.websocket(f"{dialect.path}/ws")
    async def serve(socket: WebSocket) -> None:
        try:
            runtime.identify(api_key_of(socket))
        except RequestError as error:
            await forms.refuse(error, socket.scope, socket.receive, socket.send)
            return
        await socket.accept()
        await Conversation(runtime, dialect, socket).run()


@dataclass(eq=False, slots=True)
class Turn:
    """One message, until its end has been sent. `cancelled` may come before it is begun."""

    message: str | SluicegateError
    cancelled: bool = False
    task: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        if self.task is not None and not self.cancelled:
            self.task.cancel()
        self.cancelled = True


class Conversation:
    """One connection. Messages are read while an answer is written, so that it can be ended; each gets one `[DONE]`."""

    def __init__(self, runtime: Runtime, dialect: TextDialect[Any], socket: WebSocket) -> None:
        self._runtime = runtime
        self._dialect = dialect
        self._socket = socket
        self._most = runtime.settings.server.max_body_bytes
        self._turns: deque[Turn] = deque()
        """Those that have not ended, oldest first; the first is being answered."""
        self._changed = asyncio.Event()
        self._over = False

    async def run(self) -> None:
        reader = asyncio.ensure_future(self._read())
        try:
            while (turn := await self._next()) is not None:
                await self._answer(turn)
                self._turns.popleft()
                self._changed.set()
        except GONE:
            log.info("a client left its socket while it was answered")
        finally:
            reader.cancel()
            self._leave()

    async def _next(self) -> Turn | None:
        await self._until(lambda: bool(self._turns) or self._over)
        return None if self._over else self._turns[0]

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._changed.clear()
            await self._changed.wait()

    async def _read(self) -> None:
        try:
            while (event := await self._socket.receive())["type"] == "websocket.receive":
                text = event.get("text")
                if text is not None and len(text) > self._most:
                    await self._socket.close(1009, "the message is too large")
                    break
                if text is not None and _is_cancel(text):
                    self._cancel_oldest()
                    continue
                await self._until(lambda: len(self._turns) < WAITING and self._waiting() <= self._most)
                self._turns.append(Turn(text if text is not None else _not_text()))
                self._changed.set()
        except GONE:
            log.info("a client left its socket while it was read")
        finally:
            self._leave()

    def _waiting(self) -> int:
        """Count the characters of messages that were read and are not answered."""
        return sum(len(turn.message) for turn in self._turns if isinstance(turn.message, str))

    def _cancel_oldest(self) -> None:
        """Cancel the oldest message that has not ended and was not cancelled yet: a cancel is for a message before
        it."""
        turn = next((turn for turn in self._turns if not turn.cancelled), None)
        if turn is not None:
            turn.cancel()

    def _leave(self) -> None:
        self._over = True
        for turn in self._turns:
            turn.cancel()
        self._changed.set()

    async def _answer(self, turn: Turn) -> None:
        """Answer one message. Raises what a closed WebSocket raises."""
        if not turn.cancelled:
            turn.task = asyncio.ensure_future(self._written(turn.message))
            await asyncio.wait((turn.task,))
            if not turn.task.cancelled() and (error := turn.task.exception()) is not None:
                raise error
        if not self._over:
            await self._socket.send_text(DONE)

    async def _written(self, message: str | SluicegateError) -> None:
        """Write an answer without its end mark."""
        try:
            if isinstance(message, SluicegateError):
                raise message
            await self._stream(message)
        except SluicegateError as error:
            await self._send(self._dialect.errors.body(error))
        except GONE:
            raise
        except Exception:
            log.exception("a message could not be answered")
            await self._send(self._dialect.errors.body(GenerationFailed("the gateway failed while it answered")))

    async def _stream(self, message: str) -> None:
        runtime, key = self._runtime, api_key_of(self._socket)
        parsed = await runtime.reader.parse_text(message, runtime.identify(key).tenant, self._parsed, key)
        runtime.check_ready()
        context, route = parent_context(self._socket.headers), self._socket.url.path
        with InWordsOf(parsed):
            exchange = await runtime.pipeline.open(parsed.request, context, route=route)
        exchange.ignored += parsed.ignored
        writer = self._dialect.writer(exchange, parsed)
        try:
            async with contextlib.aclosing(frames_of(runtime.pipeline, exchange, writer, parsed)) as frames:
                async for frame in frames:
                    await self._send(frame)
        finally:
            await runtime.pipeline.close(exchange, asyncio.CancelledError())

    def _parsed(self, tree: Tree, key: str | None) -> Parsed:
        if tree.get("stream", True) is not True:
            raise RequestError("over a socket every answer is streamed; leave `stream` out", param="stream")
        return cast("Parsed", self._dialect.read({**tree, "stream": True}, key))

    async def _send(self, frame: bytes) -> None:
        """Send each event of a frame as a message, and errors as they are. The end mark is `_answer`'s."""
        for event in frame.decode().split("\n\n"):
            text = event.partition("data: ")[2] if event.startswith(("data: ", "event: ")) else event
            if text and text != DONE:
                await self._socket.send_text(text)


def _is_cancel(message: str) -> bool:
    if len(message) > 64 or "cancel" not in message:
        return False
    with contextlib.suppress(orjson.JSONDecodeError):
        return bool(orjson.loads(message) == {"type": "cancel"})
    return False
