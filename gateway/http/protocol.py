"""The protocols of uvicorn, with an end to patience: heads that never come, heads without end, bodies that go on
after their answer, readers that stop.
It tells what runs for a client that the client has left, and writes with few system calls.

Nothing here costs a well-behaved client anything: timers are set once for a head, where a reader falls behind, and
where an answer comes before the end of the body.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from sluicegate.gateway.http.authority import TARGET
from sluicegate.gateway.http.coalescing import Corked
from sluicegate.gateway.http.disconnects import EXTENSION, Leaving
from sluicegate.gateway.settings import ServerSettings


def guarded_protocol(settings: ServerSettings) -> type[HttpToolsProtocol]:
    """A protocol class with these limits; uvicorn makes one object of it for each connection."""

    class GuardedProtocol(HttpToolsProtocol):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._head_bytes = 0
            self._head: asyncio.TimerHandle | None = None
            self._stall: asyncio.TimerHandle | None = None
            self._rest: asyncio.TimerHandle | None = None
            self._leaving = Leaving()

        def connection_made(self, transport: Any) -> None:
            super().connection_made(Corked(transport, self.loop))  # type: ignore[arg-type]
            self._expect_head()

        def connection_lost(self, exc: Exception | None) -> None:
            _stop(self._head)
            _stop(self._stall)
            _stop(self._rest)
            super().connection_lost(exc)
            self._leaving.left()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._head is None or self.transport.is_closing():
                return
            self._head_bytes += len(data)
            if self._head_bytes > settings.max_head_bytes:
                self.send_400_response(f"The head of the request is larger than {settings.max_head_bytes} bytes.")

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self.scope["extensions"] = {EXTENSION: self._leaving}  # type: ignore[dict-item]
            self._expect_head()

        def on_header(self, name: bytes, value: bytes) -> None:
            if len(self.headers) >= settings.max_headers:
                raise ValueError("too many headers")  # httptools makes it a parser error, uvicorn a 400
            super().on_header(name, value)

        def on_headers_complete(self) -> None:
            _stop(self._head)
            self._head = None
            if not self.url.startswith(b"/"):
                self.scope["extensions"][TARGET] = self.url  # type: ignore[assignment]
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            _stop(self._rest)
            super().on_message_complete()

        def on_response_complete(self) -> None:
            """What was answered before its body had come may send the rest, so that its answer is not lost with the
            connection, but not for ever."""
            super().on_response_complete()
            if self.cycle.response_complete and self.cycle.more_body:
                self._rest = self.loop.call_later(settings.body_s, self.transport.abort)

        def pause_writing(self) -> None:
            """The other side has not taken what was sent."""
            super().pause_writing()
            _stop(self._stall)
            self._stall = self.loop.call_later(settings.stall_s, self.transport.abort)

        def resume_writing(self) -> None:
            _stop(self._stall)
            self._stall = None
            super().resume_writing()

        def end_work(self) -> None:
            """The server stops and waits no longer: what runs here is to say so."""
            self._leaving.end()

        def _expect_head(self) -> None:
            self._head_bytes = 0
            if self._head is None:
                self._head = self.loop.call_later(settings.head_s, self._head_is_late)

        def _head_is_late(self) -> None:
            self._head = None
            if not self.transport.is_closing():
                self.send_400_response(f"The head of the request did not come within {settings.head_s:g} s.")

    return GuardedProtocol


def guarded_socket(settings: ServerSettings) -> type[WebSocketsSansIOProtocol]:
    """A protocol class for WebSockets. What a client sends is not read while it does not take what it was sent: every
    ping has an answer, and answers of a client that reads none would pile up."""

    class GuardedSocket(WebSocketsSansIOProtocol):
        _stall: asyncio.TimerHandle | None = None

        def pause_writing(self) -> None:
            super().pause_writing()
            self.transport.pause_reading()
            _stop(self._stall)
            self._stall = self.loop.call_later(settings.stall_s, self.transport.abort)

        def resume_writing(self) -> None:
            _stop(self._stall)
            self._stall = None
            super().resume_writing()
            if not self.read_paused:
                self.transport.resume_reading()

        async def receive(self) -> Any:
            """As uvicorn's, which reads on where the application took all that was read."""
            message = await super().receive()
            if self._stall is not None:
                self.transport.pause_reading()
            return message

        def connection_lost(self, exc: Exception | None) -> None:
            _stop(self._stall)
            self._stall = None
            super().connection_lost(exc)

    return GuardedSocket


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
