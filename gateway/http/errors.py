"""Errors on the wire: OpenAI's shape, and the shapes that dialects bring for their own paths."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from sluicegate.gateway.http.disconnects import ClientDisconnected
from sluicegate.gateway.http.foreign_paths import hint_at, nearly
from sluicegate.plugins import Overloaded, RequestError, ServiceError, SluicegateError, place_of

log = logging.getLogger("sluicegate.http")
JSON = "application/json"
NO_MEMORY_S = 5.0
"""`Retry-After` where there was no memory: until requests that run have ended."""
_CLIENT_LEFT = 499
"""nginx's code for a client that closed the connection."""


def error_body(error: SluicegateError) -> bytes:
    return orjson.dumps({"error": error_detail(error)})


def error_detail(error: SluicegateError) -> dict[str, Any]:
    detail: dict[str, Any] = {"message": error.message, "type": "server_error", "param": None, "code": error.code}
    if isinstance(error, RequestError | ServiceError):
        detail["type"] = error.kind
    if isinstance(error, RequestError):
        detail["param"] = error.param
    for name in ("review", "request_id", "pointer"):
        if (value := getattr(error, name, None)) is not None:
            detail[name] = value
    return detail


def error_status(error: SluicegateError) -> int:
    return error.status if isinstance(error, RequestError | ServiceError) else 500


def error_headers(error: SluicegateError) -> dict[str, str]:
    """Return `Retry-After` where it is known; tell clients not to retry what would fail again."""
    retry_after_s = getattr(error, "retry_after_s", None)
    if retry_after_s is not None:
        return {"retry-after": str(max(1, math.ceil(retry_after_s)))}
    return {"x-should-retry": "false"} if error_status(error) >= 500 else {}


@dataclass(frozen=True, slots=True)
class ErrorForm:
    """How the clients of a dialect read an error. `request_id`: a second name under which they read `x-request-id`;
    `answer`: describes the body in the OpenAPI document, None = as OpenAI's."""

    body: Callable[[SluicegateError], bytes] = error_body
    request_id: bytes | None = None
    answer: type[BaseModel] | None = None


OPENAI = ErrorForm()


class ErrorForms:
    """The form of each path. `forms`: by the beginning of a path; every other path has OpenAI's."""

    def __init__(self, forms: Mapping[str, ErrorForm]) -> None:
        self._forms = tuple(forms.items())

    def of(self, path: str) -> ErrorForm:
        for prefix, form in self._forms:
            if path.startswith(prefix):
                return form
        return OPENAI

    def answer(self, request: Request, error: SluicegateError) -> Response:
        body = self.of(request.scope["path"]).body(error)
        return Response(body, error_status(error), error_headers(error), JSON)

    async def refuse(self, error: SluicegateError, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or the handshake of a WebSocket, with `error`."""
        if scope["type"] == "websocket" and "websocket.http.response" not in (scope.get("extensions") or {}):
            await send({"type": "websocket.close", "code": 1008, "reason": error.code})
            return
        body = self.of(scope["path"]).body(error)
        await Response(body, error_status(error), error_headers(error), JSON)(scope, receive, send)

    def unexpected(self, request: Request, error: Exception) -> Response:
        """Return the answer to a request on which something failed that is no error of ours, and log that."""
        log.exception("%s %s failed", request.method, request.url.path, exc_info=error)
        hidden = SluicegateError("the gateway failed on this request; the log of the gateway says why")
        # The server closes the connection after an unexpected error; without this header the client would reuse it.
        headers = {"x-should-retry": "false", "connection": "close"}
        return Response(self.of(request.scope["path"]).body(hidden), 500, headers, JSON)


def out_of_memory(request: Request, error: MemoryError) -> Overloaded:
    """Return the refusal of a request for which there was no memory, and log that."""
    log.error("%s %s: not enough memory", request.method, request.url.path, exc_info=error)
    return Overloaded(
        "the gateway has not enough memory for this request now; send it again later, or a smaller one",
        retry_after_s=NO_MEMORY_S,
    )


def client_left(request: Request) -> Response:
    """Return a response for a client whose body never came whole; nobody reads it."""
    log.info("%s %s: the client left before its body had come", request.method, request.url.path)
    return Response(status_code=_CLIENT_LEFT)


def _instead(request: Request, error: HTTPException) -> str:
    """Return the hint to append to the error for a path, or a method, that is not served; it may be empty."""
    path, methods = request.scope["path"], (error.headers or {}).get("Allow")
    if hint := hint_at(path):
        return hint
    if error.status_code == 405 and methods:
        return f"; send {methods.replace(', ', ' or ')}"
    if (error.status_code, error.detail) != (404, "Not Found"):
        return ""
    return nearly(path, (getattr(route, "path", "") for route in request.app.routes))


def add_error_handlers(app: FastAPI, forms: ErrorForms) -> None:
    """Answer every error that a route raises in the form of its path."""

    async def ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, SluicegateError)
        return forms.answer(request, error)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = {404: "unknown_url", 405: "method_not_allowed"}.get(error.status_code, "http_error")
        what = f"{request.method} {request.url.path}: {error.detail}"
        known = RequestError(what + _instead(request, error), code=code)
        return Response(form(request).body(known), error.status_code, dict(error.headers or {}), JSON)

    async def no_memory(request: Request, error: Exception) -> Response:
        assert isinstance(error, MemoryError)
        return forms.answer(request, out_of_memory(request, error))

    async def malformed(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        path = place_of(tuple(first["loc"][1:]))  # the first part says whether of the body, the query or the path
        place = f"`{path}`" if path else "the body"
        refused = RequestError(f"{place}: {first['msg']}", param=path or None, code="invalid_parameter")
        return Response(form(request).body(refused), 400, media_type=JSON)

    async def gone(request: Request, error: Exception) -> Response:
        return client_left(request)

    async def unexpected(request: Request, error: Exception) -> Response:
        return forms.unexpected(request, error)

    def form(request: Request) -> ErrorForm:
        return forms.of(request.scope["path"])

    app.add_exception_handler(SluicegateError, ours)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(MemoryError, no_memory)
    app.add_exception_handler(RequestValidationError, malformed)
    app.add_exception_handler(ClientDisconnect, gone)
    app.add_exception_handler(ClientDisconnected, gone)
    app.add_exception_handler(Exception, unexpected)
