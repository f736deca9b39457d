"""The protocol's SDK, as a client of the gateway: of its own tools, and of those of a server behind it."""

from features import MCP, feature, run
from mcp import Client
from mcp.shared.exceptions import MCPError


@feature("tools listed")
async def listed() -> None:
    async with Client(f"{MCP}/mcp") as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
    assert any(name.startswith("notes") for name in names), names
    assert any("screen" in name for name in names), names


@feature("tool of the gateway called")
async def screen() -> None:
    async with Client(f"{MCP}/mcp") as client:
        [name] = [tool.name for tool in (await client.list_tools()).tools if "screen" in tool.name]
        found = await client.call_tool(name, {"text": "a harmless word"})
    assert not found.is_error, found


@feature("tool of a server called")
async def notes() -> None:
    async with Client(f"{MCP}/mcp") as client:
        tools = (await client.list_tools()).tools
        [name] = [tool.name for tool in tools if tool.name.startswith("notes") and "list" in tool.name]
        found = await client.call_tool(name, {})
    assert not found.is_error, found


@feature("errors", raises="no tool 'nope'")
async def errors() -> None:
    said = ""
    async with Client(f"{MCP}/mcp") as client:
        try:
            await client.call_tool("nope", {})
        except MCPError as error:  # else it comes wrapped in a group
            said = str(error)
    raise RuntimeError(said)


run()
