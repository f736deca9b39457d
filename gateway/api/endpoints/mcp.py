"""`/mcp/SERVER` and `/mcp`: where agents connect as to an MCP server of streamable HTTP.

GET and DELETE belong to sessions, which there are none of: 405, as the protocol says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from sluicegate.gateway.api.body.parsing import read_json
from sluicegate.gateway.api.body.reader import LARGE, check_values
from sluicegate.gateway.http.api_key import api_key_of
from sluicegate.gateway.http.disconnects import unless_disconnected
from sluicegate.gateway.mcp.agents.bodies import AgentBody
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import RequestError


def add_mcp_routes(router: APIRouter, runtime: Runtime) -> None:
    async def all_servers(request: Request) -> Any:
        """Serve the tools of all MCP servers that the key may use, as `SERVER__TOOL`."""
        return await _answered(runtime, request, "")

    async def one_server(request: Request, server: str) -> Any:
        """Serve the tools of one MCP server."""
        return await _answered(runtime, request, server)

    router.add_api_route("/mcp", all_servers, methods=["POST"], tags=["mcp"])
    router.add_api_route("/mcp/{server}", one_server, methods=["POST"], tags=["mcp"])


async def _answered(runtime: Runtime, request: Request, server: str) -> Response:
    caller = runtime.identify(api_key_of(request))
    mcp_gateway = runtime.mcp_gateway
    runtime.check_ready()
    mcp_gateway.check(caller, server)
    body = await request.body()
    most = runtime.settings.server.max_values
    reading = runtime.workers.run(caller.tenant, len(body), _read, body, most, inline_bytes=LARGE)
    work = mcp_gateway.serve(request.scope, await unless_disconnected(request.scope, request.receive, reading))
    status, headers, answer = await unless_disconnected(request.scope, request.receive, work)
    response = Response(answer, status)
    response.raw_headers = headers
    return response


def _read(body: bytes, most_values: int) -> AgentBody:
    """Read a body. Raises `RequestError`, also for what two readers could read differently."""
    check_values(body, most_values)
    tree = read_json(body)
    _check_id(tree)
    return AgentBody.of(body, tree, LARGE)


def _check_id(message: Mapping[str, Any]) -> None:
    """Check that an `id` is one. Raises `RequestError`: the SDK's server would take the message for a notification,
    accept it, and never answer."""
    found = message.get("id", "")
    if isinstance(found, bool) or not isinstance(found, str | int):
        raise RequestError(
            f"the id of a request is a string or a whole number, found {json.dumps(found)[:40]}",
            param="id",
            code="invalid_request",
        )
