"""Measure the cost of asking another server: CPU time of httpx, aiohttp and our own client.

Whole answers and streams of 64 chunks, 16 at a time over kept connections, against a bare ASGI server in a
process of its own. Only the client's CPU counts.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import aiohttp
import httpx
import uvloop

from benchmarks.common import machine, parser, report
from sluicegate.gateway.upstream.http1.address import ServerAddress, lines_of
from sluicegate.gateway.upstream.http1.connecting import Connector
from sluicegate.gateway.upstream.http1.pool import Pool

SERVER = """
import sys, uvicorn
BODY = b'{"choices": [{"index": 0, "message": {"content": "' + b"word " * 40 + b'"}, "finish_reason": "stop"}]}'
CHUNK = b'data: {"choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": null}]}\\n\\n'
async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    head = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    if scope["path"] == "/whole":
        await send({"type": "http.response.body", "body": BODY})
        return
    for _ in range(64):
        await send({"type": "http.response.body", "body": CHUNK, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", loop="uvloop", http="httptools")
"""
ASKED = {"model": "m", "messages": [{"role": "user", "content": "hello " * 100}]}
Ask = Callable[[str], Awaitable[int]]


def main() -> None:
    made = parser(__doc__, None, 1500, "whole answers; of streams a quarter")
    made.add_argument("--rounds", type=int, default=3)
    given = made.parse_args()
    print(machine())
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(port)])
    try:
        found = uvloop.run(measure(f"http://127.0.0.1:{port}", given.limit, given.rounds))
    finally:
        server.terminate()
        server.wait()
    for kind in ("whole", "stream"):
        for peer in ("httpx", "aiohttp"):
            print(f"{kind:7} {peer} / ours = {found[f'{peer} {kind}'] / found[f'ours {kind}']:.2f}")
    report(given, found)


async def measure(url: str, limit: int, rounds: int) -> dict[str, float]:
    """Measure the milliseconds of CPU a request, the best of `rounds`, in turns."""
    found: dict[str, float] = {}
    limits = httpx.Limits(max_connections=16, max_keepalive_connections=16)
    async with httpx.AsyncClient(limits=limits, trust_env=False) as old, aiohttp.ClientSession() as new:
        await _until_up(old, url)
        address = ServerAddress.of(url)
        own = Pool(Connector(address, connect_s=5.0, only_public=False, tls=None), 16)
        for _ in range(rounds):
            for name, ask in (("httpx", _httpx(old)), ("aiohttp", _aiohttp(new)), ("ours", _ours(own, address))):
                for kind in ("whole", "stream"):
                    ms = await _cpu_ms(ask, f"{url}/{kind}", limit if kind == "whole" else max(1, limit // 4))
                    key = f"{name} {kind}"
                    found[key] = min(found.get(key, ms), ms)
        own.close()
    for key, ms in found.items():
        print(f"{key:15} {ms:.3f} ms CPU a request")
    return found


async def _until_up(client: httpx.AsyncClient, url: str) -> None:
    for _ in range(200):
        try:
            await client.get(f"{url}/whole")
            return
        except httpx.ConnectError:
            await asyncio.sleep(0.05)
    raise SystemExit("the server did not come up")


async def _cpu_ms(ask: Ask, url: str, count: int) -> float:
    left = count

    async def worker() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            assert await ask(url) > 200

    await asyncio.gather(*(ask(url) for _ in range(16)))
    started = time.process_time()
    await asyncio.gather(*(worker() for _ in range(16)))
    return (time.process_time() - started) * 1e3 / count


def _httpx(client: httpx.AsyncClient) -> Ask:
    async def ask(url: str) -> int:
        async with client.stream("POST", url, json=ASKED) as answer:
            return sum([len(piece) async for piece in answer.aiter_bytes()])

    return ask


def _aiohttp(session: aiohttp.ClientSession) -> Ask:
    async def ask(url: str) -> int:
        async with session.post(url, json=ASKED) as answer:
            return sum([len(piece) async for piece in answer.content.iter_any()])

    return ask


def _ours(pool: Pool, address: ServerAddress) -> Ask:
    headers = lines_of({"content-type": "application/json", "accept": "text/event-stream"})

    async def ask(url: str) -> int:
        body, until = json.dumps(ASKED).encode(), asyncio.get_running_loop().time() + 60.0
        length = b"content-length: %d\r\n\r\n" % len(body)
        head = address.head("POST", url[url.rindex("/") :])
        answer = await pool.ask(head + headers + length + body, lambda: None, until)
        count = 0
        while piece := await answer.read(until):
            count += len(piece)
        return count

    return ask


if __name__ == "__main__":
    main()
