"""uvicorn's protocol for WebSockets, for clients that stop reading and for handshakes that are none."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from sluicegate.gateway.http.connection.stalls import StallLimit
from sluicegate.gateway.settings import ServerSettings


def guarded_socket(settings: ServerSettings) -> type[WebSocketsSansIOProtocol]:
    """Return a protocol class for WebSockets. It reads nothing from a client that takes nothing: every ping has an
    answer, and answers that a client does not read would pile up."""

    class GuardedSocket(StallLimit, WebSocketsSansIOProtocol):
        stall_s = settings.stall_s

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.handshake_exc is not None and not self.handshake_initiated:
                self._refuse_handshake()

        def _refuse_handshake(self) -> None:
            """Send what the parser of the handshake answers and close: uvicorn leaves such a connection open for
            good."""
            self.close_sent = self.handshake_complete = True
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

        async def send(self, message: Any) -> None:
            """Do as uvicorn, and take a refusal that was sent whole for the end of the handshake: uvicorn would log an
            error for each."""
            await super().send(message)
            if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
                self.handshake_complete = True

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
