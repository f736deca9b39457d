"""Connections whose client sends no more: it may still read its answer, or be gone."""

from __future__ import annotations

import asyncio
from typing import Any

from sluicegate.gateway.http.disconnects import Disconnect

INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"
PROBES_S = (0.05, 0.05, 0.2, 1.0)
"""How long to wait before each look whether a client that has closed its side still reads; from then on `PROBE_S`."""
PROBE_S = 5.0


class HalfClosing(asyncio.Protocol):
    """Keeps a connection whose client has closed its side until what it asked for is answered, or it is found gone."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    disconnect: Disconnect
    scheme: Any
    scope: Any
    cycle: Any
    """uvicorn's, of the last request; None before the first."""
    pipelined: bool
    """Whether the last request came before the one in front of it was answered."""
    half_closed = False
    """Whether the client sends no more, and still gets its answers."""
    _probe: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._probe is not None:
            self._probe.cancel()
        super().connection_lost(exc)

    def eof_received(self) -> bool:
        """Keep a connection whose client closed its side after a whole request: it may still read the answer. Whether
        it does, or is gone, only a write can tell: the second one to a client that is gone fails."""
        if not self._owes_an_answer():
            return False
        self.half_closed = True
        self._probe = self.loop.call_later(PROBES_S[0], self._probe_client, 1)
        return True

    def _owes_an_answer(self) -> bool:
        """Return whether all that came are whole requests of HTTP/1.1, the last one of which has no whole answer."""
        cycle = self.cycle
        return (
            self.disconnect.arrived
            and cycle is not None
            and not cycle.response_complete
            and self.scheme == "http"  # TLS has no half-closed connections
            and self.scope["http_version"] == "1.1"
            and not self.transport.is_closing()
        )

    def _probe_client(self, number: int) -> None:
        """Write what every client passes over: an interim response before the head, a comment inside a stream."""
        if self.transport.is_closing() or self.cycle.response_complete:
            return
        if self.disconnect.nudge is not None:
            self.disconnect.nudge()
        elif not (self.pipelined or self.cycle.response_started):
            self.transport.write(INTERIM)
        wait_s = PROBES_S[number] if number < len(PROBES_S) else PROBE_S
        self._probe = self.loop.call_later(wait_s, self._probe_client, number + 1)
