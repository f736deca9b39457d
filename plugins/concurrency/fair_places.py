"""Places for calls that wait for something outside, such as connections to a server: tenants take turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sluicegate.plugins.concurrency.fair_queue import FairQueue


class FairPlaces:
    """At most `places` calls at a time, at most `share` of one tenant. Used from one event loop."""

    def __init__(self, places: int, share: int) -> None:
        self._queue: FairQueue[asyncio.Future[None]] = FairQueue(places, share)

    @asynccontextmanager
    async def taken(self, tenant: str) -> AsyncIterator[None]:
        """Hold a place within; wait for it before. A call that is cancelled while it waits gets none."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.add(tenant, turn)
        self._start()
        try:
            await turn
        except BaseException:
            if not self._queue.withdraw(tenant, turn):  # it got its place while it was cancelled
                self._end(tenant)
            raise
        try:
            yield
        finally:
            self._end(tenant)

    def _end(self, tenant: str) -> None:
        self._queue.ended(tenant)
        self._start()

    def _start(self) -> None:
        while (found := self._queue.next()) is not None:
            if not found[1].done():  # else it was cancelled, and gives its place up
                found[1].set_result(None)
