"""Several servers of one model, of aiohttp on ports of their own, each of which may misbehave."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from aiohttp import web

from sluicegate.gateway.testing import TestApp
from tests.waiting import until

Act = Callable[["FleetServer", web.Request], Awaitable[web.StreamResponse]]
CHAT = "/v1/chat/completions"


class FleetServer:
    """`act` answers chat, `page` is what `/metrics` says, `health` the status of `/health`; all may change while it
    runs. `asked`: bodies of chat."""

    def __init__(self, act: Act | None = None, page: bytes = b"", health: int = 200) -> None:
        self.act = act or says("fine")
        self.page = page
        self.health = health
        self.asked: list[dict[str, Any]] = []
        self.heads: list[dict[str, str]] = []
        self.probes = 0
        self.url = ""

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(await request.json())
        self.heads.append(dict(request.headers))
        return await self.act(self, request)

    async def _health(self, request: web.Request) -> web.Response:
        self.probes += 1
        return web.Response(status=self.health)

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self.page, content_type="text/plain")

    @contextmanager
    def running(self, port: int = 0) -> Iterator[str]:
        """Serve, and give the address."""
        app = web.Application()
        app.add_routes(
            [web.post(CHAT, self._chat), web.get("/health", self._health), web.get("/metrics", self._metrics)]
        )
        listener = socket.create_server(("127.0.0.1", port))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        loop, ready = asyncio.new_event_loop(), threading.Event()

        async def serve() -> None:
            runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0)
            await runner.setup()
            await web.SockSite(runner, listener).start()
            ready.set()
            await stop.wait()
            await runner.cleanup()

        stop = asyncio.Event()
        thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
        thread.start()
        assert ready.wait(10)
        try:
            yield self.url
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(10)
            loop.close()


@contextmanager
def fleet(*servers: FleetServer | None, **settings: Any) -> Iterator[TestApp]:
    """Run a gateway in front of servers of one model. None stands for an address at which nobody listens."""
    with ExitStack() as stack:
        urls = [stack.enter_context(nobody() if s is None else s.running()) for s in servers]
        model = {"urls": urls, "allow_private": True, "dialect": "vllm", "probe_s": 0.05, "pause_s": 30.0, **settings}
        stages = {"generate": {"upstream": {"models": {"far": model}}}}
        slots = {"generate": ["upstream"], "constrain": ["grammar"]}
        yield stack.enter_context(TestApp(pipeline=slots, stages=stages))


@contextmanager
def nobody() -> Iterator[str]:
    """Hold an address at which nobody listens: a port that is given back may be another server's at once."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}/v1"


def client_of(app: TestApp) -> Any:
    """Return the client of the model's servers."""
    return app.runtime.pipeline.stages.generate[1]._clients["far"]  # type: ignore[attr-defined]


def probed(app: TestApp, *servers: FleetServer) -> None:
    """Wait until every server was probed twice more."""
    before = [server.probes for server in servers]
    until(lambda: all(server.probes >= had + 3 for server, had in zip(servers, before, strict=True)))


# --- how a server answers ---------------------------------------------------------------------------------------


def says(text: str, wait_s: float = 0.0) -> Act:
    async def act(server: FleetServer, request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(wait_s)
        usage = {"prompt_tokens": 11, "completion_tokens": 7}
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
        if not server.asked[-1].get("stream"):
            message = {"role": "assistant", "content": text}
            return web.json_response({"choices": [{**choice, "message": message}], "usage": usage})
        events = [{"choices": [{**choice, "delta": {"content": text}}]}, {"choices": [], "usage": usage}]
        return await _sent(request, *[_event(event) for event in events], b"data: [DONE]\n\n")

    return act


def fails(status: int, body: Any = None) -> Act:
    async def act(server: FleetServer, request: web.Request) -> web.StreamResponse:
        return web.json_response(body or {"error": {"message": "secret detail"}}, status=status)

    return act


def cuts(*texts: str) -> Act:
    """Break the connection after `texts`, of which the first may be in the middle of a word."""

    async def act(server: FleetServer, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for text in texts:
            await response.write(_event({"choices": [{"index": 0, "delta": {"content": text}}]}))
        assert request.transport is not None
        request.transport.close()
        return response

    return act


async def babbles(server: FleetServer, request: web.Request) -> web.StreamResponse:
    """Answer with what is no stream of JSON."""
    return await _sent(request, b"data: <html>\n\n")


async def hangs(server: FleetServer, request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(60)
    return web.Response()


async def _sent(request: web.Request, *frames: bytes) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for frame in frames:
        await response.write(frame)
    await response.write_eof()
    return response


def _event(body: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"
