"""What probes and scrapers ask: alive, ready, metrics."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from sluicegate.gateway.runtime import Runtime


def add_health_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.get("/healthz")
    async def healthz() -> Any:
        return {"status": "alive"}

    @router.get("/readyz")
    async def readyz() -> Response:
        ready, state = runtime.readiness
        return Response(state, 200 if ready else 503, media_type="text/plain")

    @router.get("/metrics")
    async def metrics(request: Request) -> Response:
        body, kind = runtime.metrics.exposition(request.headers.get("accept", ""))
        return Response(body, headers={"content-type": kind})
