"""Pools of connections to Redis: those of an event loop, whose callers wait for each other, and connections that leave
a server which is no longer the main one. Imports `redis`: for who needs one."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

from redis import sentinel as blocking
from redis.asyncio import ConnectionPool
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.exceptions import ReadOnlyError, RedisError

ASK_AGAIN_S = 1.0
"""How often a Sentinel is asked which server is the main one. One that no longer is takes writes until Sentinel tells
it, some ten seconds later, and loses all of them then."""


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


class _LeavesReplicas:
    """A connection that is closed where the server takes no writes: it may have been the main one until now, and the
    address lead to another by now. Connections of a Sentinel set do so by themselves, but those of one address would
    stay with the old server for as long as it runs."""

    async def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return await super().read_response(*args, **options)  # type: ignore[misc]
        except ReadOnlyError:
            await self.disconnect()  # type: ignore[attr-defined]
            raise


class _BlockingLeavesReplicas:
    """As `_LeavesReplicas`, of a client on threads."""

    def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return super().read_response(*args, **options)  # type: ignore[misc]
        except ReadOnlyError:
            self.disconnect()  # type: ignore[attr-defined]
            raise


def leave_replicas(pool: Any) -> None:
    """Let the connections that `pool` will make leave a server that has become a replica."""
    kind = _LeavesReplicas if isinstance(pool, ConnectionPool) else _BlockingLeavesReplicas
    pool.connection_class = type("Connection", (kind, pool.connection_class), {})


class SharedSentinelPool(_ConnectionSlots, SentinelConnectionPool):
    """A pool of the server that a Sentinel names, which is asked again while the pool is used."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._asked_s = 0.0
        self._asking: asyncio.Task[None] | None = None

    async def get_connection(self, *args: Any, **options: Any) -> Any:
        if self._asking is None and time.monotonic() - self._asked_s > ASK_AGAIN_S:
            self._asking = asyncio.create_task(self._ask_again())
        found = await super().get_connection(*args, **options)
        if self.master_address not in (None, (found.host, found.port)):
            try:
                await found.disconnect()
                await found.connect()
            except BaseException:
                await self.release(found)
                raise
        return found

    async def disconnect(self, inuse_connections: bool = True) -> None:
        if inuse_connections and self._asking is not None:
            self._asking.cancel()
        await super().disconnect(inuse_connections)

    async def _ask_again(self) -> None:
        """Ask beside the calls; where no Sentinel answers, all stays as it is."""
        try:
            with contextlib.suppress(RedisError, OSError):
                await self.get_master_address()  # type: ignore[no-untyped-call]
        finally:
            self._asked_s, self._asking = time.monotonic(), None


class BlockingSentinelPool(blocking.SentinelConnectionPool):
    """As `SharedSentinelPool`, of a client on threads; there the question is waited for."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)  # type: ignore[no-untyped-call]
        self._asked_s = 0.0

    def get_connection(self, *args: Any, **options: Any) -> Any:
        if time.monotonic() - self._asked_s > ASK_AGAIN_S:
            with contextlib.suppress(RedisError, OSError):
                own: Any = self
                own.get_master_address()
            self._asked_s = time.monotonic()
        return super().get_connection(*args, **options)
