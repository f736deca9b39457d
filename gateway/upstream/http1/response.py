"""A response whose head has come; its body comes in pieces."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Protocol

AT_ONCE = 16 * 1024
"""Bytes of a body that are held, or about; its connection reads no further before they are taken. Others have their
turn after so many, however fast a server sends."""


class ResponseSource(Protocol):
    """The connection that delivers a response."""

    def taken(self) -> None:
        """Report that all held bytes were taken."""

    def expect(self, until: float) -> None:
        """Fail the response with `TimeoutError` at `until`, in the loop's time; `inf`: no limit."""

    def abort(self) -> None: ...


class Response:
    """`headers`: names in lower case, repeated ones joined by commas. A body of unknown length ends with the
    connection; one of known length that is cut raises."""

    __slots__ = ("_end", "_failure", "_pieces", "_source", "_waiter", "headers", "held", "status")

    def __init__(self, source: ResponseSource, status: int, headers: Mapping[bytes, bytes]) -> None:
        self.status = status
        self.headers = headers
        self.held = 0
        """Bytes that came and were not taken."""
        self._source: ResponseSource | None = source
        self._pieces: list[bytes] = []
        self._failure: OSError | None = None
        self._waiter: asyncio.Future[None] | None = None

    def header(self, name: bytes) -> str:
        """Return the value of a header, "" where there is none."""
        return self.headers.get(name, b"").decode("latin-1")

    @property
    def at_end(self) -> bool:
        """Return whether the whole body was taken, or no more of it can come."""
        return self._source is None and not self._pieces

    def take(self) -> bytes:
        """Return the bytes received and not yet taken, without waiting; may be empty."""
        pieces = self._pieces
        if not pieces:
            return b""
        found = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self.held = 0
        if self._source is not None:
            self._source.taken()
        return found

    async def read(self, until: float) -> bytes:
        """Return the next bytes, b"" at the end. Raises `HttpFailure` where the response breaks off, and `TimeoutError`
        at `until`, in the loop's time, after which no more bytes come."""
        while not self._pieces:
            if self._failure is not None:
                raise self._failure
            if self._source is None:
                return b""
            await self._more(self._source, until)
        return self.take()

    async def _more(self, source: ResponseSource, until: float) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        source.expect(until)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if self._source is not None:  # else the connection serves somebody else
                source.expect(math.inf)

    def close(self) -> None:
        """Close the connection, unless the whole response came, after which it may serve the next request."""
        if self._source is not None:
            self._source.abort()

    # --- by the connection --------------------------------------------------------------------------------------

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self.held += len(piece)
        self._wake()

    def end(self) -> None:
        """Mark the response as complete."""
        self._source = None
        self._wake()

    def fail(self, failure: OSError) -> None:
        """Mark the response as failed. Bytes received before are read first."""
        self._failure, self._source = failure, None
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


Written = Callable[[], None]
