"""Call tools through the gateway: python examples/mcp/agent.py [http://127.0.0.1:8000]"""

import asyncio
import sys

from mcp import Client
from mcp.shared.exceptions import MCPError


async def called(client: Client, tool: str, arguments: dict[str, str]) -> str:
    try:
        result = await client.call_tool(tool, arguments)
    except MCPError as error:
        return f"refused: {error.message}"
    text = " ".join(part.text for part in result.content if part.type == "text")
    return f"an error: {text}" if result.is_error else text


async def main(gateway: str) -> None:
    async with Client(f"{gateway}/mcp") as client:
        print("tools:", ", ".join(tool.name for tool in (await client.list_tools()).tools))
        print("a note:", await called(client, "notes__read_note", {"name": "meeting"}))
        print("a note with orders:", await called(client, "notes__read_note", {"name": "odd"}))
        print("a slip:", await called(client, "notes__read_note", {"nmae": "meeting"}))
        print("a tool that is not served:", await called(client, "notes__delete_note", {"name": "meeting"}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"))
