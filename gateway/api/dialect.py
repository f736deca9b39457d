"""A dialect as an object: one wire format at one path, and how a request in it is served, whatever carries it.

Routes, the way past the router, the WebSocket, batches, the OpenAPI document, middleware and error handlers take these
objects and know nothing else of a wire format. `api/builtin_dialects.py` lists those that are served.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

from fastapi import APIRouter
from fastapi import Request as HttpRequest
from fastapi.responses import Response
from pydantic import BaseModel

from sluicegate.gateway.api.body.parsing import InWordsOf, P, Parse, Parsed, Tree
from sluicegate.gateway.api.body.unknown_fields import BodyFields
from sluicegate.gateway.api.delivery import EventStream, NoResponse, StreamFormat
from sluicegate.gateway.batches import LineAnswer
from sluicegate.gateway.http.arrival import waited_s
from sluicegate.gateway.http.disconnects import ClientDisconnected, unless_disconnected
from sluicegate.gateway.http.errors import JSON, OPENAI, ErrorForm
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.request.slots import BATCH_PRIORITY
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.telemetry import parent_of
from sluicegate.plugins import Request, RequestError


@dataclass(frozen=True, slots=True)
class Operation:
    """What the OpenAPI document says of one operation. `answer`: a model of JSON, or a media type."""

    tag: str
    summary: str
    answer: type[BaseModel] | str
    takes: type[BaseModel] | None = None
    example: Mapping[str, Any] | None = None
    streams: bool = False
    form: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect(ABC):
    """One wire format at one path."""

    name: str
    """In the table of fields."""
    path: str
    fields: BodyFields[Any]
    summary: str
    answer: type[BaseModel]
    """Describes the body of an answer in the OpenAPI document."""
    example: Mapping[str, Any]
    """A body that works as it stands with the bundled model."""
    tag: str = "generate"
    streams: bool = False
    in_batches: bool = True
    errors: ErrorForm = OPENAI
    add_routes: Callable[[APIRouter, Runtime], None] | None = None
    """Add further routes below `path`."""

    @property
    def operation(self) -> Operation:
        return Operation(self.tag, self.summary, self.answer, self.fields.kind, self.example, self.streams)

    @abstractmethod
    async def respond(self, runtime: Runtime, request: HttpRequest) -> Response:
        """Answer a request over HTTP. Raises `SluicegateError`."""

    async def run_line(self, runtime: Runtime, body: Tree, key_id: str | None) -> LineAnswer:
        """Answer a line of a batch, for the key that the batch was made with. Raises `SluicegateError`."""
        raise NotImplementedError(f"{self.path} is not served in batches")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDialect(Dialect, Generic[P]):
    """One that generates text, whole or streamed."""

    read: Parse[P]
    whole: Callable[[Exchange, P], bytes]
    """Write the body of an answer."""
    writer: Callable[[Exchange, P], StreamFormat]
    """Make the writer of a stream."""
    joined: Callable[[Sequence[Exchange], P], bytes] | None = None
    """Write one body for several prompts, where a body may have them."""
    streams: bool = True
    over_socket: bool = False
    """Served over a WebSocket too, at `path` + `/ws`."""

    async def respond(self, runtime: Runtime, request: HttpRequest) -> Response:
        parsed = await runtime.reader.parse(request, self.read)
        runtime.check_ready()
        try:
            if parsed.others:
                return await self._respond_jointly(runtime, request, parsed)
            return await self._respond(runtime, request, parsed)
        except ClientDisconnected:
            return NoResponse()

    async def _respond(self, runtime: Runtime, request: HttpRequest, parsed: P) -> Response:
        scope, receive, pipeline = request.scope, request.receive, runtime.pipeline
        context, route = parent_of(request), scope["path"]
        if not parsed.request.stream:
            collecting = collected(runtime, parsed, parsed.request, context, route, waited_s(scope))
            exchange = await unless_disconnected(scope, receive, collecting)
            return WholeAnswer(self.whole(exchange, parsed), headers_of(exchange))
        with InWordsOf(parsed):
            opening = pipeline.open(parsed.request, context, route=route, waited_s=waited_s(scope))
            exchange = await unless_disconnected(scope, receive, opening)
            exchange.ignored += parsed.ignored
            writer, beat_s = self.writer(exchange, parsed), runtime.settings.server.heartbeat_s
            return EventStream(pipeline, exchange, writer, headers_of(exchange), beat_s, parsed)

    async def _respond_jointly(self, runtime: Runtime, request: HttpRequest, parsed: P) -> Response:
        """Answer several prompts. Each is a request of its own, for limits too; the first that fails fails all."""
        context, route = parent_of(request), request.scope["path"]
        assert self.joined is not None

        async def everyone() -> list[Exchange]:
            waited = waited_s(request.scope)
            asked = map(parsed.at, range(1 + len(parsed.others)))
            work = (collected(runtime, each, each.request, context, route, waited) for each in asked)
            one = [asyncio.ensure_future(each) for each in work]
            try:
                return await asyncio.gather(*one)
            finally:
                for task in one:
                    task.cancel()
                await asyncio.gather(*one, return_exceptions=True)

        exchanges = await unless_disconnected(request.scope, request.receive, everyone())
        body = self.joined(exchanges, parsed)
        return Response(body, media_type=JSON, headers=ignored_header(exchanges[0].ignored))

    async def run_line(self, runtime: Runtime, body: Tree, key_id: str | None) -> LineAnswer:
        parsed = self.read(body, None)
        if parsed.others:
            raise RequestError("in a batch a line has one prompt; write a line for each", param="prompt")
        exchange = await collected(runtime, parsed, for_batch(parsed.request, key_id))
        return line_answer(exchange, self.whole(exchange, parsed))


class WholeAnswer(Response):
    """JSON with headers whose names are lower case and whose values are Latin-1, which a plain `Response` looks into
    one by one."""

    def __init__(self, body: bytes, headers: Mapping[str, str]) -> None:
        self.status_code, self.background, self.body = 200, None, body
        self.raw_headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        self.raw_headers += [(b"content-length", b"%d" % len(body)), (b"content-type", JSON.encode())]


async def collected(
    runtime: Runtime, parsed: Parsed, request: Request, context: Any = None, route: str = "", waited: float = 0.0
) -> Exchange:
    """Answer one request of `parsed` whole. Raises `SluicegateError`."""
    with InWordsOf(parsed):
        exchange = await runtime.pipeline.open(request, context, route=route, waited_s=waited)
        exchange.ignored += parsed.ignored
        await runtime.pipeline.collect(exchange)
    return exchange


def for_batch(request: Request, key_id: str | None) -> Request:
    return replace(request, priority=BATCH_PRIORITY, on_behalf_of=key_id)


def line_answer(exchange: Exchange, body: bytes) -> LineAnswer:
    usage = exchange.reported_usage
    return LineAnswer(200, body, usage.prompt_tokens, usage.completion_tokens)


def ignored_header(ignored: tuple[str, ...]) -> dict[str, str]:
    """Return the header that names fields without a use: ASCII without line breaks, whatever callers write."""
    if not ignored:
        return {}
    text = "".join(char if " " <= char <= "~" else "?" for char in ",".join(ignored))
    return {"x-sluicegate-ignored": text[:1024]}


def headers_of(exchange: Exchange) -> dict[str, str]:
    """Return headers that say where the answer came from, and which trace it belongs to."""
    found = {"traceparent": exchange.entry.trace.traceparent, **ignored_header(exchange.ignored)}
    if exchange.attempt.hit is not None:
        return found | exchange.attempt.hit.headers()
    return found | {"x-sluicegate-cache": "miss" if exchange.cached is None else "shared"}
