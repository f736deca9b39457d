"""Errors of tool calls. Each says what to do, and quotes nothing that a server sent."""

from __future__ import annotations

from collections.abc import Mapping

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
    """Raised for a tool whose definition is new, changed or suspicious, until an operator approves it."""

    code = "tool_held"

    def __init__(self, server: str, tool: str) -> None:
        super().__init__(
            f"the tool {tool!r} of the MCP server {server!r} waits for an operator: its definition is not the one that "
            "was agreed to; GET /admin/mcp/tools says why",
            param="name",
        )


class InvalidArguments(RequestError):
    """Raised for arguments that violate a tool's input schema; nothing was sent."""

    code = "invalid_arguments"

    def __init__(self, server: str, tool: str, complaint: str) -> None:
        super().__init__(
            f"the arguments do not satisfy the inputSchema of {server}/{tool}: {complaint}", param="arguments"
        )


class InvalidResult(UpstreamFailed):
    """Raised for a result that violates the tool's own output schema."""

    code = "invalid_result"

    def __init__(self, server: str, tool: str, complaint: str) -> None:
        super().__init__(f"the result of {server}/{tool} does not satisfy its outputSchema: {complaint}")


class ResultTooLong(UpstreamFailed):
    """Raised for a result of more characters than a rail reads."""

    code = "invalid_result"

    def __init__(self, server: str, tool: str) -> None:
        super().__init__(
            f"the result of {server}/{tool} is longer than the safety checks read, and is not passed on: ask the tool "
            "for less at a time"
        )


class CarriedOver(PermissionDenied):
    """Raised for arguments that contain text of another server's result, which this server may not get."""

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
    """Raised for a call whose arguments a rail refuses."""

    code = "content_filter"

    def __init__(self, server: str, tool: str, explanation: str, reason: str = "") -> None:
        """Build the error. `explanation`: for the caller; `reason`: for operators, with the source of a target."""
        super().__init__(f"the call of {server}/{tool} was not sent: {explanation}", param="arguments")
        self.reason = reason


class StoppedAnswer(RequestError):
    """Raised where a rail stopped the answer that `generate` made, or wants a person to look at it."""

    code = "content_filter"
    kind = "content_policy_violation"

    def __init__(self, refusal: str, review: Mapping[str, str] | None) -> None:
        """Build the error. `review`: id, url and status of the review that has to be decided, if there is one."""
        super().__init__(refusal if review is None else f"{refusal} Ask {review['url']} for the outcome.")
        if review is not None:
            self.code, self.review = "pending_review", review
