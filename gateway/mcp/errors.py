"""What is refused on the way to a tool, as typed errors; each says what to do, and quotes nothing of a server's."""

from __future__ import annotations

from sluicegate.plugins import NotFound, PermissionDenied, RequestError, UpstreamFailed


def unknown_server(name: str) -> NotFound:
    return NotFound(f"there is no MCP server {name[:40]!r} here, or this key may not use it", code="server_not_found")


def unknown_tool(server: str, tool: str) -> NotFound:
    return NotFound(
        f"the MCP server {server!r} has no tool {tool[:64]!r}, or this key may not use it; ask tools/list",
        param="name",
        code="tool_not_found",
    )


class ToolHeld(PermissionDenied):
    """Its definition is new or another one than was agreed to, or something about it is suspicious."""

    code = "tool_held"

    def __init__(self, server: str, tool: str) -> None:
        super().__init__(
            f"the tool {tool!r} of the MCP server {server!r} waits for an operator: its definition is not the one that "
            "was agreed to; GET /admin/mcp/tools says why",
            param="name",
        )


class InvalidArguments(RequestError):
    """Arguments that a tool's schema refuses; nothing was sent."""

    code = "invalid_arguments"

    def __init__(self, server: str, tool: str, complaint: str) -> None:
        super().__init__(
            f"the arguments do not satisfy the inputSchema of {server}/{tool}: {complaint}", param="arguments"
        )


class InvalidResult(UpstreamFailed):
    """A result that a tool's own outputSchema refuses."""

    code = "invalid_result"

    def __init__(self, server: str, tool: str, complaint: str) -> None:
        super().__init__(f"the result of {server}/{tool} does not satisfy its outputSchema: {complaint}")


class CarriedOver(PermissionDenied):
    """Arguments hold what another server returned, which this server may not be sent."""

    code = "carried_over"

    def __init__(self, server: str, source: str, characters: int) -> None:
        self.source = source
        origin = source.partition("/")[0]
        super().__init__(
            f"the arguments hold {characters} characters or more of what {source} returned; results of {origin!r} may "
            f"not be sent to {server!r} unless [mcp.servers.{server}] takes_from names it",
            param="arguments",
        )


class UntrustedTarget(PermissionDenied):
    """A rail refuses the arguments of a call."""

    code = "content_filter"

    def __init__(self, server: str, tool: str, said: str, reason: str = "") -> None:
        """Say that a call was not sent. `reason`: for operators, with the source of a target."""
        super().__init__(f"the call of {server}/{tool} was not sent: {said}", param="arguments")
        self.reason = reason
