"""A server that answers more than it was asked: nobody gets the answer to somebody else's question."""

from __future__ import annotations

import asyncio

import pytest

from sluicegate.gateway.upstream.settings import UpstreamModelSettings
from sluicegate.gateway.upstream.transport.client import Client
from sluicegate.gateway.upstream.transport.server import TryCounter


def answer(text: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(text) + text


OWN, OTHER = answer(b"own"), answer(b"other")
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nown\r\n"
WAYS = {
    "together": [OWN + OTHER],
    "behind": [OWN, OTHER],
    "in parts": [OWN, OTHER[:20], OTHER[20:]],
    "with the end of chunks": [CHUNKED, b"0\r\n\r\n" + OTHER],
    "behind trailers": [CHUNKED + b"0\r\nx-a: b\r\n\r\n", OTHER],
    "behind an interim head": [OWN, b"HTTP/1.1 100 Continue\r\n\r\n" + OTHER],
}


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_that_nobody_asked_for_answers_nobody(way: str) -> None:
    async def main() -> list[bytes]:
        said = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while True:
                    await reader.readuntil(b"{}")
                    for part in WAYS[way] if not said.is_set() else [OWN]:
                        writer.write(part)
                        await asyncio.sleep(0.05)
                    said.set()
            except (asyncio.IncompleteReadError, OSError):
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        client = Client("far", UpstreamModelSettings(url=url, allow_private=True, retries=0))
        await client.start()
        found = []
        for _ in range(3):
            reply = await client.ask({}, TryCounter())
            found.append(b"".join([piece async for piece in reply.pieces(None, 1000)]))
            await reply.finish()
            reply.drop()
            await said.wait()
        await client.close()
        server.close()
        return found

    assert asyncio.run(main()) == [b"own"] * 3
