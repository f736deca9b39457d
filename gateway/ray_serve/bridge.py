"""Where a gateway's replica finds the engines: a server on loopback that hands each request to one of them through Ray.

The stage `upstream` speaks HTTP to servers of its model. This is one for it: what comes back is judged, retried,
charged and traced as that of any other server. Only who knows the key is served.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import AsyncIterator
from typing import Protocol

import orjson
from aiohttp import web

from sluicegate.gateway.ray_serve.messages import AnswerHead, EngineRequest
from sluicegate.gateway.upstream.transport.choice import beginnings

log = logging.getLogger("sluicegate.ray")
PATH = "/v1/chat/completions"
MOST_BYTES = 1 << 30
"""Upper bound of a body; the gateway has checked its own limit before."""
PASSED = frozenset(("content-type", "accept", "traceparent"))
RETURNED = frozenset(("content-type", "retry-after"))


class EngineAnswer(Protocol):
    """What an engine sends: its head, then its body."""

    def __aiter__(self) -> AsyncIterator[AnswerHead | bytes]: ...

    def cancel(self) -> None:
        """Have the engine stop."""


class Engines(Protocol):
    def ask(self, request: EngineRequest) -> EngineAnswer: ...


class Bridge:
    """Used on one event loop. `key` and `address` are what the stage `upstream` needs."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self.key = secrets.token_urlsafe(32)
        self.address = ""
        app = web.Application(client_max_size=MOST_BYTES)
        app.add_routes([web.post(PATH, self._answer)])
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None)

    async def open(self) -> None:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.address = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"

    async def close(self) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if not hmac.compare_digest(request.headers.get("authorization", "").encode(), f"Bearer {self.key}".encode()):
            return web.Response(status=401)
        body = await request.read()
        passed = [(name.lower(), value) for name, value in request.headers.items() if name.lower() in PASSED]
        answer = self._engines.ask(EngineRequest(body, passed, _beginnings(body)))
        response: web.StreamResponse | None = None
        try:
            async for part in answer:
                if isinstance(part, AnswerHead):
                    response = web.StreamResponse(status=part.status, headers=_returned(part))
                    await response.prepare(request)
                elif response is not None:
                    await response.write(part)
        except Exception as error:
            # The engine's process is gone, or Ray lost it. An answer that has begun is cut off, which the stage
            # `upstream` reports as for any server; one that has not is requested from another engine.
            log.warning("an engine did not finish its answer: %s", type(error).__name__)
            if response is None:
                return web.Response(status=502)
            assert request.transport is not None
            request.transport.close()
            return response
        finally:
            answer.cancel()
        if response is None:
            return web.Response(status=502)
        await response.write_eof()
        return response


def _beginnings(body: bytes) -> tuple[bytes, ...]:
    messages = orjson.loads(body).get("messages", ())
    return tuple(beginnings(messages))


def _returned(head: AnswerHead) -> dict[str, str]:
    return {name: value for name, value in head.headers if name.lower() in RETURNED}
