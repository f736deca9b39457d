"""Bounds on the heads that an MCP server may send before its answer's own, such as "100 Continue".

`httpcore2` passes over any number of them, and reads thousands at once: 1 s of the event loop for each read, for as
long as a call may take.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import httpcore2
import httpx2

MOST_INTERIM = 16
MOST_BYTES = 256 * 1024
"""Of all heads together, with what follows the last of them at once."""
PART = 4096
"""Bytes that are read at once, and parsed without a pause, before the answer's head is there."""
_BEGIN = b"\nHTTP/1."


class _AwaitedHead:
    """Counts what comes before the head of one answer."""

    __slots__ = ("_begun", "_left", "_tail")

    def __init__(self) -> None:
        self._begun = 0
        self._left = MOST_BYTES
        self._tail = b"\n"

    def took(self, data: bytes) -> None:
        """Count what was read. Raises `RemoteProtocolError` past a bound."""
        seen = self._tail + data
        self._begun += seen.count(_BEGIN)
        self._left -= len(data)
        self._tail = seen[1 - len(_BEGIN) :]
        if self._begun > MOST_INTERIM + 1 or self._left < 0:
            raise httpcore2.RemoteProtocolError("the server goes on with heads that begin no answer")


_AWAITED: ContextVar[_AwaitedHead | None] = ContextVar("mcp_awaited_head", default=None)
"""Of the request that the current task has sent."""


@contextmanager
def awaiting_head() -> Iterator[None]:
    """Bound what is read inside, which ends when the head of the answer is there."""
    token = _AWAITED.set(_AwaitedHead())
    try:
        yield
    finally:
        _AWAITED.reset(token)


class _Stream(httpcore2.AsyncNetworkStream):
    def __init__(self, inner: httpcore2.AsyncNetworkStream) -> None:
        self._inner = inner

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        awaited = _AWAITED.get()
        if awaited is None:
            return await self._inner.read(max_bytes, timeout)
        data = await self._inner.read(min(max_bytes, PART), timeout)
        awaited.took(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore2.AsyncNetworkStream:
        return _Stream(await self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Backend(httpcore2.AnyIOBackend):
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        return _Stream(await super().connect_tcp(host, port, timeout, local_address, socket_options))


class HttpTransport(httpx2.AsyncHTTPTransport):
    """As `httpx2.AsyncHTTPTransport`, on streams whose heads are bounded within `awaiting_head`."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        super().__init__(verify=tls or False)
        self._pool = httpcore2.AsyncConnectionPool(ssl_context=tls, keepalive_expiry=5.0, network_backend=_Backend())
