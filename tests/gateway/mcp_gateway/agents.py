"""Agents that reach MCP servers through the gateway: the SDK's own client, over sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import httpx2
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from sluicegate.gateway.testing import TestApp

T = TypeVar("T")
NOTHING: Mapping[str, str] = {}


def gateway(servers: Mapping[str, Any], **options: Any) -> TestApp:
    """Make a gateway in front of MCP servers. `mcp` is what else the table says."""
    table = {"servers": {name: dict(one) for name, one in servers.items()}, **options.pop("mcp", {})}
    settings = {"mcp": table, **options.pop("settings", {})}
    return TestApp(settings=settings, **options)


def key(id: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "key": f"secret-{id}", **more}


def agent(
    app: TestApp,
    work: Callable[[Client], Awaitable[T]],
    *,
    server: str = "",
    by: str = "",
    mode: str = "auto",
    headers: Mapping[str, str] = NOTHING,
) -> T:
    """Return what `work` gives with a client that is connected to `/mcp` or `/mcp/SERVER` with a key. Raises
    `MCPError`."""
    sent = {**headers, **({"authorization": f"Bearer secret-{by}"} if by else {})}

    async def run() -> T | MCPError:
        async with httpx2.AsyncClient(headers=sent, timeout=60, trust_env=False) as http:
            transport = streamable_http_client(f"{app.url}/mcp{'/' + server if server else ''}", http_client=http)
            async with Client(transport, mode=mode, cache=None) as client:
                try:
                    return await work(client)
                except MCPError as error:  # the client's task groups would wrap it
                    return error

    found = asyncio.run(run())
    if isinstance(found, MCPError):
        raise found
    return found


def listed(app: TestApp, **options: Any) -> list[str]:
    async def work(client: Client) -> list[str]:
        return [tool.name for tool in (await client.list_tools()).tools]

    return agent(app, work, **options)


def call(
    app: TestApp,
    name: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    run: str = "",
    depth: int = 0,
    **options: Any,
) -> types.CallToolResult:
    """Call a tool as an agent does. Raises `MCPError`."""
    meta: Any = {name: value for name, value in (("sluicegate/run", run), ("sluicegate/depth", depth)) if value}

    async def work(client: Client) -> types.CallToolResult:
        return await client.call_tool(name, dict(arguments or {}), meta=meta or None)

    return agent(app, work, **options)


def refused(app: TestApp, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    """Return the typed error that a call is answered with."""
    try:
        result = call(app, name, arguments, **options)
    except MCPError as failure:
        return dict(failure.data or {"code": failure.message})
    assert result.is_error, f"{name} was called: {result}"
    assert result.meta is not None
    return dict(result.meta["sluicegate/error"])


def text_of(result: types.CallToolResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, types.TextContent))


def tools_for_operators(app: TestApp, status: str = "all", **headers: str) -> dict[str, dict[str, Any]]:
    answer = app.client.get(f"/admin/mcp/tools?status={status}", headers=headers)
    assert answer.status_code == 200, answer.text
    return {f"{one['server']}/{one['tool']}": one for one in answer.json()["data"]}


def decide(app: TestApp, name: str, verb: str, fingerprint: str | None = None) -> int:
    server, tool = name.split("/")
    if fingerprint is None:
        fingerprint = tools_for_operators(app)[name]["waiting"]["fingerprint"]
    answer = app.client.post(f"/admin/mcp/tools/{server}/{tool}/{verb}", json={"fingerprint": fingerprint})
    return int(answer.status_code)


def look(app: TestApp, server: str) -> None:
    assert app.client.post(f"/admin/mcp/servers/{server}/look").status_code == 200
