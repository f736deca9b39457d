"""`/v1/completions`: OpenAI's oldest interface, which vLLM's clients still speak."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from sluicegate.gateway.api.body.parsing import in_words_of
from sluicegate.gateway.api.delivery import Nobody
from sluicegate.gateway.api.dialects.completions_answer import TextWriter, completions
from sluicegate.gateway.api.dialects.completions_request import ParsedCompletions, parse_completions
from sluicegate.gateway.api.serving import JSON, served, told
from sluicegate.gateway.http.disconnects import ClientLeft, unless_left
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.telemetry import parent_context
from sluicegate.plugins import Request as Asked


def add_completions_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.post("/v1/completions")
    async def create_completion(request: Request) -> Any:
        parsed = await runtime.reader.parse(request, parse_completions)
        if len(parsed.requests) > 1:
            return await _several(runtime, request, parsed)
        return await served(
            runtime,
            request,
            parsed,
            whole=lambda exchange: completions([exchange], explain=parsed.explain),
            frames=lambda exchange: TextWriter(exchange, include_usage=parsed.include_usage, explain=parsed.explain),
        )


async def _several(runtime: Runtime, request: Request, parsed: ParsedCompletions) -> Response:
    """Each prompt is a request of its own, for limits too; the first that fails fails all."""
    runtime.check_ready()
    parent, route = parent_context(request.headers), request.scope["path"]

    async def one(asked: Asked) -> Exchange:
        with in_words_of(parsed):
            exchange = await runtime.pipeline.open(asked, parent, route=route)
            exchange.ignored += parsed.ignored
            await runtime.pipeline.collect(exchange)
        return exchange

    async def everyone() -> list[Exchange]:
        tasks = [asyncio.ensure_future(one(asked)) for asked in parsed.requests]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    try:
        exchanges = await unless_left(request.scope, request.receive, everyone())
    except ClientLeft:
        return Nobody()
    return Response(completions(exchanges, explain=parsed.explain), media_type=JSON, headers=told(exchanges[0].ignored))
