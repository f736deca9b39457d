"""The ASGI application: routes, and the three plain middlewares around them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from gateway.admin import admin_routes, api_key_of
from gateway.answers import ChunkWriter, completion, error_body, error_headers, error_status
from gateway.config import Settings
from gateway.delivery import ClientLeft, EventStream, Nobody, unless_left
from gateway.exchange import Exchange
from gateway.house import House
from gateway.middleware import BodyLimit, RequestId
from gateway.telemetry import parent_context
from gateway.wire import ParsedRequest, parse_chat
from plugins import NotFound, RequestError, SluicegateError

log = logging.getLogger("sluicegate.http")
JSON = "application/json"


def create_app(settings: Settings, environ: Mapping[str, str] | None = None, house: House | None = None) -> FastAPI:
    """Build the application. Models load beside the event loop: `/healthz` answers from the beginning."""
    built = house or House(settings, environ or {})

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        starting = asyncio.create_task(built.start())
        yield
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await built.close()

    app = FastAPI(title="Sluicegate", version="0.1.0", lifespan=lifespan, docs_url="/docs", redoc_url=None)
    _add_routes(app, built)
    app.include_router(admin_routes(built))
    _add_error_handlers(app)
    app.add_middleware(BodyLimit, max_bytes=settings.server.max_body_bytes)
    app.add_middleware(RequestId)
    return app


def _add_routes(app: FastAPI, house: House) -> None:
    @app.post("/v1/chat/completions", openapi_extra=CHAT_BODY)
    async def chat_completions(request: Request) -> Any:
        return await _chat(house, request)

    @app.get("/v1/models")
    async def models(request: Request) -> Any:
        house.identify(api_key_of(request))
        return {"object": "list", "data": [_model_card(house, name) for name in house.models]}

    @app.get("/v1/models/{name:path}")
    async def model(request: Request, name: str) -> Any:
        house.identify(api_key_of(request))
        if name not in house.models:
            raise NotFound(f"there is no model {name!r} here", param="model", code="model_not_found")
        return _model_card(house, name)

    @app.get("/healthz")
    async def healthz() -> Any:
        return {"status": "alive"}

    @app.get("/readyz")
    async def readyz() -> Response:
        return Response(house.state, 200 if house.ready else 503, media_type="text/plain")

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(house.metrics.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def _chat(house: House, request: Request) -> Any:
    parsed = parse_chat(await request.body(), api_key_of(request))
    headers = {"x-sluicegate-ignored": ",".join(parsed.ignored)} if parsed.ignored else {}
    house.check_ready()
    try:
        exchange = await unless_left(
            request.receive, house.pipeline.open(parsed.request, parent_context(request.headers))
        )
        headers |= _cache_headers(exchange)
        if parsed.request.stream:
            return EventStream(house.pipeline, exchange, _writer(exchange, parsed), headers, house.heartbeat_s)
        await unless_left(request.receive, house.pipeline.collect(exchange))
    except ClientLeft:
        return Nobody()
    return Response(completion(exchange, explain=parsed.explain), media_type=JSON, headers=headers)


def _cache_headers(exchange: Exchange) -> dict[str, str]:
    if exchange.hit is not None:
        return exchange.hit.headers()
    return {"x-sluicegate-cache": "miss" if exchange.cached is None else "shared"}


def _writer(exchange: Exchange, parsed: ParsedRequest) -> ChunkWriter:
    return ChunkWriter(exchange, include_usage=parsed.include_usage, explain=parsed.explain)


def _model_card(house: House, name: str) -> dict[str, Any]:
    model = house.models[name]
    return {
        "id": name,
        "object": "model",
        "created": house.started_s,
        "owned_by": "sluicegate",
        "max_model_len": model.context_length,
        "version": model.version,
    }


def _add_error_handlers(app: FastAPI) -> None:
    """Every error leaves in the one shape that OpenAI's clients read."""

    async def ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, SluicegateError)
        return Response(error_body(error), error_status(error), error_headers(error), JSON)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        known = RequestError(f"{request.method} {request.url.path}: {error.detail}", code=_http_code(error.status_code))
        return Response(error_body(known), error.status_code, dict(error.headers or {}), JSON)

    async def malformed(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"] if part != "body")
        refused = RequestError(f"`{path}`: {first['msg']}", param=path or None, code="invalid_parameter")
        return Response(error_body(refused), 400, media_type=JSON)

    async def unexpected(request: Request, error: Exception) -> Response:
        log.exception("%s %s failed", request.method, request.url.path, exc_info=error)
        hidden = SluicegateError("the gateway failed on this request; the log of the gateway says why")
        return Response(error_body(hidden), 500, {"x-should-retry": "false"}, JSON)

    app.add_exception_handler(SluicegateError, ours)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, malformed)
    app.add_exception_handler(Exception, unexpected)


def _http_code(status: int) -> str:
    return {404: "unknown_url", 405: "method_not_allowed"}.get(status, "http_error")


CHAT_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {
                "schema": {
                    "type": "object",
                    "required": ["model", "messages"],
                    "properties": {"model": {"type": "string"}, "messages": {"type": "array"}},
                },
                "example": {
                    "model": "bundled",
                    "messages": [{"role": "user", "content": "Ada Lovelace, born 1815-12-10, lives in London."}],
                    "response_format": {
                        "type": "json_schema",
                        "json_schema": {
                            "name": "person",
                            "schema": {
                                "type": "object",
                                "properties": {"name": {"type": "string"}, "city": {"type": "string"}},
                                "required": ["name", "city"],
                            },
                        },
                    },
                },
            }
        },
    }
}
