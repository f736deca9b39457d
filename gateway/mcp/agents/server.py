"""The MCP server that agents connect to: the SDK's server without sessions, with the tools of all upstream servers.

Requests are independent: there is no session that could be fixed, guessed or hijacked. Revision 2026-07-28 of the
protocol has none; clients of earlier revisions are not given one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from sluicegate import __version__
from sluicegate.gateway.http.errors import error_detail
from sluicegate.gateway.mcp.agents.bodies import AgentBody
from sluicegate.gateway.mcp.agents.not_served import refuse_by_name
from sluicegate.gateway.mcp.calls import DEPTH, RUN
from sluicegate.gateway.mcp.definitions import ToolDefinition
from sluicegate.plugins import RequestError, SluicegateError

log = logging.getLogger("sluicegate.mcp")
REFUSED = -32003
"""JSON-RPC code of what this gateway refuses; `data.code` says why, as over HTTP."""
FAILED = -32004
"""JSON-RPC code of failures, of a server or of this gateway."""
AS_RESULT = frozenset({"invalid_arguments"})
"""Codes of errors that a model can correct: the protocol wants them as results of the tool."""
NAMES = 256
_BODY = "sluicegate.mcp.body"
"""Key of the `AgentBody` in a request's scope."""


@dataclass(frozen=True, slots=True)
class AgentCall:
    """A request of an agent. `server` "": the path of all servers. `meta`: the `_meta` members that are used here."""

    server: str
    http: Request
    meta: Mapping[str, Any]
    request_id: str
    protocol: str
    body: AgentBody


class Tools(Protocol):
    """Lists and calls tools. Raises `SluicegateError`."""

    def list_tools(self, call: AgentCall) -> list[tuple[str, ToolDefinition]]: ...

    async def call_tool(self, call: AgentCall, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]: ...


class AgentServer:
    """Serves agents through the SDK. Call `start` before the first request, `close` after the last."""

    def __init__(self, tools: Tools, max_body_bytes: int) -> None:
        self._tools = tools
        self._server: Server[Any] = Server(
            "sluicegate",
            version=__version__,
            on_list_tools=self._list,
            on_call_tool=self._call,
            get_tool_input_schema=lambda name: None,  # arguments are validated by `ToolCalls`
        )
        self._server.middleware[:] = [refuse_by_name]  # replaces the SDK's spans, too: ours have more attributes
        self._manager = StreamableHTTPSessionManager(
            self._server, json_response=True, stateless=True, max_request_body_size=max_body_bytes
        )
        self._stop = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None

    async def start(self) -> None:
        ready = asyncio.Event()
        self._owner = asyncio.create_task(self._own(ready))
        await ready.wait()

    async def close(self) -> None:
        self._stop.set()
        if self._owner is not None:
            await asyncio.wait({self._owner}, timeout=5.0)
            self._owner.cancel()

    async def serve(self, scope: Scope, body: AgentBody) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Answer a POST whose body was read and checked before. Return (status, headers, body)."""
        sent: list[Message] = []
        waiting = [{"type": "http.request", "body": body.text, "more_body": False}]

        async def receive() -> Message:
            if waiting:
                return waiting.pop()
            await asyncio.Event().wait()  # the caller watches for a client that disconnects
            raise AssertionError

        async def send(message: Message) -> None:
            sent.append(message)

        await _handled(self._manager, {**scope, _BODY: body}, receive, send)
        head = next(one for one in sent if one["type"] == "http.response.start")
        parts = [one.get("body", b"") for one in sent if one["type"] == "http.response.body"]
        return head["status"], list(head["headers"]), b"".join(parts)

    async def _own(self, ready: asyncio.Event) -> None:
        """Enter and leave the manager in one task, as its cancel scopes require."""
        with contextlib.suppress(asyncio.CancelledError):
            async with self._manager.run():
                ready.set()
                await self._stop.wait()

    async def _list(self, context: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        try:
            found = self._tools.list_tools(_call_of(context))
        except SluicegateError as error:
            raise protocol_error(error) from error
        tools = [types.Tool.model_validate({**definition.content, "name": name}) for name, definition in found]
        return types.ListToolsResult(tools=tools)

    async def _call(self, context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            call = _call_of(context)
            left_out = call.body.arguments
            arguments = (params.arguments or {}) if left_out is None else left_out
            result = await self._tools.call_tool(call, params.name[:NAMES], arguments)
        except SluicegateError as error:
            if error.code in AS_RESULT:
                return types.CallToolResult(
                    content=[types.TextContent(type="text", text=error.message)],
                    is_error=True,
                    _meta={"sluicegate/error": error_detail(error)},
                )
            raise protocol_error(error) from error
        except Exception as error:
            log.exception("a call of a tool failed")
            raise MCPError(types.INTERNAL_ERROR, "the gateway failed on this call; its log says why") from error
        return types.CallToolResult.model_validate(result)


async def _handled(manager: StreamableHTTPSessionManager, scope: Scope, receive: Receive, send: Send) -> None:
    await manager.handle_request(scope, receive, send)


def protocol_error(error: SluicegateError) -> MCPError:
    """Return `error` as an MCP error, whose `data` holds the same facts as the body of an HTTP error."""
    detail = error_detail(error)
    retry_after_s = getattr(error, "retry_after_s", None)
    if retry_after_s is not None:
        detail["retry_after_s"] = retry_after_s
    code = REFUSED if isinstance(error, RequestError) else FAILED
    if detail["code"] in ("tool_not_found", "invalid_run"):
        code = types.INVALID_PARAMS
    return MCPError(code, error.message, detail)


def _call_of(context: Any) -> AgentCall:
    http: Request = context.request
    meta = dict(context.meta or {})
    kept = {name: meta[name] for name in ("traceparent", RUN, DEPTH) if name in meta}
    request_id = "" if context.request_id is None else str(context.request_id)[:128]
    server, body = http.path_params.get("server", ""), http.scope[_BODY]
    return AgentCall(server, http, kept, request_id, context.protocol_version, body)
