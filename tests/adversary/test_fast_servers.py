"""A server that sends as fast as it can, and nothing of an answer: others have their turn all the while."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from sluicegate.gateway.upstream.bounds import Bounds
from sluicegate.gateway.upstream.events import Malformed, chunks
from sluicegate.gateway.upstream.http1.response import AT_ONCE
from sluicegate.gateway.upstream.settings import UpstreamModelSettings
from sluicegate.gateway.upstream.transport.client import Client
from sluicegate.gateway.upstream.transport.server import TryCounter

BOUNDS = Bounds(choices=1, tokens=64, logprobs=None)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
FLOODS = {
    "blank lines": (b"\r\n", b"\n" * 65536),
    "comments": (b"\r\n", b":\n" * 32768),
    "empty fields": (b"\r\n", b"data:\n" * 10000),
    "one endless line": (b"\r\n", b"d" * 65536),
    "a chunk for each letter": (b"transfer-encoding: chunked\r\n\r\n", b"1\r\n\n\r\n" * 10000),
}


@asynccontextmanager
async def flooding(head: bytes, flood: bytes) -> AsyncIterator[Client]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(HEAD + head)
        try:
            while not writer.is_closing():
                writer.write(flood)
                await writer.drain()
        except (OSError, asyncio.CancelledError):
            pass
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    client = Client("far", UpstreamModelSettings(url=url, allow_private=True, retries=0))
    await client.start()
    try:
        yield client
    finally:
        await client.close()
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("kind", FLOODS)
def test_others_have_their_turn_while_a_server_sends_nothing_of_an_answer(kind: str) -> None:
    """Of what lies ready, few bytes are read in one turn of the loop; at the bound of bytes the answer ends."""
    read: Counter[int] = Counter()
    turn = 0

    async def others() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def main() -> None:
        async with flooding(*FLOODS[kind]) as client:
            reply = await client.ask({}, TryCounter())
            beside = asyncio.create_task(others())

            async def counted() -> AsyncIterator[bytes]:
                async for piece in reply.pieces(None, BOUNDS.event_bytes):
                    read[turn] += len(piece)
                    yield piece

            with pytest.raises(Malformed):
                async for _ in chunks(counted(), BOUNDS):
                    pass
            assert turn > 0
            reply.drop()
            beside.cancel()

    asyncio.run(main())
    assert sum(read.values()) <= BOUNDS.event_bytes + 4 * AT_ONCE
    assert max(read.values()) <= 4 * AT_ONCE
