"""Plain ASGI middleware: nothing here touches a streamed body, so nothing here can delay it."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from starlette.requests import HTTPConnection, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sluicegate.gateway.http.body_budget import UNCOUNTED, BodyBudget
from sluicegate.gateway.http.disconnects import EXTENSION, Disconnect
from sluicegate.gateway.http.errors import ErrorForms, out_of_memory
from sluicegate.gateway.settings import ServerSettings
from sluicegate.plugins import RequestError, RequestTooLarge, UnsupportedMediaType

RawHeaders = list[tuple[bytes, bytes]]
HeadersOf = Callable[[], RawHeaders]
_ADDED = "sluicegate.headers"
NO_BODY = frozenset(("GET", "HEAD"))
PLAIN = frozenset(("", "identity"))
_SAFE_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")


class TrailingSlash:
    """Serve `/v1/models/` as `/v1/models`. A redirect would name the scheme of this server, which is not that of a
    proxy with TLS in front of it, and many clients follow it without the key, or turn a POST into a GET."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        if path.endswith("/") and len(path) > 1 and path[-2] != "/":
            scope = {**scope, "path": path[:-1]}
        await self._app(scope, receive, send)


class OuterLayer:
    """Give every answer an `x-request-id`: the client's own where it is harmless, else a new one; and once more under
    the name that the path's clients read. Layers further in add headers by `add_headers`: one wrapper around `send` for
    all of them, since every chunk of a stream passes it.

    What nothing else has caught is answered here, in the form of its path, and raised on: the server closes the
    connection. `count` is given the status of each answer."""

    def __init__(self, app: ASGIApp, forms: ErrorForms, count: Callable[[int], None]) -> None:
        self._app = app
        self._forms = forms
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = request_id_of(dict(scope["headers"]).get(b"x-request-id", b""))
        named = [(b"x-request-id", request_id)]
        if (second := self._forms.of(scope["path"]).request_id) is not None:
            named.append((second, request_id))
        added: list[HeadersOf] = []
        scope[_ADDED] = added
        begun = False

        def with_headers(message: Message) -> Awaitable[None]:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                self._count(message["status"])
                message["headers"] = [*message["headers"], *[pair for of in added for pair in of()], *named]
            return send(message)

        try:
            await self._app(scope, receive, with_headers)
        except MemoryError as error:
            if begun:
                raise
            refusal = self._forms.answer(Request(scope), out_of_memory(Request(scope), error))
            refusal.headers["connection"] = "close"  # the body may not have been read
            await refusal(scope, receive, with_headers)
        except Exception as error:
            if not begun:
                await self._forms.unexpected(Request(scope), error)(scope, receive, with_headers)
            raise


def add_headers(scope: Scope, headers_of: HeadersOf) -> None:
    """Add what `headers_of` returns when the answer to the request of `scope` begins."""
    scope[_ADDED].append(headers_of)


def request_id_of(sent: bytes) -> bytes:
    """Return the id that a client sent where it is harmless, else a new one."""
    return sent if _SAFE_ID.fullmatch(sent) else b"req_" + os.urandom(16).hex().encode()


class BodyLimit:
    """Refuse a body over `max_body_bytes` with 413, by its declared length or as soon as it has grown past it; one that
    has not come within `body_s` with 408; and one that `held` has no room for beside others. `sender` names whose a
    connection is, for bodies that are large or come in pieces."""

    def __init__(
        self,
        app: ASGIApp,
        settings: ServerSettings,
        held: BodyBudget,
        sender: Callable[[HTTPConnection], str],
        forms: ErrorForms,
    ) -> None:
        self._app = app
        self._forms = forms
        self._max_bytes = settings.max_body_bytes
        self._body_s = settings.body_s
        self._held = held
        self._sender = sender

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if (packing := _packing(scope)) and scope["method"] not in NO_BODY:
            await self._forms.answer(Request(scope), _packed(packing))(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self._max_bytes:
            refusal = self._forms.answer(Request(scope), self._error())
            refusal.headers["connection"] = "close"
            await refusal(scope, receive, send)
            return
        seen, whole, ends_s = 0, False, time.monotonic() + self._body_s
        whose, weight = "", 0

        async def counted() -> Message:
            nonlocal seen, whole, whose, weight
            if whole:
                return await receive()
            message = await (receive() if _has_arrived(scope) else _unless_over(scope, self._in_time(receive, ends_s)))
            nbytes, whole = len(message.get("body", b"")), not message.get("more_body", False)
            seen += nbytes
            if seen > self._max_bytes:
                raise self._error()
            if not whole or seen > UNCOUNTED:
                whose = whose or self._sender(HTTPConnection(scope))
                weight += self._held.take(whose, nbytes)
            return message

        try:
            await self._app(scope, counted, send)
        finally:
            if weight:
                self._held.give_back(whose, weight)

    async def _in_time(self, receive: Receive, ends_s: float) -> Message:
        try:
            async with asyncio.timeout(max(0.0, ends_s - time.monotonic())):
                return await receive()
        except TimeoutError:
            error = RequestError(f"the body did not come within {self._body_s:g} s", code="request_timeout")
            error.status = 408
            raise error from None

    def _error(self) -> RequestTooLarge:
        return RequestTooLarge(f"the body is larger than the {self._max_bytes} bytes this gateway reads")


def _packed(packing: str) -> UnsupportedMediaType:
    """Return the refusal of a packed body: a few packed bytes may be very many."""
    found = f"the body is packed ({packing!r} in its header `Content-Encoding`); send it as it is"
    return UnsupportedMediaType(found, param="content-encoding", code="unsupported_encoding")


def _packing(scope: Scope) -> str:
    """Return the first encoding of a body that this gateway does not read; '' = there is none."""
    for name, value in scope["headers"]:
        if name == b"content-encoding":
            for coding in value.decode("latin-1").split(","):
                if (coding := coding.strip().lower()) not in PLAIN:
                    return str(coding)[:40]
    return ""


async def _unless_over(scope: Scope, message: Coroutine[Any, Any, Message]) -> Message:
    """Wait for a part of a body, until the gateway stops: whoever still sends then is told where to."""
    disconnect: Disconnect | None = scope.get("extensions", {}).get(EXTENSION)
    return await (message if disconnect is None else disconnect.unless(message))


def _has_arrived(scope: Scope) -> bool:
    """Return whether the body is here, so that nothing is waited for: a time limit costs as much as reading it."""
    disconnect: Disconnect | None = scope.get("extensions", {}).get(EXTENSION)
    return disconnect is not None and disconnect.arrived
