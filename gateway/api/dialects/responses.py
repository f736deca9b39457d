"""`/v1/responses`: OpenAI's newer interface, without its store."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from sluicegate.gateway.api.dialects.responses_answer import ResponseWriter, response
from sluicegate.gateway.api.dialects.responses_request import NOT_STORED, parse_response
from sluicegate.gateway.api.serving import served
from sluicegate.gateway.http.api_key import api_key_of
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import NotFound


def add_responses_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.post("/v1/responses")
    async def create_response(request: Request) -> Any:
        parsed = await runtime.reader.parse(request, parse_response)
        echo = parsed.echo or {}
        return await served(
            runtime,
            request,
            parsed,
            whole=lambda exchange: response(exchange, echo, explain=parsed.explain),
            frames=lambda exchange: ResponseWriter(exchange, echo, explain=parsed.explain),
        )

    @router.get("/v1/responses/{response_id}")
    async def stored_response(request: Request, response_id: str) -> Any:
        runtime.identify(api_key_of(request))
        raise NotFound(f"there is no response {response_id!r}: {NOT_STORED}", param="response_id")
