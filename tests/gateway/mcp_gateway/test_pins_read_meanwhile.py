"""Pins are read again when another gateway changed one, while operators of this gateway decide."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import cast

from sluicegate.gateway.mcp.catalogue import Catalogue
from sluicegate.gateway.mcp.definitions import ToolDefinition, definition_of
from sluicegate.gateway.mcp.pins import Names, Pin, SqlitePinStore, updated_pin
from sluicegate.gateway.mcp.servers.connections import McpUpstreams
from sluicegate.gateway.mcp.settings import McpServerSettings, McpSettings

WIRE = {"name": "read", "description": "Reads a file.", "inputSchema": {"type": "object"}}


class SlowStore(SqlitePinStore):
    """Holds what was loaded until it may go, from `slow_down` on."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.has_read, self.may_go = threading.Event(), threading.Event()
        self.may_go.set()

    def slow_down(self) -> None:
        self.has_read.clear()
        self.may_go.clear()

    def load(self) -> dict[Names, Pin]:
        found = super().load()
        self.has_read.set()
        assert self.may_go.wait(60)
        return found


async def test_a_decision_made_while_pins_are_read_stays(tmp_path: Path) -> None:
    """What was read before it must not come after it: a tool that was denied would be served for a moment."""
    store, definition = SlowStore(tmp_path / "pins.sqlite3"), definition_of("files", WIRE)
    store.open()
    store.edit(("files", "read"), lambda _: updated_pin(None, definition, (), trusted=True))
    settings = McpSettings(servers={"files": McpServerSettings(url="http://127.0.0.1:9/mcp")})
    catalogue = Catalogue(settings, cast("McpUpstreams", None), store, _no_reasons, _nobody_hears)

    store.slow_down()
    reading = asyncio.create_task(catalogue.read_pins())
    await asyncio.to_thread(store.has_read.wait, 60)
    deciding = asyncio.create_task(catalogue.decide("files", "read", definition.fingerprint, "deny", "operator"))
    await asyncio.wait({deciding}, timeout=0.1)  # it may have to wait for the reading, which waits for us
    store.may_go.set()
    await asyncio.gather(reading, deciding)

    assert [tool["status"] for tool in catalogue.described()] == ["denied"]
    store.close()


async def _no_reasons(_: ToolDefinition) -> tuple[str, ...]:
    return ()


async def _nobody_hears(server: str, tool: str, pin: Pin) -> None: ...
