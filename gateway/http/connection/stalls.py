"""Connections whose client does not read what it is sent."""

from __future__ import annotations

import asyncio


class StallLimit(asyncio.Protocol):
    """Aborts a connection whose client reads nothing of its answer for `stall_s` seconds."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    stall_s: float
    _stall: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        super().pause_writing()
        stop(self._stall)
        self._stall = self.loop.call_later(self.stall_s, self.transport.abort)

    def resume_writing(self) -> None:
        stop(self._stall)
        self._stall = None
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        stop(self._stall)
        super().connection_lost(exc)


def stop(timer: asyncio.TimerHandle | None) -> None:
    """Cancel a timer, if there is one."""
    if timer is not None:
        timer.cancel()
