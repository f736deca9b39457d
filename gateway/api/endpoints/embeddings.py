"""`/v1/embeddings`: texts as vectors, screened and counted as any other request."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field

from sluicegate.gateway.api.body.parsing import read_body
from sluicegate.gateway.api.body.unknown_fields import Heeding, Listed, Wire
from sluicegate.gateway.api.delivery import Nobody
from sluicegate.gateway.api.extras import extension
from sluicegate.gateway.api.serving import JSON, told
from sluicegate.gateway.http.disconnects import ClientLeft, unless_left
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.telemetry import parent_context
from sluicegate.plugins import Embeddings, Message, RequestError, Sampling
from sluicegate.plugins import Request as Asked

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


def add_embeddings_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.post("/v1/embeddings")
    async def create_embeddings(request: Request) -> Any:
        wire, asked, ignored = await runtime.reader.parse(request, parse_embeddings)
        runtime.check_ready()
        try:
            found, exchange = await unless_left(request.scope, request.receive, _embedded(runtime, request, asked))
            exchange.ignored = ignored
        except ClientLeft:
            return Nobody()
        headers = told(exchange.ignored) | {"traceparent": exchange.entry.trace.traceparent}
        return Response(embeddings_body(found, exchange, wire), media_type=JSON, headers=headers)


FIELDS = Heeding(EmbeddingRequest, "embeddings")


def parse_embeddings(
    body: bytes | Mapping[str, Any], api_key: str | None = None
) -> tuple[EmbeddingRequest, Asked, tuple[str, ...]]:
    """The body, what it asks for, and the paths of what is not used. Raises `RequestError`."""
    wire, ignored = read_body(body, FIELDS)
    texts = [wire.input] if isinstance(wire.input, str) else wire.input
    asked = Asked(
        id=f"embd-{uuid.uuid4().hex}",
        model=wire.model,
        messages=tuple(Message("user", text) for text in texts),
        user=wire.user,
        api_key=api_key,
        sampling=NO_ANSWER,
        cache=False,
    )
    return wire, asked, ignored


async def _embedded(runtime: Runtime, request: Request, asked: Asked) -> tuple[Embeddings, Exchange]:
    """The texts as the input rails left them."""
    exchange = await runtime.pipeline.enter(asked, parent_context(request.headers), route=request.scope["path"])
    texts = [message.content for message in exchange.request.messages]
    return await runtime.pipeline.embed(exchange, texts), exchange


def embeddings_body(found: Embeddings, exchange: Exchange, wire: EmbeddingRequest) -> bytes:
    width = found.vectors.shape[1]
    if wire.dimensions not in (None, width):
        raise RequestError(
            f"model {exchange.served.name!r} has {width} dimensions and cannot be cut to {wire.dimensions}; leave "
            "`dimensions` out",
            param="dimensions",
        )
    rows = np.ascontiguousarray(found.vectors, dtype=np.float32)
    packed = wire.encoding_format == "base64"
    data = [
        {"object": "embedding", "index": i, "embedding": base64.b64encode(row).decode() if packed else row}
        for i, row in enumerate(rows)
    ]
    usage = {"prompt_tokens": exchange.usage.prompt_tokens, "total_tokens": exchange.usage.prompt_tokens}
    body = {"object": "list", "data": data, "model": exchange.served.name, "usage": usage}
    if extra := extension(exchange, explain=False):
        body["sluicegate"] = extra
    return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
