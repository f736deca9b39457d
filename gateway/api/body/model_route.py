"""Routes whose bodies FastAPI checks, within the bounds of every other body.

FastAPI parses a body on the event loop, however large it is: 8 MB of JSON kept every stream waiting for 0.4 s.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel

from sluicegate.gateway.api.body.reader import Reader
from sluicegate.gateway.api.body.unknown_fields import models_in
from sluicegate.plugins import RequestError

LONGEST = 100
"""Characters of an unknown name that an error shows."""
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class _RequestRead(Request):
    """A request whose JSON body was read already."""

    def __init__(self, request: Request, body: bytes, tree: dict[str, Any]) -> None:
        super().__init__(request.scope, request.receive)
        self._body = body
        self._tree = tree

    async def json(self) -> Any:
        return self._tree


def reads_with(reader: Reader) -> type[APIRoute]:
    """Return a class of routes that read bodies by `reader`, large ones in a thread. They raise as `Reader.read`."""

    class ReadingRoute(APIRoute):
        def get_route_handler(self) -> Handler:
            return bounded(reader, self, super().get_route_handler())

    return ReadingRoute


def bounded(reader: Reader, route: APIRoute, handle: Handler) -> Handler:
    """Return `handle`, of `route`, behind a reader of its body, if it has one."""
    if route.body_field is None:
        return handle
    [(model, _)] = models_in(route.body_field.field_info.annotation)
    return _reading(reader, model, handle)


def _check_names(model: type[BaseModel], tree: Mapping[str, Any], path: str = "") -> None:
    """Refuse a name that is no field: raises `RequestError`. Pydantic would make an error of each, however many."""
    fields = {field.alias or name: field for name, field in model.__pydantic_fields__.items()}
    if unknown := next((name for name in tree if name not in fields), None):
        param = f"{path}{unknown[:LONGEST]}"
        raise RequestError(
            f"`{param}` is no field here; known are {', '.join(fields)}", param=param, code="invalid_parameter"
        )
    for name, field in fields.items():
        if isinstance(inner := tree.get(name), dict):
            for nested, _ in models_in(field.annotation):
                _check_names(nested, inner, f"{path}{name}.")


def _reading(reader: Reader, model: type[BaseModel], handle: Handler) -> Handler:
    async def read(request: Request) -> Response:
        body = await request.body()
        if body and "json" in request.headers.get("content-type", ""):
            tree = await reader.tree_of(request, body)
            _check_names(model, tree)
            request = _RequestRead(request, body, tree)
        return await handle(request)

    return read
