"""The hostile tenant of `benchmarks.neighbours`: each attack is one request, sent again and again by two callers.

Bodies are made once, and callers rest between requests: what is measured is the gateway, not who sends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import aiohttp

from benchmarks.neighbours_clients import BAD

HUGE = 7_900_000
CALLERS = 2
REST_S = 0.25
LARK = (
    'start: WORD+\nWORD: /[a-z]+/\n%ignore " "',
    "start: w*\nw: /[a-z]+/",
    'start: e\ne: e e | e "+" e | /[a-z0-9]+/',
)
CHAT = "/v1/chat/completions"
Act = Callable[[aiohttp.ClientSession, str], Awaitable[str]]


def _said(content: Any, **more: Any) -> dict[str, Any]:
    return {"model": "bundled", "messages": [{"role": "user", "content": content}], "max_tokens": 16, **more}


def _dumped(body: Any) -> bytes:
    return json.dumps(body).encode()


async def _post(make: Callable[[], bytes], path: str, session: aiohttp.ClientSession, url: str) -> str:
    async with session.post(url + path, data=make(), headers={"content-type": "application/json"}) as answer:
        await answer.read()
        return str(answer.status)


def _same(path: str, body: bytes) -> Act:
    return partial(_post, lambda: body, path)


def _patterns() -> bytes:
    names = {f"p{i}": {"type": "string", "pattern": f"^(a|b)*a(a|b){{{8 + i}}}{random.random()}$"} for i in range(12)}
    asked = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object", "properties": names}}}
    return _dumped(_said("x", response_format=asked))


def _lark() -> bytes:
    return _dumped(_said("go on", structured_outputs={"grammar": random.choice(LARK)}, max_tokens=32))


async def _upload(session: aiohttp.ClientSession, url: str) -> str:
    form = aiohttp.FormData({"purpose": "batch"})
    form.add_field("file", b"{}\n" * 1_500_000, filename="in.jsonl")
    async with session.post(f"{url}/v1/files", data=form) as answer:
        await answer.read()
        return str(answer.status)


async def _slow_readers(session: aiohttp.ClientSession, url: str) -> str:
    """Open eight streams whose heads are read and nothing else."""
    body = _dumped(_said("Tell me a long story.", stream=True, ignore_eos=True) | {"max_tokens": 400})
    async with contextlib.AsyncExitStack() as opened:
        sent = partial(session.post, f"{url}{CHAT}", data=body, headers={"content-type": "application/json"})
        answers = [await opened.enter_async_context(sent()) for _ in range(8)]
        await asyncio.sleep(2)
        return str(max(answer.status for answer in answers))


async def _socket_flood(session: aiohttp.ClientSession, url: str) -> str:
    """Send rubbish, messages and cancels, as fast as they are taken for a second."""
    async with session.ws_connect(f"{url}{CHAT}/ws", max_msg_size=0) as socket:
        ends_s = time.monotonic() + 1
        while time.monotonic() < ends_s:
            for text in ("{", json.dumps(_said("hello")), '{"type": "cancel"}', "[" * 50_000):
                await socket.send_str(text)
            await asyncio.sleep(0.02)
    return "closed"


def _all() -> dict[str, Callable[[], Act]]:
    """Return makers of the attacks. Some bodies are large, and a process runs only one attack."""
    long = "The quick brown fox jumps over the lazy dog. " * (HUGE // 45)
    message = {"role": "user", "content": "a"}
    return {
        "long-prompt": lambda: _same(CHAT, _dumped(_said(long))),
        "long-completion": lambda: _same("/v1/completions", _dumped({"model": "bundled", "prompt": long})),
        "many-messages": lambda: _same(CHAT, _dumped(_said("") | {"messages": [message] * 200_000})),
        "allowed-messages": lambda: _same(CHAT, _dumped(_said("") | {"messages": [message] * 4000})),
        "empty-lists": lambda: _same(CHAT, b'{"model":"bundled","messages":[' + b"[]," * 2_600_000 + b"[]]}"),
        "token-ids": lambda: _same("/v1/completions", _dumped({"model": "bundled", "prompt": [1] * 2_000_000})),
        "long-moderation": lambda: _same("/v1/moderations", _dumped({"input": long})),
        "allowed-moderation": lambda: _same("/v1/moderations", _dumped({"input": long[:950_000]})),
        "many-moderations": lambda: _same("/v1/moderations", _dumped({"input": [long[:3900]] * 250})),
        "embeddings": lambda: _same("/v1/embeddings", _dumped({"model": "bundled", "input": [long[:100]] * 2000})),
        "documents": lambda: _same(CHAT, _dumped(_said("Who?", sluicegate={"context": [{"text": long}] * 1}))),
        "new-schemas": lambda: partial(_post, _patterns, CHAT),
        "lark": lambda: partial(_post, _lark, CHAT),
        "uploads": lambda: _upload,
        "slow-readers": lambda: _slow_readers,
        "socket-flood": lambda: _socket_flood,
    }


ATTACKS = tuple(_all())


async def attack(name: str, url: str, seconds: float) -> dict[str, int]:
    """Run an attack, and count how often each outcome came."""
    did: Counter[str] = Counter()
    act, ends_s = _all()[name](), time.monotonic() + seconds
    heads = {"authorization": f"Bearer {BAD}"}

    async def again(session: aiohttp.ClientSession) -> None:
        while time.monotonic() < ends_s:
            try:
                did[await act(session, url)] += 1
            except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
                did[type(error).__name__] += 1
            await asyncio.sleep(REST_S)

    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(60), headers=heads) as session:
        await asyncio.gather(*(again(session) for _ in range(CALLERS)))
    return dict(did)
