"""Send a stream, joining messages that are ready while one is being sent: a write costs gRPC three times what a chunk
does.

Protobuf messages joined byte by byte are one message with the entries of all.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from sluicegate.plugins import SluicegateError

MOST_BYTES = 65_536
"""Most bytes that may wait; beyond that the producer waits."""


class StreamSender:
    """`write` sends one message. Used once, on the event loop."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._write = write
        self._parts: list[bytes] = []
        self._nbytes = 0
        self._sending: asyncio.Task[None] | None = None

    async def send_all(self, parts: AsyncIterator[bytes]) -> None:
        """Send all of `parts`, also those before an error that `parts` raise. Raises what `write` raises."""
        try:
            try:
                async for part in parts:
                    await self._put(part)
            except SluicegateError:
                await self._sent()
                raise
            await self._sent()
        finally:
            await self._ended()

    async def _put(self, part: bytes) -> None:
        self._parts.append(part)
        self._nbytes += len(part)
        if self._sending is None or self._sending.done():
            await self._sent()
            self._sending = asyncio.ensure_future(self._send())
        if self._nbytes > MOST_BYTES:
            await self._sent()

    async def _sent(self) -> None:
        """Wait for the write under way. Raises what `write` raised."""
        if self._sending is not None:
            await self._sending

    async def _send(self) -> None:
        while self._parts:
            message = b"".join(self._parts)
            self._parts, self._nbytes = [], 0
            await self._write(message)

    async def _ended(self) -> None:
        if self._sending is not None and not self._sending.done():
            self._sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._sending
