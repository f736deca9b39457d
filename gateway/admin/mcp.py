"""Tools of MCP servers, for operators: what is served, what waits, and the word that lets it in: `/admin/mcp`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field

from sluicegate.gateway.http.bodies import StrictBody
from sluicegate.gateway.http.guard import name_of, operator_of
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import NotFound

PinVerb = Literal["approve", "deny"]


class PinVerdict(StrictBody):
    """`fingerprint`: of the definition that was read, so that nobody approves what came in its place."""

    fingerprint: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def add_mcp_admin_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.get("/admin/mcp/tools", tags=["admin"])
    async def tools(request: Request, status: Literal["waiting", "all"] = "all") -> Any:
        """List every tool with its pin; `waiting`: only those that an operator has to decide about."""
        operator_of(runtime, request)
        found = runtime.mcp_gateway.catalogue.described()
        return {"data": [one for one in found if status == "all" or "waiting" in one]}

    @router.post("/admin/mcp/servers/{server}/look", tags=["admin"])
    async def look(request: Request, server: str) -> Any:
        """Ask a server for its tools now."""
        by = operator_of(runtime, request)
        async with runtime.audit.change(name_of(by), "mcp.look", server):
            mcp_gateway = runtime.mcp_gateway
            if server not in mcp_gateway.settings.servers:
                raise NotFound(f"there is no MCP server {server[:40]!r} here", code="server_not_found")
            await mcp_gateway.catalogue.refresh(server)
        return {"data": [one for one in mcp_gateway.catalogue.described() if one["server"] == server]}

    @router.post("/admin/mcp/tools/{server}/{tool}/{verb}", tags=["admin"])
    async def decide(request: Request, server: str, tool: str, verb: PinVerb, verdict: PinVerdict) -> Any:
        """Let the definition with `fingerprint` in, or keep it out."""
        who = name_of(operator_of(runtime, request))
        async with runtime.audit.change(who, f"mcp.{verb}", f"{server}/{tool}", fingerprint=verdict.fingerprint):
            pin = await runtime.mcp_gateway.catalogue.decide(server, tool, verdict.fingerprint, verb, who)
        return {"server": server, "tool": tool, "status": pin.status}
