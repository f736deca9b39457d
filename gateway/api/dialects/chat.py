"""`/v1/chat/completions`."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from sluicegate.gateway.api.dialects.chat_answer import ChunkWriter, completion
from sluicegate.gateway.api.dialects.chat_request import parse_chat
from sluicegate.gateway.api.serving import served
from sluicegate.gateway.runtime import Runtime


def add_chat_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.post("/v1/chat/completions")
    async def chat_completions(request: Request) -> Any:
        parsed = await runtime.reader.parse(request, parse_chat)
        return await served(
            runtime,
            request,
            parsed,
            whole=lambda exchange: completion(exchange, explain=parsed.explain),
            frames=lambda exchange: ChunkWriter(exchange, include_usage=parsed.include_usage, explain=parsed.explain),
        )
