"""Pools of connections to Redis whose callers wait for each other. Imports `redis`: for who needs one."""

from __future__ import annotations

import asyncio
from typing import Any

from redis.asyncio import ConnectionPool
from redis.asyncio.sentinel import SentinelConnectionPool


class _ConnectionSlots:
    """Holds a place for each connection in use. `BlockingConnectionPool` of `redis` waits too, but on a condition of
    asyncio, which before Python 3.13 loses a wake-up whose caller was cancelled; ours are, by their deadlines."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._places = asyncio.Semaphore(self.max_connections)  # type: ignore[attr-defined]
        self._lent: set[Any] = set()

    async def get_connection(self, *args: Any, **options: Any) -> Any:
        await self._places.acquire()
        try:
            found = await super().get_connection(*args, **options)  # type: ignore[misc]
        except BaseException:
            self._places.release()
            raise
        self._lent.add(found)
        return found

    async def release(self, connection: Any) -> None:
        try:
            await super().release(connection)  # type: ignore[misc]
        finally:
            if connection in self._lent:  # else it could not be connected: `get_connection` gives its place back
                self._lent.remove(connection)
                self._places.release()


class SharedPool(_ConnectionSlots, ConnectionPool):
    """A pool of one server."""


class SharedSentinelPool(_ConnectionSlots, SentinelConnectionPool):
    """A pool of the server that a Sentinel names."""
