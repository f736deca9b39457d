"""A server that does what its script says: a real uvicorn on a port of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sluicegate.gateway.testing import TestApp
from tests.gateway.serving import serving

Send = Callable[[dict[str, Any]], Awaitable[None]]
Act = Callable[["ScriptedServer", Send], Awaitable[None]]


class ScriptedServer:
    """`acts` are done one a request, the last one again and again. `bodies`: what was asked. `left`: how often the
    other side hung up while an act went on."""

    def __init__(self, *acts: Act) -> None:
        self._acts = list(acts)
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.left = 0
        self.streaming = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.headers.append({k.decode(): v.decode() for k, v in scope["headers"]})
        self.bodies.append(json.loads(body))
        self.streaming = bool(self.bodies[-1].get("stream"))
        act = self._acts.pop(0) if len(self._acts) > 1 else self._acts[0]
        task = asyncio.ensure_future(act(self, send))
        gone = asyncio.ensure_future(receive())
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            self.left += 1
            task.cancel()
        gone.cancel()


@contextmanager
def running(app: Any, certificate: tuple[str, str] | None = None) -> Iterator[str]:
    """Run an application as a server, with a certificate by HTTPS; yield its base URL."""
    with serving(app, lifespan="off", certificate=certificate) as url:
        yield f"{url}/v1"


def chunk(text: str = "", reason: str | None = None, index: int = 0, **delta: Any) -> bytes:
    said = {"content": text, **delta} if text else delta
    return event({"choices": [{"index": index, "delta": said, "finish_reason": reason}]})


def event(body: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


USAGE = event({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7}})
END = b"data: [DONE]\n\n"


def says(*texts: str, reason: str = "stop", tail: bytes = USAGE + END) -> Act:
    streamed = streams(*(chunk(text) for text in texts), chunk(reason=reason), tail)
    message = {"role": "assistant", "content": "".join(texts)}
    usage = {"prompt_tokens": 11, "completion_tokens": 7}
    choices = [{"index": 0, "message": message, "finish_reason": reason}]
    whole = answers(200, {"choices": choices, "usage": usage})

    async def act(server: ScriptedServer, send: Send) -> None:
        await (streamed if server.streaming else whole)(server, send)

    return act


def streams(*frames: bytes, pause_s: float = 0.0, cut: bool = False) -> Act:
    """Stream frames. With `cut` the connection is closed without an end."""

    async def act(server: ScriptedServer, send: Send) -> None:
        head = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        for frame in frames:
            await send({"type": "http.response.body", "body": frame, "more_body": True})
            await asyncio.sleep(pause_s)
        if not cut:
            await send({"type": "http.response.body", "body": b""})

    return act


def answers(status: int, body: Any = None, headers: dict[str, str] | None = None) -> Act:
    async def act(server: ScriptedServer, send: Send) -> None:
        raw = [(k.encode(), v.encode()) for k, v in (headers or {}).items()]
        head = [(b"content-type", b"application/json"), *raw]
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": json.dumps(body or {}).encode()})

    return act


async def hangs(server: ScriptedServer, send: Send) -> None:
    await asyncio.sleep(30)


def gateway(url: str, *, pipeline: dict[str, Any] | None = None, **settings: Any) -> TestApp:
    """Make a gateway in front of `url`, with the real grammars."""
    model = {"url": url, "allow_private": True, "retries": 0, "dialect": "vllm", **settings}
    stages = {"generate": {"upstream": {"models": {"far": model}}}}
    slots = {"generate": ["upstream"], "constrain": ["grammar"], **(pipeline or {})}
    return TestApp(pipeline=slots, stages=stages)
