"""`/v1/messages`: Anthropic's interface."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from sluicegate.gateway.api.dialects.messages_answer import MessageWriter, message
from sluicegate.gateway.api.dialects.messages_request import parse_messages
from sluicegate.gateway.api.serving import served
from sluicegate.gateway.runtime import Runtime


def add_messages_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.post("/v1/messages")
    async def create_message(request: Request) -> Any:
        parsed = await runtime.reader.parse(request, parse_messages)
        return await served(
            runtime,
            request,
            parsed,
            whole=lambda exchange: message(exchange, explain=parsed.explain),
            frames=lambda exchange: MessageWriter(exchange, explain=parsed.explain),
        )
