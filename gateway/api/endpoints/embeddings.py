"""`/v1/embeddings`: texts as vectors, screened and counted as any other request."""

from __future__ import annotations

import base64
import uuid
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import orjson
from fastapi import Request as HttpRequest
from fastapi.responses import Response
from pydantic import Field

from sluicegate.gateway.api.body.parsing import Parsed, Tree, read_body
from sluicegate.gateway.api.body.unknown_fields import BodyFields, Listed, Wire
from sluicegate.gateway.api.delivery import NoResponse
from sluicegate.gateway.api.dialect import Dialect, for_batch, ignored_header, line_answer
from sluicegate.gateway.api.extras import extended
from sluicegate.gateway.api.openapi.schemas import EmbeddingList
from sluicegate.gateway.batches import LineAnswer
from sluicegate.gateway.http.disconnects import ClientDisconnected, unless_disconnected
from sluicegate.gateway.http.errors import JSON
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.telemetry import parent_context
from sluicegate.plugins import Embeddings, Message, Request, RequestError, Sampling

MAX_TEXTS = 2048
NO_ANSWER = Sampling(max_tokens=1)
"""So that limits of tokens do not reserve room for an answer that nobody writes."""
Text = Annotated[str, Field(min_length=1)]


class EmbeddingRequest(Wire):
    """Token ids are refused: those of another tokenizer mean nothing here, and no rail can read them."""

    model: str
    input: Text | Annotated[Listed[Text], Field(min_length=1, max_length=MAX_TEXTS)]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Field(ge=1)] | None = None
    user: str | None = None


FIELDS = BodyFields(EmbeddingRequest, "embeddings")


@dataclass(frozen=True, slots=True)
class ParsedEmbeddings(Parsed):
    """`packed`: vectors as bytes; `dimensions`: those that are expected."""

    packed: bool = False
    dimensions: int | None = None


def parse_embeddings(body: bytes | Tree, api_key: str | None = None) -> ParsedEmbeddings:
    """Raises `RequestError` that names the field by path."""
    wire, ignored = read_body(body, FIELDS)
    texts = [wire.input] if isinstance(wire.input, str) else wire.input
    request = Request(
        id=f"embd-{uuid.uuid4().hex}",
        model=wire.model,
        messages=tuple(Message("user", text) for text in texts),
        user=wire.user,
        api_key=api_key,
        sampling=NO_ANSWER,
        cache=False,
    )
    packed = wire.encoding_format == "base64"
    return ParsedEmbeddings(request, ignored=ignored, packed=packed, dimensions=wire.dimensions)


class EmbeddingsDialect(Dialect):
    async def respond(self, runtime: Runtime, request: HttpRequest) -> Response:
        parsed = await runtime.reader.parse(request, parse_embeddings)
        runtime.check_ready()
        context, route = parent_context(request.headers), request.scope["path"]
        work = _embedded(runtime, parsed, parsed.request, context, route)
        try:
            found, exchange = await unless_disconnected(request.scope, request.receive, work)
        except ClientDisconnected:
            return NoResponse()
        headers = ignored_header(exchange.ignored) | {"traceparent": exchange.entry.trace.traceparent}
        return Response(_body(found, exchange, parsed), media_type=JSON, headers=headers)

    async def run_line(self, runtime: Runtime, body: Tree, key_id: str | None) -> LineAnswer:
        parsed = parse_embeddings(body)
        found, exchange = await _embedded(runtime, parsed, for_batch(parsed.request, key_id))
        return line_answer(exchange, _body(found, exchange, parsed))


async def _embedded(
    runtime: Runtime, parsed: Parsed, request: Request, context: Any = None, route: str = ""
) -> tuple[Embeddings, Exchange]:
    """Embed the texts as the input rails left them."""
    exchange = await runtime.pipeline.enter(request, context, route=route)
    texts = [message.content for message in exchange.request.messages]
    found = await runtime.pipeline.embed(exchange, texts)
    exchange.ignored = parsed.ignored
    return found, exchange


def _body(found: Embeddings, exchange: Exchange, parsed: ParsedEmbeddings) -> bytes:
    width = found.vectors.shape[1]
    if parsed.dimensions not in (None, width):
        raise RequestError(
            f"model {exchange.served.name!r} has {width} dimensions and cannot be cut to {parsed.dimensions}; leave "
            "`dimensions` out",
            param="dimensions",
        )
    rows = np.ascontiguousarray(found.vectors, dtype=np.float32)
    data = [
        {"object": "embedding", "index": i, "embedding": base64.b64encode(row).decode() if parsed.packed else row}
        for i, row in enumerate(rows)
    ]
    usage = {"prompt_tokens": exchange.usage.prompt_tokens, "total_tokens": exchange.usage.prompt_tokens}
    body = {"object": "list", "data": data, "model": exchange.served.name, "usage": usage}
    return orjson.dumps(extended(body, exchange, explain=False), option=orjson.OPT_SERIALIZE_NUMPY)


EMBEDDINGS = EmbeddingsDialect(
    name="embeddings",
    path="/v1/embeddings",
    fields=FIELDS,
    summary="Embed texts",
    answer=EmbeddingList,
    example={"model": "bundled", "input": ["one text", "another text"], "encoding_format": "float"},
    tag="vectors",
)
