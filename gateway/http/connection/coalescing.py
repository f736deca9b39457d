"""A transport that joins the writes of one turn of the event loop into few system calls, and delays nothing.

The head of an answer waits for what follows it. The first bytes of a turn leave at once; what is written after them
leaves together, when the turn is over or has lasted too long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any

HEAD = b"HTTP/1.1 "
MOST = 65_536
"""Most bytes that may wait; beyond that, flow control must see what is written."""
PATIENCE_S = 0.0005
"""How long they may wait within a turn of the event loop: a turn that produces a whole stream must not delay its
beginning."""


class CoalescedTransport:
    """Wraps the transport of one connection; everything but `write` and `close` is the transport's own."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._call_soon = loop.call_soon
        self._waiting: list[bytes] = []
        self._size = 0
        self._since = 0.0
        self._turn = False
        """Whether something was written in this turn."""
        self._headed = False
        """Whether only a head waits."""
        self.is_closing = transport.is_closing
        self.keeps_open: Callable[[], bool] = bool
        """Returns whether a call of `close` is to be passed over."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._turn:
            self._turn = True
            self._call_soon(self._over)
            if not data.startswith(HEAD):
                self._transport.write(data)
                return
            self._headed = True
            self._waiting.append(data)
            return
        now = monotonic()
        if not self._waiting:
            self._since = now
        self._waiting.append(data)
        self._size += len(data)
        if self._headed or self._size > MOST or now - self._since > PATIENCE_S:
            self.flush()

    def write_whole(self, data: bytes) -> None:
        """Write an answer after which nothing follows in this turn."""
        self.flush()
        self._transport.write(data)

    def flush(self) -> None:
        """Write what waits."""
        waiting, self._waiting, self._size, self._headed = self._waiting, [], 0, False
        if waiting and not self._transport.is_closing():
            self._transport.write(waiting[0] if len(waiting) == 1 else b"".join(waiting))

    def close(self) -> None:
        self.flush()
        if not self.keeps_open():
            self._transport.close()

    def _over(self) -> None:
        self._turn = False
        if self._waiting:
            self.flush()
