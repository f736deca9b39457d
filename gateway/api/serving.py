"""How a parsed request is served, whatever its wire format: opened, then streamed or collected."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fastapi import Request as HttpRequest
from fastapi.responses import Response

from gateway.api.bodies import Parsed
from gateway.delivery import ClientLeft, EventStream, Frames, Nobody, unless_left
from gateway.exchange import Exchange
from gateway.telemetry import parent_context

if TYPE_CHECKING:
    from gateway.house import House

JSON = "application/json"


async def served(
    house: House,
    request: HttpRequest,
    parsed: Parsed,
    *,
    whole: Callable[[Exchange], bytes],
    frames: Callable[[Exchange], Frames],
) -> Response:
    """`whole` renders a finished exchange as JSON; `frames` makes the writer of a stream. Raises `SluicegateError`."""
    headers = told(parsed)
    house.check_ready()
    try:
        context, route = parent_context(request.headers), request.url.path
        exchange = await unless_left(request.receive, house.pipeline.open(parsed.request, context, route=route))
        headers |= headers_of(exchange)
        if parsed.request.stream:
            return EventStream(house.pipeline, exchange, frames(exchange), headers, house.heartbeat_s)
        await unless_left(request.receive, house.pipeline.collect(exchange))
    except ClientLeft:
        return Nobody()
    return Response(whole(exchange), media_type=JSON, headers=headers)


def told(parsed: Parsed) -> dict[str, str]:
    """Which fields nobody here knew."""
    return {"x-sluicegate-ignored": _header(",".join(parsed.ignored))} if parsed.ignored else {}


def _header(text: str) -> str:
    """A caller's own words, fit for a header: no line breaks, nothing but ASCII, not too long."""
    return "".join(char if " " <= char <= "~" else "?" for char in text)[:1024]


def headers_of(exchange: Exchange) -> dict[str, str]:
    """Where the answer came from, and which trace it belongs to."""
    told = {"traceparent": exchange.trace.traceparent}
    if exchange.hit is not None:
        return told | exchange.hit.headers()
    return told | {"x-sluicegate-cache": "miss" if exchange.cached is None else "shared"}
