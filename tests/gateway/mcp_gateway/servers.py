"""MCP servers as an attacker, or a careless author, would run them: real ones, of the SDK, on sockets of their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mcp import types
from mcp.server.lowlevel import Server

from tests.gateway.serving import serving

ANYTHING: Mapping[str, Any] = {"type": "object"}
Answer = Callable[[dict[str, Any]], Any]


class Tools:
    """Tools of one server, which a test may change while it runs. `calls`: (tool, arguments, `_meta`) of each call."""

    def __init__(self) -> None:
        self.tools: dict[str, dict[str, Any]] = {}
        self.answers: dict[str, Answer] = {}
        self.calls: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
        self.headers: list[dict[str, str]] = []

    def add(
        self,
        name: str,
        answer: Answer = lambda arguments: "done",
        *,
        description: str = "Does its work.",
        schema: Mapping[str, Any] = ANYTHING,
        output: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Tools:
        self.tools[name] = {"name": name, "description": description, "inputSchema": dict(schema), **more}
        if output is not None:
            self.tools[name]["outputSchema"] = dict(output)
        self.answers[name] = answer
        return self

    def server(self) -> Server[Any]:
        made: Server[Any] = Server("upstream", version="1", on_list_tools=self._list, on_call_tool=self._call)
        made.middleware.clear()
        return made

    async def _list(self, context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool.model_validate(one) for one in self.tools.values()])

    async def _call(self, context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        arguments = params.arguments or {}
        self.calls.append((params.name, arguments, dict(context.meta or {})))
        if context.request is not None:
            self.headers.append(dict(context.request.headers))
        found = self.answers[params.name](arguments)
        if isinstance(found, Awaitable):
            found = await found
        if isinstance(found, types.CallToolResult):
            return found
        if isinstance(found, dict):
            text = types.TextContent(type="text", text=str(found))
            return types.CallToolResult(content=[text], structured_content=found)
        return types.CallToolResult(content=[types.TextContent(type="text", text=str(found))])


@contextmanager
def upstream(tools: Tools) -> Iterator[str]:
    """Run an MCP server over streamable HTTP; yield its address."""
    with serving(tools.server().streamable_http_app()) as url:
        yield f"{url}/mcp"
