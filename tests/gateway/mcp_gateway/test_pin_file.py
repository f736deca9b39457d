"""The file that says which definitions were agreed to."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from sluicegate.gateway.mcp.catalogue import Catalogue
from sluicegate.gateway.mcp.definitions import ToolDefinition
from sluicegate.gateway.mcp.pins import Edit, Names, Pin, SqlitePinStore
from sluicegate.gateway.mcp.settings import McpSettings
from sluicegate.plugins import ConfigurationError, read_settings
from tests.gateway.mcp_gateway.agents import gateway, listed, tools_for_operators
from tests.gateway.mcp_gateway.servers import Tools, upstream
from tests.scale.small_disk import SmallDisk, can_mount
from tests.waiting import until


def test_pins_are_for_the_gateways_user_alone(tmp_path: Path) -> None:
    """Who could write them could agree to a definition in an operator's place."""
    store = SqlitePinStore(tmp_path / "folder" / "pins.sqlite3")
    store.open()
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "folder").iterdir()} == {0}
    store.close()


def test_edits_of_two_processes_at_once_are_both_kept(tmp_path: Path) -> None:
    """One read what the other replaced, and wrote that again: a tool that was denied meanwhile was served."""
    stores = [SqlitePinStore(tmp_path / "pins.sqlite3") for _ in range(2)]
    for store in stores:
        store.open()
    names, has_read, may_write = ("s", "tool"), threading.Event(), threading.Event()

    def counted(pin: Pin | None) -> Pin:
        return dataclasses.replace(pin or Pin(), at_s=(0.0 if pin is None else pin.at_s) + 1)

    def late(pin: Pin | None) -> Pin:
        has_read.set()
        assert may_write.wait(30)
        return counted(pin)

    edits: list[Callable[[], Any]] = [lambda: stores[0].edit(names, late), lambda: stores[1].edit(names, counted)]
    first, second = (threading.Thread(target=edit) for edit in edits)
    first.start()
    assert has_read.wait(30)
    second.start()
    second.join(0.5)
    may_write.set()
    first.join()
    second.join()
    assert stores[0].load()[names].at_s == 2
    for store in stores:
        store.close()


class LateStore(SqlitePinStore):
    """Answers an edit when it is let."""

    def __init__(self) -> None:
        super().__init__(None)
        self.wrote, self.may_answer = threading.Event(), threading.Event()

    def edit(self, names: Names, edit: Edit) -> Pin | None:
        after = super().edit(names, edit)
        self.wrote.set()
        assert self.may_answer.wait(30)
        return after


async def test_what_an_operator_who_leaves_has_denied_is_denied() -> None:
    """It was in the store alone, and the tool was served until the next start."""
    server = {"servers": {"s": {"url": "http://127.0.0.1:9/mcp"}}}
    store, tool = LateStore(), ToolDefinition("s", {"name": "tool", "inputSchema": {"type": "object"}})
    store.open()
    SqlitePinStore.edit(store, ("s", "tool"), lambda pin: Pin(approved=tool.content))
    catalogue = Catalogue(
        read_settings(McpSettings, server, "mcp"), cast(Any, None), store, cast(Any, None), cast(Any, None)
    )
    await catalogue.read_pins()
    catalogue._listings["s"].definitions["tool"] = tool
    assert list(catalogue.served("s")) == ["tool"]
    denial = asyncio.create_task(catalogue.decide("s", "tool", tool.fingerprint, "deny", "operator"))
    await asyncio.to_thread(store.wrote.wait, 30)
    denial.cancel()
    store.may_answer.set()
    with pytest.raises(asyncio.CancelledError):
        await denial
    async with catalogue._storing:
        assert list(catalogue.served("s")) == []


def test_pins_on_a_full_disk_change_nothing_and_are_named_until_there_is_room(tmp_path: Path) -> None:
    if not can_mount():
        pytest.skip("no file system can be mounted here, so that no disk can be filled")
    tools, disk = Tools().add("fine").add("other"), SmallDisk(tmp_path / "disk", 1)
    table = {"path": str(tmp_path / "disk" / "pins.sqlite3"), "look_s": 0.2}
    quiet = {"server": {"min_free_bytes": 0}}
    try:
        with upstream(tools) as url, gateway({"s": {"url": url, "first": "trust"}}, mcp=table, settings=quiet) as app:
            found = tools_for_operators(app)["s/fine"]["approved"]["fingerprint"]
            disk.fill()
            deny = "/admin/mcp/tools/s/fine/deny"
            refused = app.client.post(deny, json={"fingerprint": found})
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "database_unavailable")
            assert "mcp: pins are not stored" in app.client.get("/readyz").text
            tools.add("other", description="Does something else.")
            assert app.client.post("/admin/mcp/servers/s/look").status_code == 503
            assert listed(app) == ["s__fine"]
            disk.free()
            until(lambda: app.client.get("/readyz").text == "ready")
            assert app.client.post(deny, json={"fingerprint": found}).status_code == 200
            assert listed(app) == []
    finally:
        disk.unmount()


def test_a_file_that_cannot_be_made_says_what_to_do(tmp_path: Path) -> None:
    """It was called unreadable, to be put back from a backup, where there had never been one."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="in a folder, that the gateway's user may write"):
        SqlitePinStore(tmp_path / "file" / "pins.sqlite3").open()
    (tmp_path / "damaged").write_bytes(b"x" * 4096)
    with pytest.raises(ConfigurationError, match=r"is damaged .* bring its last copy back"):
        SqlitePinStore(tmp_path / "damaged").open()
