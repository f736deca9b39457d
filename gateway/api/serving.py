"""How a parsed request is served, whatever its wire format: opened, then streamed or collected."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fastapi import Request as HttpRequest
from fastapi.responses import Response

from sluicegate.gateway.api.body.parsing import Parsed, in_words_of
from sluicegate.gateway.api.delivery import EventStream, Frames, Nobody
from sluicegate.gateway.http.disconnects import ClientLeft, unless_left
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.telemetry import parent_context

JSON = "application/json"


async def served(
    runtime: Runtime,
    request: HttpRequest,
    parsed: Parsed,
    *,
    whole: Callable[[Exchange], bytes],
    frames: Callable[[Exchange], Frames],
) -> Response:
    """`whole` renders a finished exchange as JSON; `frames` makes the writer of a stream. Raises `SluicegateError`."""
    runtime.check_ready()
    scope, receive = request.scope, request.receive
    context, route = parent_context(request.headers), scope["path"]
    with in_words_of(parsed):
        try:
            exchange = await unless_left(scope, receive, runtime.pipeline.open(parsed.request, context, route=route))
        except ClientLeft:
            return Nobody()
        exchange.ignored += parsed.ignored
        headers = headers_of(exchange)
        if parsed.request.stream:
            return EventStream(
                runtime.pipeline, exchange, frames(exchange), headers, runtime.settings.server.heartbeat_s
            )
        try:
            await unless_left(scope, receive, runtime.pipeline.collect(exchange))
        except ClientLeft:
            await runtime.pipeline.close(exchange, asyncio.CancelledError())
            return Nobody()
    return Response(whole(exchange), media_type=JSON, headers=headers)


def told(ignored: tuple[str, ...]) -> dict[str, str]:
    """What was sent and nobody heeded."""
    return {"x-sluicegate-ignored": _header(",".join(ignored))} if ignored else {}


def _header(text: str) -> str:
    """A caller's own words, fit for a header: no line breaks, nothing but ASCII, not too long."""
    return "".join(char if " " <= char <= "~" else "?" for char in text)[:1024]


def headers_of(exchange: Exchange) -> dict[str, str]:
    """Where the answer came from, and which trace it belongs to."""
    found = {"traceparent": exchange.entry.trace.traceparent, **told(exchange.ignored)}
    if exchange.attempt.hit is not None:
        return found | exchange.attempt.hit.headers()
    return found | {"x-sluicegate-cache": "miss" if exchange.cached is None else "shared"}
