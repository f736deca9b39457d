"""What MCP has besides tools is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from sluicegate.gateway.mcp.agents.not_served import KINDS
from tests.gateway.mcp_gateway.agents import agent, gateway, listed
from tests.gateway.mcp_gateway.servers import Tools, upstream

HEAD = {"accept": "application/json, text/event-stream"}
METHODS = {
    "resources/list": "resources", "resources/templates/list": "resources", "resources/read": "resources",
    "resources/subscribe": "resources", "prompts/list": "prompts", "prompts/get": "prompts",
    "completion/complete": "completion", "logging/setLevel": "logging", "tasks/list": "tasks",
    "sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots",
}  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_what_is_no_tool_is_refused_in_words_of_its_own(method: str) -> None:
    """For a server and for all of them; never with what a server would have answered."""
    with upstream(Tools().add("read")) as url, gateway({"files": {"url": url}}) as app:
        for path in ("/mcp", "/mcp/files"):
            body: dict[str, Any] = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"uri": "x:y", "name": "x"}}
            answer = app.client.post(path, json=body, headers=HEAD).json()
            error = answer["error"]
            assert (answer["id"], error["code"]) == (7, -32601), answer
            assert KINDS[METHODS[method]] in error["message"]
            assert error["data"]["code"] == "method_not_served"


@pytest.mark.parametrize("method", ["nothing/list", "resources", "tools/nothing"])
def test_a_method_that_nobody_knows_is_not_found(method: str) -> None:
    with upstream(Tools().add("read")) as url, gateway({"files": {"url": url}}) as app:
        body = {"jsonrpc": "2.0", "id": 7, "method": method}
        error = app.client.post("/mcp", json=body, headers=HEAD).json()["error"]
    assert "not served" not in error["message"]


def test_a_client_that_asks_for_resources_is_told_and_still_has_its_tools() -> None:
    async def work(client: Client) -> str:
        try:
            await client.list_resources()
        except MCPError as error:
            return error.message
        return "answered"

    with upstream(Tools().add("read")) as url, gateway({"files": {"url": url}}) as app:
        assert "not" in agent(app, work)
        assert listed(app) == ["files__read"]
