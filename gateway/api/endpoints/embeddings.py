"""`/v1/embeddings`: texts as vectors, screened and counted as any other request."""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import orjson
from fastapi import Request as HttpRequest
from fastapi.responses import Response
from pydantic import Field, StrictInt

from sluicegate.gateway.api.body.parsing import InWordsOf, Parsed, Tree, read_body
from sluicegate.gateway.api.body.unknown_fields import BodyFields, Listed, Wire
from sluicegate.gateway.api.delivery import NoResponse
from sluicegate.gateway.api.dialect import Dialect, for_batch, ignored_header, line_answer
from sluicegate.gateway.api.extras import extension
from sluicegate.gateway.api.openapi.schemas import EmbeddingList
from sluicegate.gateway.batches import LineAnswer
from sluicegate.gateway.http.disconnects import ClientDisconnected, unless_disconnected
from sluicegate.gateway.http.errors import JSON
from sluicegate.gateway.prompts.places import BodyPlaces
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.telemetry import parent_context, semconv
from sluicegate.plugins import Embeddings, Message, ReadingModel, Request, RequestError, Sampling, ServedModel
from sluicegate.plugins.json_names import Path

MAX_TEXTS = 2048
TINY = 1e-12
NO_ANSWER = Sampling(max_tokens=1)
"""So that limits of tokens do not reserve room for an answer that nobody writes."""
UNREAD = "[token ids]"
"""Stands for token ids of a model that is not known by this name: none is asked about it."""
LONG = 4096
"""Token ids from here on are spelled in a thread."""
Text = Annotated[str, Field(min_length=1)]


Ids = Annotated[Listed[Annotated[StrictInt, Field(ge=0)]], Field(min_length=1)]


class EmbeddingRequest(Wire):
    """Token ids are those of the model's own tokenizer; the rails read the text that they spell."""

    model: str
    input: (
        Text
        | Annotated[Listed[Text], Field(min_length=1, max_length=MAX_TEXTS)]
        | Ids
        | Annotated[Listed[Ids], Field(min_length=1, max_length=MAX_TEXTS)]
    )
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Field(ge=1)] | None = None
    user: str | None = None


FIELDS = BodyFields(EmbeddingRequest, "embeddings")


@dataclass(frozen=True, slots=True)
class InputPlaces(BodyPlaces):
    """Of texts in `input`; `listed`: as a list."""

    listed: bool = False

    def message(self, request: Request, at: int, rest: Path) -> Path:
        return ("input", at) if self.listed else ("input",)


NAMES = {"messages": "input"}


@dataclass(frozen=True, slots=True)
class ParsedEmbeddings(Parsed):
    """`packed`: vectors as bytes; `dimensions`: those that are expected; `ids`: the texts as tokens, where they came as
    such."""

    packed: bool = False
    dimensions: int | None = None
    ids: tuple[tuple[int, ...], ...] = ()


def parse_embeddings(body: bytes | Tree, api_key: str | None = None) -> ParsedEmbeddings:
    """Read a request for embeddings. Raises `RequestError` that names the field by path."""
    wire, ignored = read_body(body, FIELDS)
    texts, ids = _texts_or_ids(wire.input)
    request = Request(
        id=f"embd-{uuid.uuid4().hex}",
        model=wire.model,
        messages=tuple(Message("user", text) for text in texts),
        user=wire.user,
        api_key=api_key,
        sampling=NO_ANSWER,
        cache=False,
    )
    return ParsedEmbeddings(
        request,
        ignored=ignored,
        places=InputPlaces(NAMES, listed=not isinstance(wire.input, str) and (len(texts) > 1 or not ids)),
        packed=wire.encoding_format == "base64",
        dimensions=wire.dimensions,
        ids=ids,
    )


def _texts_or_ids(found: Any) -> tuple[list[str], tuple[tuple[int, ...], ...]]:
    """Return texts, and the token ids that they stand for where ids were sent; what those spell is not known yet."""
    if isinstance(found, str):
        return [found], ()
    if isinstance(found[0], str):
        return found, ()
    rows = tuple(map(tuple, found)) if isinstance(found[0], list) else (tuple(found),)
    return [UNREAD] * len(rows), rows


class EmbeddingsDialect(Dialect):
    async def respond(self, runtime: Runtime, request: HttpRequest) -> Response:
        parsed = await runtime.reader.parse(request, parse_embeddings)
        runtime.check_ready()
        context, route = parent_context(request.headers), request.scope["path"]
        work = embedded_texts(runtime, parsed, parsed.request, context, route)
        try:
            found, exchange = await unless_disconnected(request.scope, request.receive, work)
        except ClientDisconnected:
            return NoResponse()
        headers = ignored_header(exchange.ignored) | {"traceparent": exchange.entry.trace.traceparent}
        return Response(_body(found, exchange, parsed), media_type=JSON, headers=headers)

    async def run_line(self, runtime: Runtime, body: Tree, key_id: str | None) -> LineAnswer:
        parsed = parse_embeddings(body)
        found, exchange = await embedded_texts(runtime, parsed, for_batch(parsed.request, key_id))
        return line_answer(exchange, _body(found, exchange, parsed))


async def embedded_texts(
    runtime: Runtime, parsed: ParsedEmbeddings, request: Request, context: Any = None, route: str = ""
) -> tuple[Embeddings, Exchange]:
    """Embed the texts as the input rails left them. Raises `SluicegateError`."""
    with InWordsOf(parsed):
        return await _embedded(runtime, parsed, request, context, route)


async def _embedded(
    runtime: Runtime, parsed: ParsedEmbeddings, request: Request, context: Any, route: str
) -> tuple[Embeddings, Exchange]:
    model = runtime.pipeline.stages.generate[1].models.get(request.model) if parsed.ids else None
    if model is not None and not model.remote:
        request = await _spelled(request, parsed.ids, model)
    exchange = await runtime.pipeline.enter(request, context, route=route, operation=semconv.OPERATION_EMBEDDINGS)
    try:
        _check_asked(exchange.served, parsed, model)
    except RequestError as error:
        await runtime.pipeline.close(exchange, error)
        raise
    sent = [message.content for message in request.messages]
    texts = [message.content for message in exchange.request.messages]
    rows: list[str | Sequence[int]] = list(texts)
    for at, ids in enumerate(parsed.ids):
        if texts[at] == sent[at]:  # no rail changed what they spell
            rows[at] = ids
    found = await runtime.pipeline.embed(exchange, rows)
    exchange.ignored = parsed.ignored
    return found, exchange


async def _spelled(request: Request, rows: Sequence[Sequence[int]], model: ServedModel) -> Request:
    """Return `request` with the texts that token ids spell, for the rails. Raises `RequestError` for ids that the model
    has not."""
    if wrong := next((i for row in rows for i in row if i >= model.vocab_size), None):
        raise RequestError(
            f"token id {wrong} is none of the {model.vocab_size} of model {model.name!r}; ids are those of the model's "
            "own tokenizer: send texts",
            param="input",
        )

    def spell() -> list[str]:
        return [model.tokenizer.decode(list(row), skip_special_tokens=False) for row in rows]

    texts = await asyncio.to_thread(spell) if sum(map(len, rows)) > LONG else spell()
    return replace(request, messages=tuple(Message("user", text) for text in texts))


def _check_asked(served: ServedModel, parsed: ParsedEmbeddings, model: ServedModel | None) -> None:
    """Refuse token ids of another model than the one that was routed to, and lengths that its vectors cannot be cut to,
    where that is known beforehand: raises `RequestError`."""
    if parsed.ids and (model is None or served is not model or served.remote):
        raise RequestError(
            f"token ids mean something to one model alone, and {parsed.request.model!r} does not name one that runs "
            "here; send texts",
            param="input",
        )
    if isinstance(served, ReadingModel) and served.reads_for == "embed":
        _check_length(served, parsed.dimensions, served.dimensions)


def _check_length(served: ServedModel, wanted: int | None, possible: Sequence[int]) -> None:
    if wanted is not None and wanted not in possible:
        shorter = f" and can be cut to {', '.join(map(str, possible[1:]))}" if len(possible) > 1 else ""
        raise RequestError(
            f"model {served.name!r} has {possible[0]} dimensions{shorter} and cannot be cut to {wanted}; leave "
            "`dimensions` out",
            param="dimensions",
        )


def _cut(vectors: npt.NDArray[np.float32], length: int, model: ServedModel) -> npt.NDArray[np.float32]:
    """Return the first `length` numbers of `vectors` [n, d], at unit length again where the model brings them there."""
    cut = vectors[:, :length]
    if isinstance(model, ReadingModel) and not model.normalises:
        return cut
    unit: npt.NDArray[np.float32] = cut / np.maximum(np.linalg.norm(cut, axis=1, keepdims=True), TINY)
    return unit


def rows_of(found: Embeddings, exchange: Exchange, parsed: ParsedEmbeddings) -> npt.NDArray[np.float32]:
    """Return the vectors, float32 [n, d], as long as was asked for. Raises `RequestError` where they cannot be."""
    width, served = found.vectors.shape[1], exchange.served
    rows = np.ascontiguousarray(found.vectors, dtype=np.float32)
    if parsed.dimensions is not None and parsed.dimensions != width:
        _check_length(served, parsed.dimensions, served.dimensions if isinstance(served, ReadingModel) else (width,))
        rows = np.ascontiguousarray(_cut(rows, parsed.dimensions, served))
    return rows


def embedding_notes(found: Embeddings, exchange: Exchange) -> dict[str, Any]:
    """Return what `sluicegate` says in an answer; empty where there is nothing to say."""
    truncated = {"truncated": list(found.truncated)} if found.truncated else {}
    return extension(exchange, explain=False) | truncated


def _body(found: Embeddings, exchange: Exchange, parsed: ParsedEmbeddings) -> bytes:
    rows = rows_of(found, exchange, parsed)
    data = [
        {"object": "embedding", "index": i, "embedding": base64.b64encode(row).decode() if parsed.packed else row}
        for i, row in enumerate(rows)
    ]
    usage = {"prompt_tokens": exchange.usage.prompt_tokens, "total_tokens": exchange.usage.prompt_tokens}
    body: dict[str, Any] = {
        "id": exchange.request.id,  # Mistral's client cannot do without
        "object": "list",
        "data": data,
        "model": exchange.served.name,
        "usage": usage,
    }
    if notes := embedding_notes(found, exchange):
        body["sluicegate"] = notes
    return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)


EMBEDDINGS = EmbeddingsDialect(
    name="embeddings",
    path="/v1/embeddings",
    fields=FIELDS,
    summary="Embed texts",
    answer=EmbeddingList,
    example={"model": "bundled", "input": ["one text", "another text"], "encoding_format": "float"},
    tag="vectors",
)
