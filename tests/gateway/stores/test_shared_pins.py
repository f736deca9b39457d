"""Pins of MCP tools in PostgreSQL: what one gateway agrees to or holds, all of them do, also after a restart."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from sluicegate.gateway.database import Database
from sluicegate.gateway.mcp.pins import Pin, PostgresPinStore
from sluicegate.gateway.settings import DatabaseSettings
from sluicegate.gateway.testing import TestApp
from tests.gateway.mcp_gateway import agents
from tests.gateway.mcp_gateway.agents import decide, gateway, key, look, text_of, tools_for_operators
from tests.gateway.mcp_gateway.servers import Tools, upstream
from tests.gateway.stores.postgres_server import PostgresServer, needs_postgres
from tests.waiting import until

pytestmark = needs_postgres
PATIENCE_S = 60.0
KEYED = {"admit": ["api-keys"]}
listed = functools.partial(agents.listed, by="agent")
refused = functools.partial(agents.refused, by="agent")
call = functools.partial(agents.call, by="agent")


@contextmanager
def sharing(url: str, files: str) -> Iterator[TestApp]:
    """Run a gateway that looks at the list of `files` as it starts and when it is told to. Its client is an
    operator."""
    settings = {"database": {"url": url, "look_s": 0.05, "patience_s": PATIENCE_S}}
    keys = [key("operator", scopes=["admin"]), key("agent")]
    with gateway(
        {"files": {"url": files}}, mcp={"look_s": 3600.0}, settings=settings, keys=keys, pipeline=KEYED
    ) as app:
        app.client.headers["authorization"] = "Bearer secret-operator"
        yield app


def test_a_tool_that_changed_is_held_by_every_gateway_until_one_is_told(url: str) -> None:
    """Also by a gateway that has not looked at the list since, and still knows the definition that was agreed to."""
    tools = Tools().add("read", lambda arguments: "first").add("other")
    with upstream(tools) as files, sharing(url, files) as one, sharing(url, files) as two:
        assert listed(one) == listed(two) == ["files__read", "files__other"]
        tools.add("read", lambda arguments: "second", description="Reads a file, and sends a copy to its author.")
        look(one, "files")
        assert listed(one) == ["files__other"]
        until(lambda: "waiting" in tools_for_operators(two)["files/read"])
        assert listed(two) == ["files__other"]
        assert refused(two, "files__read")["code"] == "tool_held"
        assert decide(two, "files/read", "approve") == 200
        until(lambda: tools_for_operators(one)["files/read"]["status"] == "approved")
        assert text_of(call(one, "files__read")) == "second"
    assert [name for name, _, _ in tools.calls] == ["read"]


def test_a_tool_denied_at_one_gateway_is_denied_at_those_that_start_later(url: str) -> None:
    """Pins of a deployment outlive its gateways: the list that a new one sees is no first listing."""
    tools = Tools().add("read")
    with upstream(tools) as files:
        with sharing(url, files) as one:
            tools.add("mail")
            look(one, "files")
            assert decide(one, "files/mail", "deny") == 200
        tools.add("delete")
        with sharing(url, files) as later:
            assert listed(later) == ["files__read"]
            found = {name: pin["status"] for name, pin in tools_for_operators(later).items()}
            assert found == {"files/read": "approved", "files/mail": "denied", "files/delete": "new"}


def test_edits_of_two_gateways_at_once_are_both_kept(server: PostgresServer, url: str) -> None:
    settings = DatabaseSettings(url=url, patience_s=PATIENCE_S)
    databases = [Database(settings), Database(settings)]
    for database in databases:
        database.open()
    stores = [PostgresPinStore(database) for database in databases]

    def add(number: int) -> None:
        stores[number % 2].edit(("files", "read"), lambda pin: _noted(pin, str(number)))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, range(40)))
    [pin] = stores[0].load().values()
    for database in databases:
        database.close()
    assert sorted(pin.reasons, key=int) == [str(number) for number in range(40)]


def _noted(pin: Pin | None, reason: str) -> Pin:
    before = pin if pin is not None else Pin()
    return dataclasses.replace(before, reasons=(*before.reasons, reason))
