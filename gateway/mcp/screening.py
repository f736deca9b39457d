"""Screen texts of MCP servers by the configured rails: definitions and results as untrusted texts, arguments as a
model's call."""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from sluicegate.gateway.mcp.definitions import ToolDefinition
from sluicegate.gateway.mcp.errors import ResultTooLong, UntrustedTarget
from sluicegate.gateway.mcp.flows import RunMemory
from sluicegate.gateway.mcp.results import ResultTexts, joined
from sluicegate.gateway.mcp.settings import SEPARATOR
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.request.pipeline import Pipeline
from sluicegate.plugins import (
    Answer,
    Caller,
    ContentBlocked,
    Message,
    Request,
    RequestTooLarge,
    Sampling,
    SluicegateError,
    Tool,
    ToolCall,
)

OPERATOR = Caller(tenant="deployment", scopes=frozenset({"admin"}))
MODEL = "mcp/"
"""Prefix of a server's name in usage, prices and policies."""


def request_of(server: str, tool: str, texts: Sequence[str] = (), api_key: str | None = None) -> Request:
    """Return a request whose messages are untrusted texts of a tool, named after their source."""
    return Request(
        id=f"mcp-{uuid.uuid4().hex}",
        model=f"{MODEL}{server}",
        messages=messages_of(server, tool, texts),
        api_key=api_key,
        sampling=Sampling(max_tokens=1),  # no answer is generated: limits reserve no tokens for one
        cache=False,
        nbytes=sum(map(len, texts)),
    )


def messages_of(server: str, tool: str, texts: Sequence[str]) -> tuple[Message, ...]:
    return tuple(Message("tool", text, name=f"{server}{SEPARATOR}{tool}") for text in texts)


async def reasons_against(pipeline: Pipeline, definition: ToolDefinition) -> tuple[str, ...]:
    """Return the input rails' reasons against a definition: anything that they block, replace or escalate, and any
    rail that fails."""
    server, tool = definition.server, definition.name
    places = definition.texts()
    asked = request_of(server, tool, [text for _, text in places])
    try:
        seen = await pipeline.look_at(asked, OPERATOR, route=f"/mcp/{server}")
    except ContentBlocked as error:
        return (f"{error.rail}: {error.reason} (in its definition)",)
    except SluicegateError as error:
        return (f"{error.code}: {error.message}",)
    changed = [place for (place, text), now in zip(places, seen.messages, strict=True) if now.content != text]
    return (f"a rail would replace a part of its {changed[0]}",) if changed else ()


async def moderate_arguments(
    pipeline: Pipeline,
    exchange: Exchange,
    definition: ToolDefinition,
    arguments: Mapping[str, Any],
    memory: RunMemory,
    size: int,
) -> dict[str, Any]:
    """Return `arguments` after the output rails, which read them as a model's call after the run's results. `size`:
    characters of them as JSON. Raises `UntrustedTarget`."""
    tenant, workers = exchange.caller.tenant, exchange.stages.workers
    server, tool = definition.server, f"{definition.server}{SEPARATOR}{definition.name}"
    read = [Message("tool", text, name=source.replace("/", SEPARATOR, 1)) for source, text in memory.raw]
    said = await workers.run(tenant, size, partial(json.dumps, arguments, ensure_ascii=False))
    call = Answer(0, "", "tool_calls", tool_calls=(ToolCall("call", tool, said),))
    described = Tool(tool, str(definition.content.get("description", "")), definition.input_schema)
    exchange.request = dataclasses.replace(exchange.request, messages=tuple(read), tools=(described,))
    answer = await pipeline.moderate_answer(exchange, call)
    if answer.refusal is not None or not answer.tool_calls:
        found_by = exchange.moderation.reasons if exchange.moderation is not None else {}
        reason = "; ".join(f"{rail}: {why}" for rail, why in found_by.items())
        raise UntrustedTarget(server, definition.name, answer.refusal or "a safety rail took it out", reason)
    found = await workers.run(tenant, size, json.loads, answer.tool_calls[0].arguments)
    assert isinstance(found, dict)
    return found


async def screen_texts(
    pipeline: Pipeline, exchange: Exchange, server: str, tool: str, result: ResultTexts
) -> list[str]:
    """Return the texts of a result after the input rails, which also read the blocks of content joined. Raises
    `ContentBlocked`, whose reason names the source, or `ResultTooLong`."""
    texts = (*result.texts, *result.joined)
    asked = dataclasses.replace(
        exchange.request, messages=messages_of(server, tool, texts), tools=(), nbytes=sum(map(len, texts))
    )
    try:
        seen = await pipeline.screen_again(exchange, asked)
    except RequestTooLarge as error:
        raise ResultTooLong(server, tool) from error
    except ContentBlocked as error:
        told = ContentBlocked(error.rail, f"{error.reason} (in a result of {server}/{tool})")
        told.message = (
            f"the safety check {error.rail!r} refused a result of {server}/{tool}: it holds something that is not "
            "allowed here"
        )
        raise told from error
    found = [message.content for message in seen.messages]
    left, together = found[: len(result.texts)], found[len(result.texts) :]
    if together and together != list(joined(left[: len(left) - (result.structured is not None)])):
        reason = f"a rail would replace what stands across several blocks of a result of {server}/{tool}"
        raise ContentBlocked("redaction", reason, reason)
    return left
