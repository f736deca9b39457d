"""`/v1/responses`: OpenAI's newer interface, without its store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter, Request

from sluicegate.gateway.api.dialect import TextDialect
from sluicegate.gateway.api.dialects.responses_answer import ResponseWriter, response
from sluicegate.gateway.api.dialects.responses_request import FIELDS, NOT_STORED, parse_response
from sluicegate.gateway.api.openapi.examples import PERSON, TEXT
from sluicegate.gateway.api.openapi.schemas import ResponseAnswer
from sluicegate.gateway.http.api_key import api_key_of
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import NotFound


def _add_stored(router: APIRouter, runtime: Runtime) -> None:
    @router.get("/v1/responses/{response_id}")
    async def stored_response(request: Request, response_id: str) -> Any:
        runtime.identify(api_key_of(request))
        raise NotFound(f"there is no response {response_id!r}: {NOT_STORED}", param="response_id")

    for method, below in STORED:
        router.add_api_route(f"/v1/responses/{below}", _refusing(runtime), methods=[method], include_in_schema=False)


STORED = (
    ("DELETE", "{response_id}"),
    ("GET", "{response_id}/input_items"),
    ("POST", "{response_id}/cancel"),
    ("POST", "compact"),
)
"""What a server that keeps responses has besides."""


def _refusing(runtime: Runtime) -> Callable[[Request], Awaitable[None]]:
    async def refuse(request: Request) -> None:
        runtime.identify(api_key_of(request))
        raise NotFound(f"{request.method} {request.url.path}: {NOT_STORED}", code="responses_not_stored")

    return refuse


RESPONSES = TextDialect(
    name="responses",
    path="/v1/responses",
    fields=FIELDS,
    summary="Create a response",
    answer=ResponseAnswer,
    example={
        "model": "bundled",
        "input": TEXT,
        "text": {"format": {"type": "json_schema", "name": "person", "schema": PERSON}},
    },
    read=parse_response,
    whole=response,
    writer=ResponseWriter,
    add_routes=_add_stored,
)
