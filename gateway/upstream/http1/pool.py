"""The connections to one server: kept for reuse, bounded in number, closed when idle."""

from __future__ import annotations

import asyncio
from collections import deque

from sluicegate.gateway.upstream.http1.connecting import Connector
from sluicegate.gateway.upstream.http1.connection import HttpConnection
from sluicegate.gateway.upstream.http1.failures import ConnectionClosed
from sluicegate.gateway.upstream.http1.response import Response, Written

KEPT_S = 15.0
"""How long a connection is kept that nobody uses."""


class Pool:
    """Connections of one server. Used on one event loop; waiting requests get one in the order of asking."""

    def __init__(self, connector: Connector, most: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._connector = connector
        self._most = most
        self._begun = 0
        """Connections that are there, or that somebody makes."""
        self._all: set[HttpConnection] = set()
        self._idle: list[HttpConnection] = []
        """The one that was used last at the end."""
        self._waiting: deque[asyncio.Future[HttpConnection | None]] = deque()
        """Gets a connection, or None: the right to make one."""
        self._sweep: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def ask(self, request: bytes, written: Written, until: float) -> Response:
        """Send a request on a free connection and return its answer when the head has come, as `HttpConnection.ask`."""
        connection = self._newest()
        if connection is None:
            async with asyncio.timeout_at(until):
                connection = await self._another()
        return await connection.ask(request, written, until)

    def close(self) -> None:
        """Close all connections; answers that are not whole fail."""
        self._is_closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self._all):
            connection.abort()

    def _newest(self) -> HttpConnection | None:
        """Return the connection used last; None where there is none, or it was idle too long (all others were idle for
        longer)."""
        if not self._idle:
            return None
        connection = self._idle.pop()
        if self._loop.time() - connection.idle_since < KEPT_S:
            return connection
        connection.abort()
        return None

    async def _another(self) -> HttpConnection:
        if self._begun < self._most:
            self._begun += 1
            return await self._made()
        turn: asyncio.Future[HttpConnection | None] = self._loop.create_future()
        self._waiting.append(turn)
        try:
            connection = await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self._pass_on(turn.result())
            raise
        if connection is None:
            return await self._made()
        if connection.is_closed:
            return await self._another()
        return connection

    async def _made(self) -> HttpConnection:
        """Connect, for which a place is reserved; on failure pass the place on."""
        try:
            connection = await self._connector.connect(lambda: HttpConnection(self._loop, self._over))
            if self._is_closed or connection.is_closed:
                connection.abort()
                raise ConnectionClosed("the connection was closed as soon as it was made")
        except BaseException:
            self._pass_on(None)
            raise
        self._all.add(connection)
        return connection

    def _over(self, connection: HttpConnection, again: bool) -> None:
        if again:
            self._pass_on(connection)
        elif connection in self._all:  # else it is still being made
            self._all.remove(connection)
            if connection in self._idle:
                self._idle.remove(connection)
            self._pass_on(None)

    def _pass_on(self, connection: HttpConnection | None) -> None:
        """Give a connection (None: a place for one) to the longest waiting request; else keep it."""
        if connection is not None and connection.is_closed:
            return  # its room was passed on when it closed
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(connection)
                return
        if connection is None:
            self._begun -= 1
            return
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = self._loop.call_later(KEPT_S, self._close_unused)

    def _close_unused(self) -> None:
        self._sweep = None
        since = self._loop.time() - KEPT_S
        for connection in [one for one in self._idle if one.idle_since <= since]:
            connection.abort()
        if self._idle:
            self._sweep = self._loop.call_at(self._idle[0].idle_since + KEPT_S, self._close_unused)
