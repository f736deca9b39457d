"""Write the body of a request to a server, note when it is written whole, and send a short one with its head.

Before Python 3.12 aiohttp makes a task for each body, which costs as much as all else that writing a request takes.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import aiohttp
from aiohttp.client_reqrep import ClientRequest

MOST_AT_ONCE = 64 * 1024
"""Bytes of a body that are handed to the socket without asking whether it takes more; what most of them buffer."""


class NotedBody(aiohttp.BytesPayload):
    """A request body that tells when it was written whole."""

    def __init__(self, data: bytes, written: Callable[[], None]) -> None:
        super().__init__(data)
        self.data = data
        self.written = written

    async def write_with_length(self, writer: Any, content_length: int | None) -> None:
        await super().write_with_length(writer, content_length)
        self.written()

    async def write(self, writer: Any) -> None:
        await super().write(writer)
        self.written()


class _Head:
    """Stands for the transport while aiohttp writes the head of a request, which is to leave together with its body:
    uvloop hands each write to the socket at once."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.parts: list[bytes] = []
        self.write = self.parts.append
        self.is_closing = transport.is_closing


class WrittenAtOnce(ClientRequest):
    """Writes a short `NotedBody` without a task, in one piece with its head; a larger one, or one for a socket that is
    full, as aiohttp does."""

    async def send(self, conn: Any) -> aiohttp.ClientResponse:
        body = self._body
        protocol = conn.protocol
        transport = protocol.transport
        if type(body) is not NotedBody or len(body.data) > MOST_AT_ONCE or protocol.writing_paused or transport is None:
            return await super().send(conn)
        self._body = None  # its length is among the headers already
        head = protocol.transport = _Head(transport)
        try:
            answer = await super().send(conn)  # waits for nothing: nobody traces it
        finally:
            self._body, protocol.transport = body, transport
        transport.write(b"".join([*head.parts, body.data]))
        body.written()
        return answer


REQUEST: type[ClientRequest] = ClientRequest if sys.version_info >= (3, 12) else WrittenAtOnce
