"""The gateway between agents and MCP servers: decide who may see which tool, and route calls."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol

from starlette.types import Scope

from sluicegate.gateway.accounts.limits.runs import MARK, RunMark, mark_of, mark_of_headers
from sluicegate.gateway.audit import AuditTrail
from sluicegate.gateway.database import Database
from sluicegate.gateway.http.api_key import api_key_of
from sluicegate.gateway.mcp.agents.bodies import AgentBody
from sluicegate.gateway.mcp.calls import DEPTH, RUN, ToolCallRequest, ToolCalls
from sluicegate.gateway.mcp.catalogue import Catalogue
from sluicegate.gateway.mcp.definitions import ToolDefinition
from sluicegate.gateway.mcp.errors import unknown_server, unknown_tool
from sluicegate.gateway.mcp.own_tools import OWN_TOOLS, OwnToolCaller, OwnTools
from sluicegate.gateway.mcp.pins import Pin, PinStore, PostgresPinStore, SqlitePinStore
from sluicegate.gateway.mcp.screening import reasons_against
from sluicegate.gateway.mcp.servers.connections import McpUpstreams, import_sdk_module
from sluicegate.gateway.mcp.settings import OWN, SEPARATOR, McpSettings
from sluicegate.gateway.request.pipeline import Pipeline
from sluicegate.gateway.telemetry import parent_context
from sluicegate.plugins import Caller, Trouble

log = logging.getLogger("sluicegate.mcp")
Identify = Callable[[str | None], Caller]


class AgentCallLike(Protocol):
    """The interface of `agents.server.AgentCall`, which cannot be imported without the extra `mcp`."""

    @property
    def server(self) -> str: ...

    @property
    def http(self) -> Any: ...

    @property
    def meta(self) -> Mapping[str, Any]: ...

    @property
    def request_id(self) -> str: ...

    @property
    def protocol(self) -> str: ...

    @property
    def body(self) -> AgentBody: ...


class McpGateway:
    """Serves agents. Built by `compose` if the configuration names MCP servers or enables the gateway's own tools."""

    def __init__(
        self,
        settings: McpSettings,
        pipeline: Pipeline,
        identify: Identify,
        audit: AuditTrail,
        database: Database | None,
        max_body_bytes: int,
    ) -> None:
        """Assemble the parts. Raises `ConfigurationError` if the extra is not installed."""
        self.settings = settings
        self._pipeline = pipeline
        self._identify = identify
        self._audit = audit
        self._upstreams = McpUpstreams(settings.servers)
        self.catalogue = Catalogue(settings, self._upstreams, _store(settings, database), self._reasons, self._on_hold)
        self._calls = ToolCalls(settings, self.catalogue, self._upstreams, pipeline)
        self._own = OwnTools(pipeline) if settings.own_tools else None
        self._server = import_sdk_module("agents.server").AgentServer(self, max_body_bytes)

    async def start(self) -> None:
        """Start the servers and read their lists of tools. Raises `ConfigurationError`."""
        if self.settings.servers and not self.settings.path and isinstance(self.catalogue.store, SqlitePinStore):
            log.warning("[mcp] has no path: pins of tools are forgotten at the end")
        self._upstreams.start()
        await self._server.start()
        await self.catalogue.start()

    async def close(self) -> None:
        await self.catalogue.close()
        await self._server.close()
        await self._upstreams.close()

    async def serve(self, scope: Scope, body: AgentBody) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Answer one POST of an agent."""
        return await self._server.serve(scope, body)  # type: ignore[no-any-return]

    def check(self, caller: Caller, server: str) -> None:
        """Check that the caller may see `server`; "" = all. Raises `NotFound` for an unknown server, or one hidden from
        this caller."""
        if server and server not in self._visible(caller):
            raise unknown_server(server)

    # --- called by the SDK's server -------------------------------------------------------------------------------

    def list_tools(self, call: AgentCallLike) -> list[tuple[str, ToolDefinition]]:
        """Return (name, definition) of every tool that the caller may use; at `/mcp` names have their server's
        prefix."""
        caller = self._identify(api_key_of(call.http))
        found = []
        for server in [call.server] if call.server else self._visible(caller):
            for name, definition in self._tools(server).items():
                if may_use(caller, server, name, is_open=self._is_open(server)):
                    found.append((name if call.server else f"{server}{SEPARATOR}{name}", definition))
        return found

    async def call_tool(self, call: AgentCallLike, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        key = api_key_of(call.http)
        caller = self._identify(key)
        server, tool = (call.server, name) if call.server else _split_name(name)
        self.check(caller, server)
        if not may_use(caller, server, tool, is_open=self._is_open(server)):
            raise unknown_tool(server, tool)
        mark = _mark(call)
        MARK.set(mark)
        told = {"traceparent": str(call.meta["traceparent"])} if "traceparent" in call.meta else call.http.headers
        parent = parent_context(told)
        if server == OWN:
            assert self._own is not None
            return await self._own.call(tool, arguments, OwnToolCaller(caller.tenant, key, parent, call.body.nbytes))
        nbytes = call.body.nbytes
        asked = ToolCallRequest(
            server, tool, arguments, caller, mark, key, parent, call.request_id, call.protocol, nbytes
        )
        return await self._calls.call(asked)

    # --- for operators --------------------------------------------------------------------------------------------

    def troubles(self) -> Sequence[Trouble]:
        return self.catalogue.troubles()

    def stats(self) -> Mapping[str, float]:
        return {**self.catalogue.stats(), **self._calls.counts, "connections": float(len(self._upstreams))}

    async def _on_hold(self, server: str, tool: str, pin: Pin) -> None:
        held = pin.held(server)
        fingerprint = held.fingerprint if held is not None else ""
        facts = {"fingerprint": fingerprint, "reasons": [reason[:200] for reason in pin.reasons[:8]]}
        await self._audit.note("this process", "mcp.hold", f"{server}/{tool}", **facts)

    async def _reasons(self, definition: ToolDefinition) -> tuple[str, ...]:
        return await reasons_against(self._pipeline, definition)

    def _visible(self, caller: Caller) -> list[str]:
        """Return the servers of which the caller may use at least one tool."""
        names = [*self.settings.servers, *([OWN] if self._own is not None else [])]
        return [name for name in names if may_use(caller, name, None, is_open=self._is_open(name))]

    def _is_open(self, server: str) -> bool:
        return server == OWN or self.settings.servers[server].open

    def _tools(self, server: str) -> Mapping[str, ToolDefinition]:
        return OWN_TOOLS if server == OWN else self.catalogue.served(server)


def may_use(caller: Caller, server: str, tool: str | None, *, is_open: bool) -> bool:
    """Return whether a pattern of the key's `mcp` (`server`, `server/tool`, `*` for any characters) matches. `tool`
    None: any tool of the server."""
    if caller.mcp is None:
        return is_open
    for pattern in caller.mcp:
        wanted, _, tools = pattern.partition("/")
        if fnmatchcase(server, wanted) and (tool is None or not tools or fnmatchcase(tool, tools)):
            return True
    return False


def _split_name(name: str) -> tuple[str, str]:
    """Split a name in the list of all servers into (server, tool). Raises `NotFound`."""
    server, between, tool = name.partition(SEPARATOR)
    if not between or not server:
        raise unknown_tool("(any)", name)
    return server, tool


def _mark(call: AgentCallLike) -> RunMark:
    """Return the run's mark from the body, completed from the headers."""
    mark = mark_of_headers(dict(call.http.scope["headers"]))
    if RUN in call.meta or DEPTH in call.meta:
        return mark_of(str(call.meta.get(RUN, mark.run)), call.meta.get(DEPTH, mark.depth))
    return mark


def _store(settings: McpSettings, database: Database | None) -> PinStore:
    if database is not None:
        return PostgresPinStore(database)
    return SqlitePinStore(Path(settings.path) if settings.path else None)
