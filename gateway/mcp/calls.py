"""Carry out a call of a tool: find it, admit the caller, check the arguments, send them, check the result.

find -> admit -> inputSchema -> flows -> output rails -> send -> outputSchema -> input rails -> remember
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from opentelemetry import context as otel

from sluicegate.gateway.accounts.limits.estimates import CHARS_PER_TOKEN
from sluicegate.gateway.accounts.limits.runs import RunMark
from sluicegate.gateway.mcp.catalogue import Catalogue
from sluicegate.gateway.mcp.definitions import ToolDefinition
from sluicegate.gateway.mcp.errors import CarriedOver, InvalidArguments, InvalidResult, ToolHeld
from sluicegate.gateway.mcp.flows import RunMemories, RunMemory
from sluicegate.gateway.mcp.results import ResultTexts
from sluicegate.gateway.mcp.schemas import CompiledSchema
from sluicegate.gateway.mcp.screening import MODEL, moderate_arguments, request_of, screen_texts
from sluicegate.gateway.mcp.servers.connections import McpUpstreams
from sluicegate.gateway.mcp.settings import McpSettings
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.request.pipeline import Pipeline
from sluicegate.gateway.request.tracing.timing import TimedStage
from sluicegate.gateway.telemetry.finished_request import ToolCallRecord
from sluicegate.plugins import Caller, ContentBlocked, SluicegateError, Usage

log = logging.getLogger("sluicegate.mcp")
NOT_ENFORCED = "sluicegate/not_enforced"
RUN, DEPTH = "sluicegate/run", "sluicegate/depth"
"""Members of `_meta` that carry a call's run and depth, from an agent and to a server."""


@dataclass(frozen=True, slots=True)
class ToolCallRequest:
    """A call of a tool as the agent sent it."""

    server: str
    tool: str
    arguments: Mapping[str, Any]
    caller: Caller
    mark: RunMark
    api_key: str | None = None
    parent: otel.Context | None = None
    request_id: str = ""
    protocol: str = ""
    nbytes: int = 0
    """Of the body that the call came in."""


class ToolCalls:
    """Carries out calls. Used on the event loop."""

    def __init__(
        self, settings: McpSettings, catalogue: Catalogue, upstreams: McpUpstreams, pipeline: Pipeline
    ) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._upstreams = upstreams
        self._pipeline = pipeline
        self._memories = RunMemories()
        self.counts = {"calls_total": 0.0, "refused_total": 0.0, "failed_total": 0.0}

    async def call(self, asked: ToolCallRequest) -> dict[str, Any]:
        """Carry out a call and return the result as the agent gets it. Raises a `SluicegateError`."""
        started, outcome = time.monotonic(), "ok"
        self.counts["calls_total"] += 1
        try:
            return await self._carry_out(asked)
        except SluicegateError as error:
            reason = getattr(error, "reason", "") or getattr(error, "cause", "")
            outcome = f"{error.code} ({reason})" if reason else error.code
            self.counts["failed_total" if getattr(error, "status", 500) >= 500 else "refused_total"] += 1
            raise
        except BaseException as error:
            outcome = type(error).__name__
            raise
        finally:
            self._log(asked, outcome, time.monotonic() - started)

    def _log(self, asked: ToolCallRequest, outcome: str, took_s: float) -> None:
        """Log one line per call: caller, tool and outcome, but neither arguments nor results."""
        facts = {
            "server": asked.server,
            "tool": asked.tool,
            "key": asked.caller.key_id or "",
            "tenant": asked.caller.tenant,
            "run": asked.mark.run,
            "depth": asked.mark.depth,
            "outcome": outcome,
            "seconds": round(took_s, 4),
        }
        log.info(
            "call of %s/%a by %s: %s in %.3f s",
            *(asked.server, asked.tool[:64], asked.caller.key_id or asked.caller.tenant, outcome, took_s),
            extra={"facts": facts},
        )

    async def _carry_out(self, asked: ToolCallRequest) -> dict[str, Any]:
        tenant, workers = asked.caller.tenant, self._pipeline.stages.workers
        text = await workers.run(tenant, asked.nbytes, json.dumps, asked.arguments)
        request = request_of(asked.server, asked.tool, (text,), asked.api_key)
        way = self._pipeline.elsewhere(request, asked.parent, route=f"/mcp/{asked.server}", by=f"{MODEL}{asked.server}")
        async with way as exchange:
            exchange.tool = ToolCallRecord(asked.server, asked.tool, asked.request_id, asked.protocol, asked.mark.run)
            definition = self._catalogue.tool(asked.server, asked.tool)
            memory = self._memories.of(f"{asked.caller.tenant}\0{asked.caller.key_id}", asked.mark.run)
            arguments = await self._check_arguments(exchange, definition, asked, memory)
            result = await self._send(exchange, definition, asked, arguments)
            return await self._check_result(exchange, definition, result, memory)

    async def _check_arguments(
        self, exchange: Exchange, definition: ToolDefinition, asked: ToolCallRequest, memory: RunMemory
    ) -> dict[str, Any]:
        """Validate and screen the arguments; return those that may be sent."""
        server, tool, arguments = definition.server, definition.name, dict(asked.arguments)
        schema = self._catalogue.schemas.of_input(definition)
        size = len(exchange.request.messages[0].content)
        await self._validate_input(exchange, schema, definition, arguments, size)
        allowed, least = self._settings.servers[server].takes_from, self._settings.carried_chars
        search = partial(memory.find_carried, server, tool, arguments, allowed, least)
        if source := await exchange.stages.workers.run(asked.caller.tenant, size, search):
            raise CarriedOver(server, source, least)
        left = await moderate_arguments(self._pipeline, exchange, definition, arguments, memory, size)
        if left != arguments:
            await self._validate_input(exchange, schema, definition, left, size)
        await exchange.stages.workers.run(asked.caller.tenant, size, memory.note_sent, server, tool, left)
        exchange.read = Usage(prompt_tokens=-(-size // CHARS_PER_TOKEN))
        return left

    async def _validate_input(
        self,
        exchange: Exchange,
        schema: CompiledSchema,
        definition: ToolDefinition,
        value: Mapping[str, Any],
        size: int,
    ) -> None:
        said = await exchange.stages.workers.run(exchange.caller.tenant, size, schema.complaint, value)
        if said is not None:
            raise InvalidArguments(definition.server, definition.name, said)

    async def _send(
        self, exchange: Exchange, definition: ToolDefinition, asked: ToolCallRequest, arguments: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Send the call and return the server's result: from then on the tool may have had its effect. Raises
        `ToolHeld` where the server, connected to anew, calls the tool something else than what was agreed to."""
        meta = {
            "traceparent": exchange.entry.trace.traceparent,
            RUN: asked.mark.run,
            DEPTH: asked.mark.depth + 1,
        }
        with TimedStage(exchange, "generate", definition.server) as note:
            upstream = await self._upstreams.of(definition.server, asked.caller.tenant)
            note.detail["protocol"] = upstream.protocol_version
            await self._catalogue.compare(upstream)
            if self._catalogue.tool(definition.server, definition.name).fingerprint != definition.fingerprint:
                raise ToolHeld(definition.server, definition.name)
            result = await upstream.call(definition.name, arguments, meta)
            note.outcome = "tool_error" if result.get("isError") else "called"
        return result

    async def _check_result(
        self, exchange: Exchange, definition: ToolDefinition, result: Mapping[str, Any], memory: RunMemory
    ) -> dict[str, Any]:
        server, tool = definition.server, definition.name
        try:
            texts = ResultTexts.of(result, media=self._settings.servers[server].media)
        except ValueError as error:
            raise InvalidResult(server, tool, str(error)) from error
        size = len(texts.shown)
        exchange.read = Usage(exchange.read.prompt_tokens, -(-size // CHARS_PER_TOKEN))
        await self._validate_output(exchange, definition, result, size)
        left = await screen_texts(self._pipeline, exchange, server, tool, texts) if texts.texts else []
        found = await self._rebuild(exchange, definition, texts, left)
        memory.remember(server, tool, "\n".join(left), self._settings.carried_chars)
        notes = [*exchange.not_enforced, *(note for note in texts.left_out if "unread" in note)]
        if notes:
            found["_meta"] = {NOT_ENFORCED: notes}
        return found

    async def _validate_output(
        self, exchange: Exchange, definition: ToolDefinition, result: Mapping[str, Any], size: int
    ) -> None:
        """Validate the structured result by the tool's output schema. Raises `InvalidResult`. A result with `isError`
        need not satisfy it."""
        schema = self._catalogue.schemas.of_output(definition)
        if schema is None or result.get("isError"):
            return
        structured = result.get("structuredContent")
        said: str | None = "there is no structuredContent"
        if structured is not None:
            said = await exchange.stages.workers.run(exchange.caller.tenant, size, schema.complaint, structured)
        if said is not None:
            raise InvalidResult(definition.server, definition.name, said)

    async def _rebuild(
        self, exchange: Exchange, definition: ToolDefinition, texts: ResultTexts, left: list[str]
    ) -> dict[str, Any]:
        """Put the screened texts back into the result. Raises `ContentBlocked` if a rail's replacement makes it
        invalid."""
        try:
            found = texts.rebuilt(left)
            if texts.structured is not None and left[-1] != texts.texts[-1]:
                await self._validate_output(exchange, definition, found, len(left[-1]))
            return found
        except (ValueError, InvalidResult) as error:
            reason = f"what a rail replaces leaves no valid result of {definition.server}/{definition.name}"
            raise ContentBlocked("redaction", reason, reason) from error
