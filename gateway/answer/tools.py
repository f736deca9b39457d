"""Which tools a caller may let a model call: decided before anything is generated."""

from __future__ import annotations

from sluicegate.plugins import Caller, PermissionDenied, Request


def check_tools(request: Request, caller: Caller) -> None:
    """Raises `PermissionDenied` that names the first tool which the key may not use."""
    if caller.tools is None:
        return
    for tool in request.tools:
        if tool.name not in caller.tools:
            raise PermissionDenied(
                f"key {caller.key_id!r} may not use the tool {tool.name!r}; it may use: "
                f"{', '.join(sorted(caller.tools)) or 'none'}",
                param="tools",
                code="tool_not_allowed",
            )
