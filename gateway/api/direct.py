"""The routes that generate, reached past the router: finding one of some seventy routes, and what FastAPI prepares for
dependencies that these do not have, cost more than reading the request does.

They stay routes as well, for the OpenAPI document and for whatever is not a plain POST.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from sluicegate.gateway.http.disconnects import ClientLeft
from sluicegate.gateway.http.errors import answer_of, client_left
from sluicegate.plugins import SluicegateError

Endpoint = Callable[[Request], Awaitable[Any]]
PATHS = frozenset(("/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/completions", "/v1/embeddings"))


def endpoints_of(router: APIRouter) -> dict[str, Endpoint]:
    """By path."""
    posts = [route for route in router.routes if isinstance(route, APIRoute) and "POST" in (route.methods or ())]
    return {route.path: route.endpoint for route in posts if route.path in PATHS}


class Direct:
    """Plain ASGI middleware; the innermost, so that whatever stands before the router stands before these too."""

    def __init__(self, app: ASGIApp, endpoints: Mapping[str, Endpoint]) -> None:
        """`endpoints` by path: each takes the request and nothing else, and answers a `Response`."""
        self._app = app
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._endpoints.get(scope["path"]) if scope["type"] == "http" else None
        if endpoint is None or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            response = await endpoint(request)
        except SluicegateError as error:
            response = answer_of(request, error)
        except (ClientDisconnect, ClientLeft):
            response = client_left(request)
        await response(scope, receive, send)
