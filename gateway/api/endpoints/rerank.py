"""`/v1/rerank` as Jina, Cohere and vLLM have it, and `/v1/score` as vLLM has it: texts scored by a cross-encoder.

Query and documents are screened as those of any other request, documents as what a stranger wrote.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from fastapi import APIRouter
from fastapi import Request as HttpRequest
from fastapi.responses import Response
from pydantic import Field

from sluicegate.gateway.api.body.parsing import InWordsOf, Parse, Parsed, Tree, read_body
from sluicegate.gateway.api.body.unknown_fields import BodyFields, Listed, Wire
from sluicegate.gateway.api.delivery import NoResponse
from sluicegate.gateway.api.dialect import ignored_header
from sluicegate.gateway.api.extras import extended
from sluicegate.gateway.http.disconnects import ClientDisconnected, unless_disconnected
from sluicegate.gateway.http.errors import JSON
from sluicegate.gateway.prompts.places import BodyPlaces
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.telemetry import parent_context, semconv
from sluicegate.plugins import Document, Message, Parts, Request, RequestError, Sampling, Scores
from sluicegate.plugins.json_names import Path

MAX_TEXTS = 1024
"""Documents of one request, and pairs of one `/v1/score`."""
RERANK_PATHS = ("/v1/rerank", "/rerank", "/v2/rerank")
SCORE_PATHS = ("/v1/score", "/score")
Text = Annotated[str, Field(min_length=1)]


class TextDocument(Wire):
    """Jina's and Cohere's object around a text."""

    text: Text


class RerankRequest(Wire):
    model: str
    query: Text
    documents: Annotated[Listed[Text | TextDocument], Field(min_length=1, max_length=MAX_TEXTS)]
    top_n: Annotated[int, Field(ge=0)] | None = None
    """0, as in vLLM, or none: all of them."""
    return_documents: bool | None = None


class ScoreRequest(Wire):
    """`text_1` one text for all of `text_2`, or as many."""

    model: str
    text_1: Text | Annotated[Listed[Text], Field(min_length=1, max_length=MAX_TEXTS)]
    text_2: Text | Annotated[Listed[Text], Field(min_length=1, max_length=MAX_TEXTS)]


RERANK, SCORE = BodyFields(RerankRequest), BodyFields(ScoreRequest)


@dataclass(frozen=True, slots=True)
class TextPlaces(BodyPlaces):
    """Of one query and its documents. `objects`: which documents are objects, with a `text`."""

    query: Path = ("query",)
    documents: Path = ("documents",)
    listed: bool = True
    objects: frozenset[int] = frozenset()

    def message(self, request: Request, at: int, rest: Path) -> Path:
        return self.query

    def document(self, at: int, rest: Path) -> Path:
        text = ("text",) if at in self.objects else ()
        return (*self.documents, at, *text) if self.listed else self.documents


NAMES = {"messages": "documents"}


@dataclass(frozen=True, slots=True)
class ParsedTexts(Parsed):
    """The request's last message is the query, those before it are the documents."""

    top_n: int = 0
    with_texts: bool = True


Written = Callable[[Scores, Exchange, ParsedTexts], dict[str, Any]]


def add_rerank_routes(router: APIRouter, runtime: Runtime) -> None:
    async def rerank(request: HttpRequest) -> Response:
        return await _answered(runtime, request, parse_rerank, _ranking)

    async def score(request: HttpRequest) -> Response:
        return await _answered(runtime, request, parse_score, _scores)

    for paths, endpoint in ((RERANK_PATHS, rerank), (SCORE_PATHS, score)):
        for path in paths:
            router.add_api_route(path, endpoint, methods=["POST"], name=path.rpartition("/")[2])


def parse_rerank(body: bytes | Tree, api_key: str | None = None) -> ParsedTexts:
    """Read a request for reranking. Raises `RequestError` that names the field by path."""
    wire, ignored = read_body(body, RERANK)
    texts = [document if isinstance(document, str) else document.text for document in wire.documents]
    request = _request(wire.model, wire.query, texts, api_key)
    objects = frozenset(at for at, document in enumerate(wire.documents) if not isinstance(document, str))
    return ParsedTexts(
        request,
        ignored=ignored,
        places=TextPlaces(NAMES, objects=objects),
        top_n=wire.top_n or 0,
        with_texts=wire.return_documents is not False,
    )


def parse_score(body: bytes | Tree, api_key: str | None = None) -> ParsedTexts:
    """Read a request for scores. Raises `RequestError` unless it has exactly one query, which is scored against every
    text."""
    wire, ignored = read_body(body, SCORE)
    texts = [wire.text_2] if isinstance(wire.text_2, str) else wire.text_2
    queries = [wire.text_1] if isinstance(wire.text_1, str) else wire.text_1
    if len(queries) != 1:
        raise RequestError(
            f"`text_1` has {len(queries)} texts; one is scored against all of `text_2`: send a request for each",
            param="text_1",
        )
    query: Path = ("text_1",) if isinstance(wire.text_1, str) else ("text_1", 0)
    places = TextPlaces({"messages": "text_2"}, "", query, ("text_2",), not isinstance(wire.text_2, str))
    return ParsedTexts(_request(wire.model, queries[0], texts, api_key), ignored=ignored, places=places)


def _request(model: str, query: str, texts: Sequence[str], api_key: str | None) -> Request:
    return Request(
        id=f"rerank-{uuid.uuid4().hex}",
        model=model,
        messages=(*(Message("user", text) for text in texts), Message("user", query)),
        parts=Parts(documents=tuple(Document("") for _ in texts), expanded=True),
        api_key=api_key,
        sampling=Sampling(max_tokens=1),  # limits of tokens reserve no room for an answer that nobody writes
        cache=False,
    )


async def _answered(runtime: Runtime, request: HttpRequest, parse: Parse[ParsedTexts], write: Written) -> Response:
    parsed = await runtime.reader.parse(request, parse)
    runtime.check_ready()
    context, route = parent_context(request.headers), request.scope["path"]

    async def work() -> tuple[Scores, Exchange]:
        exchange = await runtime.pipeline.enter(
            parsed.request, context, route=route, operation=semconv.OPERATION_RERANK
        )
        exchange.ignored = parsed.ignored
        *documents, query = exchange.request.messages
        return await runtime.pipeline.score(exchange, query.content, [one.content for one in documents]), exchange

    try:
        with InWordsOf(parsed):
            found, exchange = await unless_disconnected(request.scope, request.receive, work())
    except ClientDisconnected:
        return NoResponse()
    headers = ignored_header(exchange.ignored) | {"traceparent": exchange.entry.trace.traceparent}
    body = extended(write(found, exchange, parsed), exchange, explain=False)
    if found.truncated:
        body["sluicegate"] = {**body.get("sluicegate", {}), "truncated": list(found.truncated)}
    return Response(orjson.dumps(body), media_type=JSON, headers=headers)


def _ranking(found: Scores, exchange: Exchange, parsed: ParsedTexts) -> dict[str, Any]:
    order = sorted(range(len(found.scores)), key=lambda at: -found.scores[at])  # equal ones stay as they were sent
    return {
        "id": exchange.request.id,
        "object": "list",
        "model": exchange.served.name,
        "usage": _usage(found),
        "results": [
            {"index": at, **_shown(exchange, at, parsed), "relevance_score": found.scores[at]}
            for at in order[: parsed.top_n or len(order)]
        ],
    }


def _shown(exchange: Exchange, at: int, parsed: ParsedTexts) -> dict[str, Any]:
    """Return the document as the rails left it."""
    return {"document": {"text": exchange.request.messages[at].content}} if parsed.with_texts else {}


def _scores(found: Scores, exchange: Exchange, parsed: ParsedTexts) -> dict[str, Any]:
    return {
        "id": exchange.request.id,
        "object": "list",
        "created": int(time.time()),
        "model": exchange.served.name,
        "data": [{"index": at, "object": "score", "score": score} for at, score in enumerate(found.scores)],
        "usage": _usage(found),
    }


def _usage(found: Scores) -> dict[str, int]:
    return {"prompt_tokens": sum(found.tokens), "total_tokens": sum(found.tokens)}
