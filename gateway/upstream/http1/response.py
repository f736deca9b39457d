"""An answer whose head has come; its body comes in pieces."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Protocol

AT_ONCE = 16 * 1024
"""Bytes of a body that are held, or about; its connection reads no further before they are taken. Others have their
turn after so many, however fast a server sends."""


class ResponseSource(Protocol):
    """The connection that an answer comes by."""

    def taken(self) -> None:
        """Note that all that was held was taken."""

    def expect(self, until: float) -> None:
        """Fail the answer with `TimeoutError` at `until`, in the loop's time; `inf`: never mind."""

    def abort(self) -> None: ...


class Response:
    """`status` and `headers` are there from the beginning: names in lower case, values of one name joined by commas. A
    body without a known length is as long as its connection; a known one that is cut raises."""

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
        """Return whether all of the body was taken, or no more of it comes."""
        return self._source is None and not self._pieces

    def take(self) -> bytes:
        """Return what came and was not taken, without waiting; it may be nothing."""
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
        """Return what comes next, b"" at the end. Raises `HttpFailure` where the answer breaks off, `TimeoutError` at
        `until`, in the loop's time, after which nothing more comes."""
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
        """Close the connection, unless the whole answer came: it serves the next request then."""
        if self._source is not None:
            self._source.abort()

    # --- by the connection --------------------------------------------------------------------------------------

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self.held += len(piece)
        self._wake()

    def end(self) -> None:
        """Note that all has come."""
        self._source = None
        self._wake()

    def fail(self, failure: OSError) -> None:
        """Note that no more comes. What came before is read first."""
        self._failure, self._source = failure, None
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


Written = Callable[[], None]
