"""Answering a body without a caller who waits: what a batch runs for each of its lines."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sluicegate.gateway.api.body.depth import check_depth
from sluicegate.gateway.api.body.parsing import Parsed, in_words_of
from sluicegate.gateway.api.dialects.chat_answer import completion
from sluicegate.gateway.api.dialects.chat_request import parse_chat
from sluicegate.gateway.api.dialects.completions_answer import completions
from sluicegate.gateway.api.dialects.completions_request import parse_completions
from sluicegate.gateway.api.dialects.responses_answer import response
from sluicegate.gateway.api.dialects.responses_request import parse_response
from sluicegate.gateway.api.endpoints.embeddings import embeddings_body, parse_embeddings
from sluicegate.gateway.batches import LineAnswer
from sluicegate.gateway.http.errors import error_body, error_status
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import Overloaded, RateLimited, Request, RequestError, SluicegateError

log = logging.getLogger("sluicegate.batches")
BATCH_PRIORITY = 10
"""Behind everybody who waits."""


class Offline:
    """Callable as a batch's `Run`. Errors are answers, as they would be over HTTP."""

    endpoints = ("/v1/chat/completions", "/v1/responses", "/v1/completions", "/v1/embeddings")

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def __call__(self, endpoint: str, body: Mapping[str, Any], key_id: str | None) -> LineAnswer:
        """Raises `RateLimited` and `Overloaded`, which say when to come back."""
        try:
            self._runtime.check_ready()
            if body.get("stream"):
                raise RequestError("in a batch nothing is streamed; leave `stream` out", param="stream")
            check_depth(body)
            self._runtime.reader.check(body)
            return await self._answer(endpoint, body, key_id)
        except (RateLimited, Overloaded):
            raise
        except SluicegateError as error:
            return LineAnswer(error_status(error), error_body(error))
        except Exception:
            log.exception("a line of a batch could not be answered")
            hidden = SluicegateError("the gateway failed on this request; the log of the gateway says why")
            return LineAnswer(500, error_body(hidden))

    async def _answer(self, endpoint: str, body: Mapping[str, Any], key_id: str | None) -> LineAnswer:
        if endpoint == "/v1/embeddings":
            return await self._embedded(body, key_id)
        if endpoint == "/v1/chat/completions":
            chat = parse_chat(body)
            exchange = await self._collected(chat, key_id)
            return _whole(exchange, completion(exchange, explain=chat.explain))
        if endpoint == "/v1/responses":
            asked = parse_response(body)
            exchange = await self._collected(asked, key_id)
            return _whole(exchange, response(exchange, asked.echo or {}, explain=asked.explain))
        written = parse_completions(body)
        if len(written.requests) > 1:
            raise RequestError("in a batch a line has one prompt; write a line for each", param="prompt")
        exchange = await self._collected(written, key_id)
        return _whole(exchange, completions([exchange], explain=written.explain))

    async def _collected(self, parsed: Parsed, key_id: str | None) -> Exchange:
        with in_words_of(parsed):
            exchange = await self._runtime.pipeline.open(_later(parsed.request, key_id))
            exchange.ignored += parsed.ignored
            await self._runtime.pipeline.collect(exchange)
        return exchange

    async def _embedded(self, body: Mapping[str, Any], key_id: str | None) -> LineAnswer:
        wire, request, ignored = parse_embeddings(body)
        exchange = await self._runtime.pipeline.enter(_later(request, key_id))
        found = await self._runtime.pipeline.embed(exchange, [m.content for m in exchange.request.messages])
        exchange.ignored = ignored
        return _whole(exchange, embeddings_body(found, exchange, wire))


def _later(request: Request, key_id: str | None) -> Request:
    return replace(request, priority=BATCH_PRIORITY, on_behalf_of=key_id)


def _whole(exchange: Exchange, body: bytes) -> LineAnswer:
    told = exchange.reported_usage
    return LineAnswer(200, body, told.prompt_tokens, told.completion_tokens)
