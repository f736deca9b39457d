"""Define the settings of MCP servers: the table `[mcp]`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from sluicegate.plugins import Within
from sluicegate.plugins.addresses import check_address
from sluicegate.plugins.contract.disk_paths import ReadFolder, WrittenDatabase

OWN = "sluicegate"
"""Name of the server with this gateway's own tools."""
SEPARATOR = "__"
"""Separates server and tool in names at `/mcp`, where all servers are one."""
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class McpServerSettings:
    """One server; exactly one of `url` and `command` is set."""

    url: str = ""
    """Address of a server that speaks streamable HTTP."""
    command: tuple[str, ...] = ()
    """Program and arguments of a server that speaks over standard input and output."""
    cwd: ReadFolder = ""
    """Working directory of `command`; empty = the gateway's."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment of `command` besides PATH, HOME and the like; nothing else of the gateway's own is passed on."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent to `url` with each request; callers' own keys never are."""
    tools: tuple[str, ...] | None = None
    """Tools that are served, `*` for any characters; None = all."""
    open: bool = True
    """Whether keys without `mcp` may use it; False: only keys whose `mcp` names it."""
    takes_from: tuple[str, ...] = ()
    """Other servers whose results may occur in arguments sent to this one; `*` = any."""
    share: Literal["tenant", "all"] = "tenant"
    """Who shares one connection, or process."""
    first: Literal["trust", "hold"] = "trust"
    """What its first listing means: its tools are pinned as they are, or each waits for an operator."""
    timeout_s: Annotated[float, Within(0.05, 3600)] = 60.0
    """How long a call may take."""
    start_s: Annotated[float, Within(0.05, 600)] = 15.0
    """How long connecting and listing may take."""
    idle_s: Annotated[float, Within(1, 86_400)] = 300.0
    """A connection that nobody used for so long is closed."""
    concurrency: Annotated[int, Within(1, 10_000)] = 16
    """Calls that run at the same time; further ones are refused."""
    max_connections: Annotated[int, Within(1, 10_000)] = 64
    """Connections to this server; calls that would need another get a 503."""
    max_result_bytes: Annotated[int, Within(1024, 256 * 1024**2)] = 1024**2
    """Maximum bytes of one message of the server, a result or a list."""
    media: bool = False
    """Pass on images, sound and files, which no rail reads; False: a line of text says what was left out."""

    def __post_init__(self) -> None:
        if bool(self.url) == bool(self.command):
            raise ValueError("an MCP server needs exactly one of `url` and `command`")
        if self.url:
            check_address("url", self.url)
        if self.tools == ():
            raise ValueError("tools is an empty list, which may mean none or all; leave it out for all, or name some")


@dataclass(frozen=True, slots=True)
class McpSettings:
    """Servers whose tools agents may call through this gateway; none and no own tools = `/mcp` is off."""

    servers: Mapping[str, McpServerSettings] = field(default_factory=dict)
    """By name: lower-case letters, digits and hyphens."""
    own_tools: bool = False
    """Serve `generate` and `screen` as MCP tools."""
    path: WrittenDatabase = ""
    """SQLite file with the pins of tools; empty = kept in memory, so that each start is a first listing."""
    look_s: Annotated[float, Within(0.1, 86_400)] = 60.0
    """How often a server is asked for its list of tools."""
    max_tools: Annotated[int, Within(1, 10_000)] = 256
    """Maximum tools of one server; further ones are left out, with a line in the log."""
    max_definition_bytes: Annotated[int, Within(256, 4 * 1024**2)] = 65_536
    """Maximum bytes of one tool's name, description and schemas together."""
    carried_chars: Annotated[int, Within(12, 100_000)] = 40
    """Consecutive characters of another server's result that count as carried over."""

    def __post_init__(self) -> None:
        for name in self.servers:
            if not _NAME.fullmatch(name) or name == OWN:
                raise ValueError(
                    f"[mcp.servers.{name[:40]!r}]: a server's name is 1 to 32 lower-case letters, digits and hyphens, "
                    f"and not {OWN!r}"
                )
        for name, server in self.servers.items():
            unknown = sorted(set(server.takes_from) - {*self.servers, OWN, "*"})
            if unknown:
                raise ValueError(f"[mcp.servers.{name}] takes_from names {unknown[0]!r}, which is no server here")

    @property
    def enabled(self) -> bool:
        return bool(self.servers) or self.own_tools
