"""uvicorn's protocols with limits: on heads that never come or never end, on bodies that go on after their answer, and
on clients that stop reading.

They also report a closed connection to what runs for it, and write with few system calls. A well-behaved client pays
nothing for this: timers are set once for a head, where a client falls behind, and where an answer comes before the end
of its body.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from sluicegate.gateway.http.arrival import note_arrival
from sluicegate.gateway.http.authority import TARGET
from sluicegate.gateway.http.coalescing import CoalescedTransport
from sluicegate.gateway.http.disconnects import EXTENSION, Disconnect
from sluicegate.gateway.settings import ServerSettings


class _StallLimit(asyncio.Protocol):
    """Aborts a connection whose client takes nothing of what it is sent for `stall_s`."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    stall_s: float
    _stall: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        super().pause_writing()
        _stop(self._stall)
        self._stall = self.loop.call_later(self.stall_s, self.transport.abort)

    def resume_writing(self) -> None:
        _stop(self._stall)
        self._stall = None
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        _stop(self._stall)
        super().connection_lost(exc)


def guarded_protocol(settings: ServerSettings) -> type[HttpToolsProtocol]:
    """Return a protocol class with these limits; uvicorn makes one object of it for each connection."""

    class GuardedProtocol(_StallLimit, HttpToolsProtocol):
        stall_s = settings.stall_s

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._head_bytes = 0
            self._head: asyncio.TimerHandle | None = None
            self._rest: asyncio.TimerHandle | None = None
            self._disconnect = Disconnect()

        def connection_made(self, transport: Any) -> None:
            super().connection_made(CoalescedTransport(transport, self.loop))  # type: ignore[arg-type]
            self._expect_head()

        def connection_lost(self, exc: Exception | None) -> None:
            _stop(self._head)
            _stop(self._rest)
            super().connection_lost(exc)
            self._disconnect.left()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._head is None or self.transport.is_closing():
                return
            self._head_bytes += len(data)
            if self._head_bytes > settings.max_head_bytes:
                self.send_400_response(f"The head of the request is larger than {settings.max_head_bytes} bytes.")

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._disconnect.arrived = False
            self.scope["extensions"] = {EXTENSION: self._disconnect}  # type: ignore[dict-item]
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
            if settings.shed_s and (self.cycle is None or self.cycle.response_complete):  # no answer is before it
                note_arrival(self.scope, self.transport.get_extra_info("socket"))  # type: ignore[arg-type]
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            _stop(self._rest)
            super().on_message_complete()
            self._disconnect.arrived = True

        def on_response_complete(self) -> None:
            """Let a client that was answered early send the rest of its body for a while, so that the answer is not
            lost with the connection."""
            super().on_response_complete()
            if self.cycle.response_complete and self.cycle.more_body:
                self._rest = self.loop.call_later(settings.body_s, self.transport.abort)

        def end_work(self) -> None:
            """End what runs here with an error: the server stops and waits no longer."""
            self._disconnect.end()

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
    """Return a protocol class for WebSockets. It reads nothing from a client that takes nothing: every ping has an
    answer, and answers that a client does not read would pile up."""

    class GuardedSocket(_StallLimit, WebSocketsSansIOProtocol):
        stall_s = settings.stall_s

        def pause_writing(self) -> None:
            super().pause_writing()
            self.transport.pause_reading()

        def resume_writing(self) -> None:
            super().resume_writing()
            if not self.read_paused:
                self.transport.resume_reading()

        async def receive(self) -> Any:
            """Do as uvicorn, but do not go on reading while the client takes nothing."""
            message = await super().receive()
            if self._stall is not None:
                self.transport.pause_reading()
            return message

    return GuardedSocket


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
