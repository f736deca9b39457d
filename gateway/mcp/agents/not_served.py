"""Refuse by name the features of MCP other than tools.

A server's resource or prompt would reach a model without a pin, a schema or an operator's approval, so none is passed
on; sampling, elicitation and roots would let a server ask an agent's model or user.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp import types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError

KINDS: Mapping[str, str] = {
    "resources": "resources are not served: no pin and no schema says what a server may put before a model; have it "
    "offer a tool that reads them, whose results are screened",
    "prompts": "prompts are not served: their words would be a server's in the place of the user's; keep prompts with "
    "the agent, or have a tool return them",
    "completion": "completions are not served: they belong to prompts and resources",
    "logging": "log messages of servers are not served: no rail reads them",
    "sampling": "sampling is not served: no server may ask an agent's model",
    "elicitation": "elicitation is not served: no server may ask an agent's user",
    "roots": "roots are not served: no server learns of an agent's folders",
    "tasks": "tasks are not served: a call is answered, or fails, while its caller waits",
}
"""Why a method is refused, and what to do instead, by the prefix of its name."""


async def refuse_by_name(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Pass on methods that this gateway serves. Raises `MCPError` (-32601) with a reason for all others."""
    kind, slash, _ = ctx.method.partition("/")
    if slash and kind in KINDS:
        message = f"{ctx.method}: {KINDS[kind]}"
        raise MCPError(
            types.METHOD_NOT_FOUND, message, {"code": "method_not_served", "message": message, "param": kind}
        )
    return await call_next(ctx)
