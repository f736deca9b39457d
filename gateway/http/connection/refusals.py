"""Answers to requests that cannot be read, and what a client still sends behind them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from sluicegate.gateway.http.connection.stalls import stop
from sluicegate.gateway.http.disconnects import Disconnect
from sluicegate.gateway.http.errors import JSON, error_body
from sluicegate.gateway.settings import ServerSettings
from sluicegate.plugins import RequestError

UNREAD_BYTES = 4 << 20
"""How much of what a client still sends is passed over, so that it comes to read its answer."""
UNREAD_S = 2.0
"""How long that lasts."""


class Refusing(asyncio.Protocol):
    """Answers with a 400 what the parser refuses, in its turn, and lets the client come to read it: a connection that
    is closed while bytes are unread is reset, and its last answer lost with it."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    server_state: Any
    limits: ServerSettings
    disconnect: Disconnect
    cycle: Any
    """uvicorn's, of the last request; None before the first."""
    pipeline: deque[Any]
    _head: asyncio.TimerHandle | None
    """Runs while the head of a request is read."""
    _why = ""
    """Why the parser is to refuse; '' = it is not."""
    _unread: int | None = None
    """Bytes passed over since nothing more is read from the client; None = it is read."""
    _in_turn = ""
    """What to answer when earlier requests of the connection have their answers; '' = nothing."""
    _end: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        stop(self._end)
        super().connection_lost(exc)

    def passes_over(self, data: bytes) -> bool:
        """Return whether nothing that this client sends is read any more."""
        if self._unread is None:
            return False
        self._unread += len(data)
        if self._unread > UNREAD_BYTES:
            self.transport.abort()
        return True

    def send_400_response(self, msg: str) -> None:
        """Answer in JSON, in our own words where it was we who refused; called by uvicorn, too."""
        if self._unread is not None or self.transport.is_closing():
            return
        self._unread = 0
        why, cycle = self._why or msg, self.cycle
        if cycle is None or cycle.response_complete:
            self._refuse_unread(why)
        elif self.disconnect.arrived or self._head is not None:
            self._in_turn = why
        elif cycle.response_started or self.pipeline:  # of this very request: no second answer
            self.transport.abort()
        else:
            self._refuse_unread(why)
            cycle.disconnected = True
            cycle.message_event.set()
            self.disconnect.left()

    def on_response_complete(self) -> None:
        """Answer what could not be read behind this request, if it was the last that could."""
        super().on_response_complete()  # type: ignore[misc]
        if self._in_turn and self.cycle.response_complete:
            self._refuse_unread(self._in_turn)

    def _refuse_unread(self, why: str) -> None:
        self._in_turn = ""
        self.transport.write(bad_request(why, self.server_state.default_headers))
        if not self.transport.can_write_eof():
            self.transport.close()
            return
        self.transport.flush()  # type: ignore[attr-defined]
        self.transport.write_eof()
        self.transport.resume_reading()
        self._end = self.loop.call_later(UNREAD_S, self.transport.abort)


def bad_request(why: str, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the whole answer to a request that cannot be read."""
    body = error_body(RequestError(why, code="invalid_http"))
    own = [(b"content-type", JSON.encode()), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
    return b"".join([STATUS_LINE[400], *[b"%s: %s\r\n" % line for line in (*headers, *own)], b"\r\n", body])
