"""The routes of dialects, reached past the router: finding one of some seventy routes, and what FastAPI prepares for
dependencies that these do not have, cost more than reading the request does.

They stay routes as well, for the OpenAPI document and for whatever is not a plain POST.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from sluicegate.gateway.api.dialect import Dialect
from sluicegate.gateway.http.disconnects import ClientDisconnected
from sluicegate.gateway.http.errors import ErrorForms, client_left, out_of_memory
from sluicegate.plugins import SluicegateError

Endpoint = Callable[[Request], Awaitable[Any]]


def endpoints_of(router: APIRouter, dialects: Iterable[Dialect]) -> dict[str, Endpoint]:
    """Return what answers a POST, by path."""
    paths = {dialect.path for dialect in dialects}
    posts = [route for route in router.routes if isinstance(route, APIRoute) and "POST" in (route.methods or ())]
    return {route.path: route.endpoint for route in posts if route.path in paths}


class DirectRoutes:
    """Plain ASGI middleware; the innermost, so that whatever stands before the router stands before these too."""

    def __init__(
        self,
        app: ASGIApp,
        endpoints: Mapping[str, Endpoint],
        forms: ErrorForms,
        let_in: Callable[[Request], None] = lambda request: None,
    ) -> None:
        """Serve `endpoints`, by path: each takes the request and nothing else, and answers a `Response`. `let_in` is
        called before any of the body is read, and raises `SluicegateError`."""
        self._app = app
        self._endpoints = endpoints
        self._forms = forms
        self._let_in = let_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._endpoints.get(scope["path"]) if scope["type"] == "http" else None
        if endpoint is None or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            self._let_in(request)
            response = await endpoint(request)
        except SluicegateError as error:
            response = self._forms.answer(request, error)
        except MemoryError as error:
            response = self._forms.answer(request, out_of_memory(request, error))
        except (ClientDisconnect, ClientDisconnected):
            response = client_left(request)
        await response(scope, receive, send)
