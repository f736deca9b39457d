"""The ASGI application: routes, error handlers, and the plain middlewares around them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

from fastapi import FastAPI
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from sluicegate import __version__
from sluicegate.gateway.admin import admin_routes
from sluicegate.gateway.api.builtin_dialects import DIALECTS
from sluicegate.gateway.api.dialect import Dialect
from sluicegate.gateway.api.direct import DirectRoutes, endpoints_of
from sluicegate.gateway.api.disclosure import check
from sluicegate.gateway.api.docs_page import add_docs_page
from sluicegate.gateway.api.door import EarlyRefusals, error_forms
from sluicegate.gateway.api.front_page import add_front_page
from sluicegate.gateway.api.openapi.document import describe
from sluicegate.gateway.api.routes import api_routes
from sluicegate.gateway.api.socket import add_no_socket_route
from sluicegate.gateway.compose import compose
from sluicegate.gateway.http.api_key import api_key_of
from sluicegate.gateway.http.errors import add_error_handlers
from sluicegate.gateway.http.guard import counted_for
from sluicegate.gateway.http.host_check import HostCheck, OwnNames
from sluicegate.gateway.http.key_gate import KeyGate
from sluicegate.gateway.http.middleware import BodyLimit, OuterLayer, TrailingSlash
from sluicegate.gateway.lifecycle import close, start
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.settings import Settings
from sluicegate.plugins import ConfigurationError


class Application(FastAPI):
    """FastAPI behind layers of our own. They see every request first, and what generates never enters FastAPI, whose
    layers cost 3 % of such a request."""

    outer: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self
        await self.outer(scope, receive, send)

    async def routed(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve what the layers did not, by the routes."""
        await super().__call__(scope, receive, send)


def create_app(
    settings: Settings,
    environ: Mapping[str, str] | None = None,
    runtime: Runtime | None = None,
    dialects: Sequence[Dialect] = DIALECTS,
) -> Application:
    """Build the application. Models load beside the event loop: `/healthz` answers from the beginning.
    Raises `ConfigurationError`."""
    check()
    built = runtime or compose(settings, environ or {})

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with grpc_beside(built):
            starting = asyncio.create_task(start(built, dialects))
            if settings.server.workers > 1:  # meanwhile another one answers
                await starting
            yield
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
        await close(built)

    app = Application(
        title="Sluicegate",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        openapi_url=None,  # ours asks for a key where there are keys
        redoc_url=None,
        redirect_slashes=False,  # `TrailingSlash` serves them
        telemetry={"tracing": False, "metrics": False, "logs": False},  # ours say more, for less
    )
    forms = error_forms(dialects)
    routes = api_routes(built, dialects, forms)
    # As they are: `include_router` has FastAPI read all signatures once more, at the first request, which would wait
    # for it, with the process's warnings turned off meanwhile, which two applications in one process do not survive.
    app.router.routes.extend([*routes.routes, *admin_routes(built).routes])
    add_error_handlers(app, forms)
    describe(app, dialects, forms)
    add_docs_page(app, built)
    add_front_page(app, built)
    add_no_socket_route(app.router, forms)
    door = app.state.door = EarlyRefusals(built, dialects)
    outer: ASGIApp = DirectRoutes(app.routed, endpoints_of(routes, dialects), forms, door.let_in)
    outer = KeyGate(outer, built.accounts, forms)
    outer = BodyLimit(outer, settings.server, built.bodies, partial(sender, built), forms)
    outer = HostCheck(outer, OwnNames.of(settings.server), lambda: built.closed_to_strangers, forms)
    app.outer = TrailingSlash(OuterLayer(outer, forms, built.metrics.count_response))
    return app


@asynccontextmanager
async def grpc_beside(runtime: Runtime) -> AsyncIterator[None]:
    """Serve gRPC too, where the configuration says so. What keeps it from serving is the failure of the start."""
    if not runtime.settings.grpc.enabled:
        yield
        return
    try:
        door = _grpc_door(runtime)
        await door.open()
    except ConfigurationError as error:
        runtime.progress.failure = error
        yield
        return
    try:
        yield
    finally:
        await door.close()


def _grpc_door(runtime: Runtime) -> GrpcListener:
    try:
        from sluicegate.gateway.grpc.door import GrpcServer
    except ImportError as error:
        raise ConfigurationError(
            f"[grpc] enabled needs libraries that are not installed ({error}); `pip install 'sluicegate[grpc]'`"
        ) from error
    return GrpcServer(runtime)


class GrpcListener(Protocol):
    async def open(self) -> None: ...

    async def close(self) -> None: ...


def sender(runtime: Runtime, connection: HTTPConnection) -> str:
    """Name whoever the bodies of `connection` count for."""
    return counted_for(runtime, api_key_of(connection), connection.client.host if connection.client else "unknown")
