"""Call tools through the gateway: python examples/mcp/agent.py [http://127.0.0.1:8000]"""

import asyncio
import sys

from mcp import Client
from mcp.shared.exceptions import MCPError


async def main(gateway: str) -> None:
    async with Client(f"{gateway}/mcp") as client:
        print("tools:", ", ".join(tool.name for tool in (await client.list_tools()).tools))
        for name in ("meeting", "odd"):
            try:
                result = await client.call_tool("notes__read_note", {"name": name})
                print(name, "->", result.content)
            except MCPError as error:
                print(name, "-> refused:", error.message)
        found = await client.call_tool("notes__read_note", {"nmae": "meeting"})
        print("a slip ->", found.content)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"))
