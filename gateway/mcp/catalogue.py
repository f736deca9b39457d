"""Compare each server's list of tools with its pins: serve tools that match an approved pin, hold all others."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from sluicegate.gateway.database import DatabaseUnavailable, unavailable
from sluicegate.gateway.mcp.definitions import ToolDefinition, complaint, definition_of, suspicions
from sluicegate.gateway.mcp.errors import ToolHeld, unknown_tool
from sluicegate.gateway.mcp.pins import Edit, Names, Pin, PinStore, updated_pin
from sluicegate.gateway.mcp.schemas import CompiledSchemas
from sluicegate.gateway.mcp.servers.connections import McpUpstream, McpUpstreams
from sluicegate.gateway.mcp.settings import McpSettings
from sluicegate.plugins import NotFound, Overloaded, RequestError, Trouble, UpstreamFailed
from sluicegate.plugins.concurrency.ending import end_tasks

log = logging.getLogger("sluicegate.mcp")
CATALOGUE = "\0catalogue"
"""The tenant of the connections used for listing."""
FIRST = "first listing"
Reasons = Callable[[ToolDefinition], Awaitable[tuple[str, ...]]]
"""Returns the rails' reasons against a definition."""
OnHold = Callable[[str, str, Pin], Awaitable[None]]
"""(server, tool, pin): called when a tool begins to wait."""


@dataclass(slots=True)
class Listing:
    """The newest list of one server. Mutable."""

    definitions: dict[str, ToolDefinition] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    """Tools that cannot be approved, and why."""
    listed_s: float | None = None
    trouble: str = ""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Catalogue:
    """Lists the servers' tools and keeps their pins. Used on the event loop."""

    def __init__(
        self, settings: McpSettings, upstreams: McpUpstreams, store: PinStore, reasons: Reasons, on_hold: OnHold
    ) -> None:
        self.schemas = CompiledSchemas()
        self._settings = settings
        self._upstreams = upstreams
        self.store = store
        self._reasons = reasons
        self._on_hold = on_hold
        self._pins: dict[Names, Pin] = {}
        self._not_stored = ""
        """Why the newest edit of a pin was not stored; "" where it was."""
        self._storing = asyncio.Lock()
        """Held until `_pins` has the store's answer, so that no older read overwrites a newer edit."""
        self._listings = {name: Listing() for name in settings.servers}
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Read the pins, then all lists; a server that does not answer does not prevent the start. Raises
        `ConfigurationError`."""
        await asyncio.to_thread(self.store.open)
        await self.read_pins()
        await asyncio.gather(*(self._refresh_list(name) for name in self._listings))
        for name in self._listings:  # after all lists: a description may mention any server's tools
            with contextlib.suppress(Overloaded):  # what is not pinned is not served, and `/readyz` says why
                await self._compare_with_pins(name)
        self._tasks = [asyncio.create_task(self._refresh_forever(name)) for name in self._listings]

    async def close(self) -> None:
        await end_tasks(self._tasks)
        await asyncio.to_thread(self.store.close)

    async def read_pins(self) -> None:
        """Read the pins again, after another gateway changed them."""
        async with self._storing:
            self._pins = await asyncio.to_thread(self.store.load)

    async def _edit(self, names: Names, edit: Callable[[Pin | None], Pin]) -> Pin:
        """Store a pin, then go by it; both, where the caller leaves meanwhile. Raises `Overloaded` if it cannot be
        stored, and nothing has changed then."""
        pin = await self._edit_or_drop(names, edit)
        assert pin is not None
        return pin

    async def _edit_or_drop(self, names: Names, edit: Edit) -> Pin | None:
        """Do as `_edit`; drop the pin where `edit` returns None."""
        return await asyncio.shield(asyncio.create_task(self._edited(names, edit)))

    async def _edited(self, names: Names, edit: Edit) -> Pin | None:
        async with self._storing:
            try:
                pin = await asyncio.to_thread(self.store.edit, names, edit)
            except DatabaseUnavailable as error:
                if not self._not_stored:
                    log.error("pins of MCP tools are not stored: %s", error)
                self._not_stored = str(error)
                raise unavailable("pins of MCP tools") from error
            self._not_stored = ""
            if pin is None:
                self._pins.pop(names, None)
            else:
                self._pins[names] = pin
        return pin

    def served(self, server: str) -> dict[str, ToolDefinition]:
        """Return the tools that are listed now and whose definition is approved."""
        found = {}
        for name, definition in self._listings[server].definitions.items():
            if self._is_approved(server, name, definition):
                found[name] = definition
        return found

    def tool(self, server: str, tool: str) -> ToolDefinition:
        """Return the definition of a tool. Raises `ToolHeld`, `NotFound`, or `UpstreamFailed` if the server has never
        listed its tools."""
        listing = self._listings[server]
        if listing.listed_s is None:
            raise UpstreamFailed(f"the MCP server {server!r} cannot be asked for its tools: {listing.trouble}")
        definition = listing.definitions.get(tool)
        if definition is not None and self._is_approved(server, tool, definition):
            return definition
        pin = self._pins.get((server, tool))
        if tool in listing.refused or (pin is not None and (definition is not None or pin.waiting is not None)):
            raise ToolHeld(server, tool)
        raise unknown_tool(server, tool)

    async def refresh(self, server: str) -> None:
        """Ask a server for its list now, and compare it with the pins. Raises `Overloaded` where they cannot be
        stored."""
        await self._refresh_list(server)
        await self._compare_with_pins(server)

    async def compare(self, upstream: McpUpstream) -> None:
        """Compare what a new connection lists with the pins: a server that was started again may be another one. Raises
        `UpstreamFailed`, or `Overloaded` where pins cannot be stored."""
        if upstream.is_compared:
            return
        listing = self._listings[upstream.name]
        async with listing.lock:
            if not upstream.is_compared:
                before = {name: one.fingerprint for name, one in listing.definitions.items()}
                self._take(upstream.name, await upstream.tools(self._settings.max_tools))
                if before == {name: one.fingerprint for name, one in listing.definitions.items()}:
                    upstream.is_compared = True
                    return
        await self._compare_with_pins(upstream.name)
        upstream.is_compared = True

    async def decide(self, server: str, tool: str, fingerprint: str, verdict: str, by: str) -> Pin:
        """Approve or deny the definition with `fingerprint`; a served tool that is denied is no longer served. Raises
        `NotFound`, `RequestError` if the definition has changed since, or `Overloaded` if it cannot be stored."""
        if server not in self._listings:
            raise NotFound(f"there is no MCP server {server[:40]!r} here", code="server_not_found")

        def edit(pin: Pin | None) -> Pin:
            held = None if pin is None else pin.held(server) or pin.definition(server)
            if pin is None or held is None:
                raise NotFound(f"nothing of {server}/{tool[:64]} waits or is served", code="tool_not_found")
            if held.fingerprint != fingerprint:
                raise RequestError(
                    f"the definition of {server}/{tool} is another one by now ({held.fingerprint}); read it again",
                    param="fingerprint",
                    code="definition_changed",
                )
            if verdict == "approve":
                return Pin(dict(held.content), None, (), time.time(), by)
            return Pin(None, None, (), time.time(), by, denied=fingerprint)

        return await self._edit((server, tool), edit)

    def described(self) -> list[dict[str, Any]]:
        """Return every tool with its state, for operators."""
        names = sorted({*self._pins, *((s, t) for s, one in self._listings.items() for t in one.definitions)})
        found = [self._described(server, tool) for server, tool in names if server in self._listings]
        for server, listing in self._listings.items():
            found += [
                {"server": server, "tool": tool[:80], "status": "refused", "reasons": [why], "listed": True}
                for tool, why in listing.refused.items()
            ]
        return found

    def troubles(self) -> list[Trouble]:
        found = [Trouble(f"{name}: {one.trouble}") for name, one in self._listings.items() if one.trouble]
        return [*found, Trouble(f"pins are not stored: {self._not_stored}")] if self._not_stored else found

    def stats(self) -> Mapping[str, float]:
        waiting = sum(pin.waiting is not None for (server, _), pin in self._pins.items() if server in self._listings)
        return {
            "tools": float(sum(len(self.served(name)) for name in self._listings)),
            "tools_waiting": float(waiting + sum(len(one.refused) for one in self._listings.values())),
            "servers_in_trouble": float(sum(bool(one.trouble) for one in self._listings.values())),
        }

    # --- listing --------------------------------------------------------------------------------------------------

    async def _refresh_forever(self, server: str) -> None:
        while True:
            await asyncio.sleep(self._settings.look_s)
            try:
                await self.refresh(server)
            except Overloaded:  # of pins that are not stored: `_edit` has said why
                continue
            except Exception:
                log.exception("the list of MCP server %s could not be looked at", server)

    async def _refresh_list(self, server: str) -> None:
        listing = self._listings[server]
        async with listing.lock:
            try:
                upstream = await self._upstreams.of(server, CATALOGUE)
                wire = await upstream.tools(self._settings.max_tools)
            except (UpstreamFailed, Overloaded) as error:
                if listing.trouble != error.message:
                    log.warning("%s%s", error.message, f" ({error.cause})" if error.cause else "")
                listing.trouble = error.message
                return
            self._take(server, wire)

    def _take(self, server: str, wire: list[Mapping[str, Any]]) -> None:
        listing = self._listings[server]
        listing.trouble = ""
        listing.listed_s = time.monotonic()
        listing.definitions, listing.refused = self._sort_out(server, wire)

    def _sort_out(self, server: str, wire: list[Mapping[str, Any]]) -> tuple[dict[str, ToolDefinition], dict[str, str]]:
        found: dict[str, ToolDefinition] = {}
        refused: dict[str, str] = {}
        if len(wire) > self._settings.max_tools:
            most = self._settings.max_tools
            log.warning("MCP server %s lists more than %d tools; those after them count for nothing", server, most)
        wanted = self._settings.servers[server].tools
        for one in wire[: self._settings.max_tools]:
            definition = definition_of(server, one)
            name = definition.name
            if wanted and not any(fnmatchcase(name, pattern) for pattern in wanted):
                continue
            wrong = complaint(definition, self._settings.max_definition_bytes) or self.schemas.check(definition)
            if name in found or name in refused:
                wrong = "it is listed twice"
                found.pop(name, None)
            if wrong is None:
                found[name] = definition
            else:
                refused[name[:80]] = wrong
        return found, refused

    async def _compare_with_pins(self, server: str) -> None:
        """Compare the list with the pins, and update them."""
        listing = self._listings[server]
        async with listing.lock:
            is_first = not any(name == server for name, _ in self._pins)
            trusted = is_first and self._settings.servers[server].first == "trust"
            for name, definition in listing.definitions.items():
                await self._pin(server, name, definition, trusted=trusted)
            await self._forget_names(server)
            if self._not_stored and self._pins:
                names, pin = next(iter(self._pins.items()))
                await self._edit(names, lambda kept: kept or pin)  # whether the store takes edits again

    async def _forget_names(self, server: str) -> None:
        """Drop pins past `max_tools` of tools that waited, that nobody decided about, and that are listed no more: a
        server with new names in each list would fill the store. The newest stay, so that no list is the first again."""
        listed = self._listings[server].definitions
        gone = [names for names, pin in self._pins.items() if names[0] == server and names[1] not in listed]
        undecided = sorted((names for names in gone if self._pins[names].is_undecided), key=self._age)
        for names in undecided[: -self._settings.max_tools]:
            await self._edit_or_drop(names, lambda pin: None if pin is None or pin.is_undecided else pin)

    def _age(self, names: Names) -> float:
        return self._pins[names].at_s

    async def _pin(self, server: str, tool: str, definition: ToolDefinition, *, trusted: bool) -> None:
        before = self._pins.get((server, tool))
        if before is not None and before.by != FIRST and self._is_decided(server, before, definition):
            return
        found = list(suspicions(definition, self._others(server)))
        if before is not None and before.by == FIRST and self._is_approved(server, tool, definition) and not found:
            return
        found += await self._reasons(definition)
        reasons = tuple(found)

        def edit(pin: Pin | None) -> Pin:
            if pin is not None and pin.by == FIRST and reasons:  # no operator has approved it
                pin = dataclasses.replace(pin, approved=None)
            return updated_pin(pin, definition, reasons, trusted=trusted)

        after = await self._edit((server, tool), edit)
        if after.waiting is not None and (before is None or before.waiting != after.waiting):
            log.warning("the tool %s/%s waits for an operator: %s", server, tool, "; ".join(after.reasons))
            await self._on_hold(server, tool, after)

    def _is_decided(self, server: str, pin: Pin, definition: ToolDefinition) -> bool:
        """Return whether an operator decided about exactly this definition, or is asked to."""
        found = definition.fingerprint
        if pin.denied == found:
            return True
        held = pin.held(server)
        approved = pin.definition(server)
        current = held if held is not None else approved
        return current is not None and current.fingerprint == found

    def _others(self, server: str) -> dict[str, list[str]]:
        return {name: list(one.definitions) for name, one in self._listings.items() if name != server}

    def _is_approved(self, server: str, tool: str, definition: ToolDefinition) -> bool:
        pin = self._pins.get((server, tool))
        approved = None if pin is None or pin.waiting is not None else pin.definition(server)
        return approved is not None and approved.fingerprint == definition.fingerprint

    def _described(self, server: str, tool: str) -> dict[str, Any]:
        pin = self._pins.get((server, tool), Pin())
        held, approved = pin.held(server), pin.definition(server)
        found: dict[str, Any] = {
            "server": server,
            "tool": tool,
            "status": pin.status,
            "reasons": list(pin.reasons),
            "listed": tool in self._listings[server].definitions,
            "by": pin.by,
            "at": int(pin.at_s),
        }
        for name, one in (("approved", approved), ("waiting", held)):
            if one is not None:
                found[name] = {"fingerprint": one.fingerprint, "definition": dict(one.content)}
        return found
