"""The console: its page for anyone who can reach the gateway, its data for operators only.

The page holds nothing of the gateway's: no name, no number, no text. All of that comes from `/admin/console/...`, which
asks for the admin key. What a prompt or a model wrote is put into the page as text, never as markup, and the policy
that the page is sent with forbids every script, style and connection but its own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse

from sluicegate.gateway.admin.console_filters import REVIEW, RequestFilter, RequestPage
from sluicegate.gateway.console import ConsoleViews
from sluicegate.gateway.http import static_page
from sluicegate.gateway.http.guard import name_of, operator_of
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import AuthenticationError, Caller, NotFound, PermissionDenied, exact_json

STATIC = Path(__file__).parent.parent / "console" / "static"
HEADERS = {**static_page.HEADERS, "content-security-policy": f"{static_page.POLICY}; img-src 'self'"}
FEED_HEADERS = {**HEADERS, "x-accel-buffering": "no"}
TICK_S = 1.0


def add_console_routes(router: APIRouter, runtime: Runtime) -> None:
    if not runtime.settings.telemetry.console:
        return
    static_page.add_static_page(router, "/console", STATIC, "the console", HEADERS)
    _add_data(router, runtime, ConsoleViews(runtime))


def _add_data(router: APIRouter, runtime: Runtime, views: ConsoleViews) -> None:
    @router.get("/admin/console/overview", tags=["admin"])
    async def overview(request: Request) -> Response:
        """Return the figures of the first page."""
        operator_of(runtime, request)
        return _json(views.overview())

    @router.get("/admin/console/figures", tags=["admin"])
    async def figures(request: Request, asked: Annotated[RequestFilter, Query()]) -> Response:
        """Return counts, latencies, costs and verdicts of the requests that the filters name."""
        operator_of(runtime, request)
        return _json(await asyncio.to_thread(views.figures, asked.wanted()))

    @router.get("/admin/console/models", tags=["admin"])
    async def models(request: Request) -> Response:
        """Return health, servers, versions and the engine of each model."""
        operator_of(runtime, request)
        return _json({"data": views.models(), "engine": views.overview()["engine"]})

    @router.get("/admin/console/choices", tags=["admin"])
    async def choices(request: Request) -> Response:
        """Return the values that filters can take."""
        operator_of(runtime, request)
        return _json(await asyncio.to_thread(runtime.history.choices))

    @router.get("/admin/console/feed", tags=["admin"])
    async def feed(request: Request) -> Response:
        """Send events: once a second what runs now, and what has ended since the last time."""
        operator_of(runtime, request)
        return StreamingResponse(_ticks(runtime, views, request), media_type="text/event-stream", headers=FEED_HEADERS)

    _add_requests(router, runtime, views)


def _add_requests(router: APIRouter, runtime: Runtime, views: ConsoleViews) -> None:
    @router.get("/admin/console/requests", tags=["admin"])
    async def listing(request: Request, asked: Annotated[RequestPage, Query()]) -> Response:
        """List requests that have ended, newest first, and what runs now."""
        operator_of(runtime, request)
        found = await asyncio.to_thread(runtime.history.page, asked.wanted(), asked.before, asked.limit)
        return _json({"live": [*views.live()], "recent": found["data"], "total": found["total"], "next": found["next"]})

    @router.get("/admin/console/requests/{id}", tags=["admin"])
    async def one(request: Request, id: str) -> Response:
        """Return one request, found by its request id or trace id."""
        by = operator_of(runtime, request)
        found = await asyncio.to_thread(runtime.history.one, id)
        if found is None:
            raise NotFound(f"no request with the id {id!r} is kept in full; docs/observability.md says how many are")
        return _json({**found, "may_review": _may_review(runtime, by)})

    @router.get("/admin/console/requests/{id}/withheld", tags=["admin"])
    async def withheld(request: Request, id: str) -> Response:
        """Return the texts that a rail withheld. Only keys with the scope `review` may read them, and every reading is
        audited."""
        by = operator_of(runtime, request, REVIEW)
        if not _may_review(runtime, by):
            raise PermissionDenied(f"this needs a key with the scope {REVIEW!r}; key {by.key_id!r} has none")
        async with runtime.audit.change(name_of(by), "console.withheld", id):
            found = await asyncio.to_thread(runtime.history.withheld, id)
        if not found:
            raise NotFound(f"no text that was withheld of request {id!r} is kept")
        return _json({"data": found})


def _may_review(runtime: Runtime, by: Caller) -> bool:
    """Return whether the caller has the scope `review`. Without keys, whoever sits at this machine may."""
    return not runtime.keyed or REVIEW in by.scopes


async def _ticks(runtime: Runtime, views: ConsoleViews, request: Request) -> AsyncIterator[bytes]:
    """Yield an event every `TICK_S` seconds until the gateway stops, or the key is revoked or expires."""
    seen = runtime.trace_sink.seen
    while not runtime.progress.is_stopping() and _may_listen(runtime, request):
        new = runtime.trace_sink.seen - seen
        seen += new
        state = {**views.now(), "ended": views.recent(min(new, 100)) if new else []}
        yield b"data: " + exact_json.write(state, default=str) + b"\n\n"
        await asyncio.sleep(TICK_S)


def _may_listen(runtime: Runtime, request: Request) -> bool:
    try:
        operator_of(runtime, request)
    except (AuthenticationError, PermissionDenied):
        return False
    return True


def _json(found: Any) -> Response:
    try:
        body = exact_json.write(found, default=str)
    except TypeError:  # halves of characters and numbers past 64 bits, which other servers may send
        body = json.dumps(found, default=str).encode()
    return Response(body, media_type="application/json")
