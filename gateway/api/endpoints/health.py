"""What probes and scrapers ask: alive, ready, metrics, and which version this is."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from sluicegate import __version__
from sluicegate.gateway.http.api_key import api_key_of
from sluicegate.gateway.runtime import Runtime
from sluicegate.grammar import is_compiled


def add_health_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.head("/healthz", include_in_schema=False)
    @router.get("/healthz")
    async def healthz() -> Any:
        return {"status": "alive"}

    @router.head("/readyz", include_in_schema=False)
    @router.get("/readyz")
    async def readyz(request: Request) -> Response:
        """Report readiness: words for people, or JSON for whoever asks for it."""
        found = runtime.readiness
        status = 200 if found.serves else 503
        if "application/json" in request.headers.get("accept", ""):
            return JSONResponse(found.as_json(), status)
        return Response(found.as_text(), status, media_type="text/plain")

    @router.head("/health", include_in_schema=False)
    @router.head("/ping", include_in_schema=False)
    @router.get("/health")
    @router.get("/ping")
    @router.post("/ping")
    async def health() -> Response:
        """Answer as vLLM and SageMaker expect: an empty 200 once requests are answered, else 503."""
        return Response(status_code=200 if runtime.readiness.serves else 503, media_type="text/plain")

    @router.get("/version")
    async def version(request: Request) -> Any:
        """Name the release, and whether the grammar's modules are compiled."""
        runtime.identify(api_key_of(request))
        return {"version": __version__, "grammar": "compiled" if is_compiled() else "python"}

    @router.get("/load")
    async def load(request: Request) -> Any:
        """Report the requests that have begun here and not ended, as vLLM does to those who balance between servers."""
        runtime.identify(api_key_of(request))
        return {"server_load": len(runtime.live.by_id)}

    @router.head("/metrics", include_in_schema=False)
    @router.get("/metrics")
    async def metrics(request: Request) -> Response:
        body, kind = runtime.metrics.exposition(request.headers.get("accept", ""))
        return Response(body, headers={"content-type": kind})
