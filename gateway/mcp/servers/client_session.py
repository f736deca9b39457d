"""Use the SDK's client to connect, list and call, without anything that it would do on its own.

Answers are not validated here: a server's schema never runs on the event loop. Requests of a server to the caller's
model or user (sampling, elicitation) are refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from mcp import Client, types
from mcp.client.session import ClientSession
from pydantic import TypeAdapter

from sluicegate import __version__
from sluicegate.gateway.mcp.servers.transports import transport_of
from sluicegate.gateway.mcp.servers.watch import ConnectionStats as ConnectionStats
from sluicegate.gateway.mcp.settings import McpServerSettings

RESULT: TypeAdapter[Any] = TypeAdapter(types.CallToolResult | types.InputRequiredResult)


@contextlib.asynccontextmanager
async def connected(settings: McpServerSettings, watch: ConnectionStats) -> AsyncIterator[ClientSession]:
    """Connect with the newest protocol revision that both sides support, and yield the session."""
    ours = types.Implementation(name="sluicegate", version=__version__)
    async with Client(transport_of(settings, watch), mode="auto", cache=None, client_info=ours) as client:
        yield client.session


async def listed(session: ClientSession, most_pages: int, most_tools: int) -> list[Mapping[str, Any]]:
    """Return every tool in its wire form, up to the page that brings more than `most_tools`: each page is read on the
    event loop, one of a megabyte takes up to 0.2 s of it. Raises `ValueError` for more than `most_pages` pages, and for
    a cursor that comes again."""
    found: list[Mapping[str, Any]] = []
    cursor: str | None = None
    seen = set[str]()
    for _ in range(most_pages):
        page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
        found += [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in page.tools]
        cursor = page.next_cursor
        if cursor is None or len(found) > most_tools:
            return found
        if cursor in seen:
            raise ValueError("a list of tools whose pages go in a circle")
        seen.add(cursor)
    raise ValueError(f"a list of tools of more than {most_pages} pages")


async def called(
    session: ClientSession, tool: str, arguments: Mapping[str, Any], meta: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Call a tool and return the result in its wire form. Raises `MCPError`, or `ValueError` if the answer is not a
    result."""
    params = types.CallToolRequestParams.model_validate(
        {"name": tool, "arguments": dict(arguments), "_meta": dict(meta)}
    )
    result = await session.send_request(types.CallToolRequest(params=params), RESULT)
    if isinstance(result, types.InputRequiredResult):
        raise ValueError("the server wants to ask a person, which this gateway does not pass on")
    found: dict[str, Any] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    if result.structured_content is not None:
        found["structuredContent"] = result.structured_content  # as sent: the dump would write NaN and infinity as null
    return found
