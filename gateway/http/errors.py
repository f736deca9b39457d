"""Errors on the wire: in the shape that OpenAI's clients read, and in Anthropic's on its own paths."""

from __future__ import annotations

import logging
import math
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from sluicegate.gateway.api.dialects.messages_answer import message_error
from sluicegate.gateway.http.disconnects import ClientLeft
from sluicegate.plugins import RequestError, ServiceError, SluicegateError

log = logging.getLogger("sluicegate.http")
JSON = "application/json"
_CLIENT_LEFT = 499
"""As nginx notes it."""


def error_body(error: SluicegateError) -> bytes:
    return orjson.dumps({"error": error_detail(error)})


def error_detail(error: SluicegateError) -> dict[str, Any]:
    detail: dict[str, Any] = {"message": error.message, "type": "server_error", "param": None, "code": error.code}
    if isinstance(error, RequestError | ServiceError):
        detail["type"] = error.kind
    if isinstance(error, RequestError):
        detail["param"] = error.param
    for name in ("review", "request_id"):
        if (told := getattr(error, name, None)) is not None:
            detail[name] = told
    pointer = getattr(error, "pointer", None)
    if pointer is not None:
        detail["pointer"] = pointer
    return detail


def error_status(error: SluicegateError) -> int:
    return error.status if isinstance(error, RequestError | ServiceError) else 500


def error_headers(error: SluicegateError) -> dict[str, str]:
    """`Retry-After` where it is known; what would fail again tells clients not to try."""
    retry_after_s = getattr(error, "retry_after_s", None)
    if retry_after_s is not None:
        return {"retry-after": str(max(1, math.ceil(retry_after_s)))}
    return {"x-should-retry": "false"} if error_status(error) >= 500 else {}


def answer_of(request: Request, error: SluicegateError) -> Response:
    return Response(_body(request, error), error_status(error), error_headers(error), JSON)


def client_left(request: Request) -> Response:
    """For nobody: an answer to a body that never came whole."""
    log.info("%s %s: the client left before its body had come", request.method, request.url.path)
    return Response(status_code=_CLIENT_LEFT)


def add_error_handlers(app: FastAPI) -> None:
    """Every error leaves in a shape that the path's clients read."""

    async def ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, SluicegateError)
        return answer_of(request, error)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        known = RequestError(f"{request.method} {request.url.path}: {error.detail}", code=_http_code(error.status_code))
        return Response(_body(request, known), error.status_code, dict(error.headers or {}), JSON)

    async def malformed(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"] if part != "body")
        refused = RequestError(f"`{path}`: {first['msg']}", param=path or None, code="invalid_parameter")
        return Response(_body(request, refused), 400, media_type=JSON)

    async def gone(request: Request, error: Exception) -> Response:
        return client_left(request)

    async def unexpected(request: Request, error: Exception) -> Response:
        log.exception("%s %s failed", request.method, request.url.path, exc_info=error)
        hidden = SluicegateError("the gateway failed on this request; the log of the gateway says why")
        return Response(_body(request, hidden), 500, {"x-should-retry": "false"}, JSON)

    app.add_exception_handler(SluicegateError, ours)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, malformed)
    app.add_exception_handler(ClientDisconnect, gone)
    app.add_exception_handler(ClientLeft, gone)
    app.add_exception_handler(Exception, unexpected)


def _body(request: Request, error: SluicegateError) -> bytes:
    return message_error(error) if request.scope["path"].startswith("/v1/messages") else error_body(error)


def _http_code(status: int) -> str:
    return {404: "unknown_url", 405: "method_not_allowed"}.get(status, "http_error")
