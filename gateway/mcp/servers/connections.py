"""Connect to MCP servers: one connection per tenant and server, each owned by a task.

A call is sent once and never retried: the tool may have had its effect although its answer was lost. A broken
connection is closed, and the next call opens another.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import time
from collections.abc import Mapping
from typing import Any

from sluicegate.gateway.mcp.settings import McpServerSettings
from sluicegate.plugins import ConfigurationError, Overloaded, UpstreamFailed
from sluicegate.plugins.concurrency.ending import end_tasks

log = logging.getLogger("sluicegate.mcp")
MAX_PAGES = 64
CONNECTION_CLOSED = -32000
FAILED = "the MCP server {name!r} "


def import_sdk_module(module: str) -> Any:
    """Import a module of this package that needs the extra `mcp`. Raises `ConfigurationError` if that is not
    installed."""
    try:
        return importlib.import_module(f"sluicegate.gateway.mcp.{module}")
    except ModuleNotFoundError as error:
        if error.name in ("mcp", "httpx2", "anyio", "mcp_types"):
            raise ConfigurationError("[mcp] needs the extra `mcp`: pip install 'sluicegate[mcp]'") from error
        raise


class McpUpstream:
    """A connection to one server. Call `open` first. Used on the event loop."""

    def __init__(self, name: str, settings: McpServerSettings) -> None:
        self.name = name
        self.settings = settings
        self.used_s = time.monotonic()
        self.running = 0
        self.broken = False
        self.is_compared = False
        """Whether the tools that this connection lists were compared with the pins."""
        self._session: Any = None
        self._owner: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._client = import_sdk_module("servers.client_session")
        self.watch = self._client.ConnectionStats()

    @property
    def protocol_version(self) -> str:
        return str(self._session.protocol_version) if self._session is not None else ""

    async def open(self) -> None:
        """Open the connection. Raises `UpstreamFailed`."""
        ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(ready))
        try:
            async with asyncio.timeout(self.settings.start_s):
                self._session = await ready
        except Exception as error:
            self._note(error)
            await self.close()
            raise self._failed("cannot be reached", error) from error
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the connection, and the program behind it; idempotent."""
        self.broken = True
        self._closing.set()
        if self._owner is not None:
            done, _ = await asyncio.wait({self._owner}, timeout=6.0)
            if not done:
                self._owner.cancel()
                await asyncio.wait({self._owner}, timeout=6.0)

    async def tools(self, most: int) -> list[Mapping[str, Any]]:
        """Return the tools of the server's list, page by page, until there are more than `most`. Raises
        `UpstreamFailed`."""
        work = self._client.listed(self._session, MAX_PAGES, most)
        found: list[Mapping[str, Any]] = await self._awaited(work, self.settings.start_s, "list")
        return found

    async def call(self, tool: str, arguments: Mapping[str, Any], meta: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call a tool and return the result in its wire form. Raises `UpstreamFailed`, or `Overloaded` if the maximum
        number of calls is running."""
        if self.running >= self.settings.concurrency:
            raise Overloaded(f"the MCP server {self.name!r} has {self.running} calls, its most", retry_after_s=1.0)
        self.running += 1
        try:
            work = self._client.called(self._session, tool, arguments, meta)
            found: Mapping[str, Any] = await self._awaited(work, self.settings.timeout_s, "call")
            return found
        finally:
            self.running -= 1
            self.used_s = time.monotonic()

    async def _awaited(self, work: Any, limit_s: float, what: str) -> Any:
        """Return the result of `work`. Raises `UpstreamFailed` if the time limit passes or the connection ends
        first."""
        assert self._owner is not None
        task = asyncio.ensure_future(work)
        oversized = self.watch.oversized
        try:
            await asyncio.wait({task, self._owner}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return self._result(task, oversized)
            if self._owner.done() or self.watch.oversized > oversized:
                self.broken = True
                raise self._gone(oversized)
            raise UpstreamFailed(f"{FAILED.format(name=self.name)}did not answer a {what} within {limit_s:g} s")
        finally:
            task.cancel()

    def _result(self, task: asyncio.Future[Any], oversized: int) -> Any:
        error = task.exception() if not task.cancelled() else ConnectionError()
        if error is None:
            return task.result()
        if self.watch.oversized > oversized:
            self.broken = True
            raise self._gone(oversized) from error
        code = getattr(error, "code", None)
        if not isinstance(code, int) or code == CONNECTION_CLOSED or "erminated" in str(error):
            self.broken = True
        if isinstance(error, ValueError):
            raise self._failed("answered what is no result of its protocol", error) from error
        if not isinstance(code, int):
            raise self._failed("is gone", error) from error
        if code == CONNECTION_CLOSED:
            raise self._gone(oversized) from error
        raise UpstreamFailed(f"{FAILED.format(name=self.name)}answered with the error {code}") from error

    def _gone(self, oversized: int) -> UpstreamFailed:
        if self.watch.oversized > oversized:
            return UpstreamFailed(FAILED.format(name=self.name) + self.watch.why)
        return self._failed("closed the connection in the middle of a request", None)

    def _failed(self, what: str, error: BaseException | None) -> UpstreamFailed:
        cause = "" if error is None else type(_first(error)).__name__
        return UpstreamFailed(f"{FAILED.format(name=self.name)}{what}", cause=cause)

    async def _own(self, ready: asyncio.Future[Any]) -> None:
        """Enter and leave the client in one task, as its cancel scopes require."""
        try:
            async with self._client.connected(self.settings, self.watch) as session:
                if not ready.done():
                    ready.set_result(session)
                await self._closing.wait()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error if isinstance(error, Exception) else ConnectionError(type(error).__name__))
                ready.exception()  # marks it as retrieved: nobody may be waiting any more
            elif not isinstance(error, asyncio.CancelledError):
                self._note(error)
        finally:
            self.broken = True

    def _note(self, error: BaseException) -> None:
        log.warning(
            "MCP server %s: %s; its last words on standard error: %a",
            *(self.name, type(_first(error)).__name__, bytes(self.watch.stderr_tail[-500:]).decode("utf-8", "replace")),
        )


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error


class McpUpstreams:
    """Connections by server and tenant. Used on the event loop."""

    def __init__(self, servers: Mapping[str, McpServerSettings]) -> None:
        self._servers = servers
        self._kept: dict[tuple[str, str], asyncio.Task[McpUpstream]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._sweeper = asyncio.create_task(self._sweep())

    async def of(self, server: str, tenant: str) -> McpUpstream:
        """Return an open connection. Raises `UpstreamFailed`, or `Overloaded` if the server has its maximum number of
        connections."""
        settings = self._servers[server]
        key = server, tenant if settings.share == "tenant" else ""
        kept = self._kept.get(key)
        if kept is not None and kept.done() and (kept.cancelled() or kept.exception() or kept.result().broken):
            self._drop(key)
            kept = None
        if kept is None:
            if sum(name == server for name, _ in self._kept) >= settings.max_connections:
                raise Overloaded(f"the MCP server {server!r} has as many connections as it may", retry_after_s=5.0)
            kept = self._kept[key] = asyncio.create_task(self._opened(server))
        found = await asyncio.shield(kept)
        found.used_s = time.monotonic()
        return found

    async def close(self) -> None:
        await end_tasks((self._sweeper,))
        for key in list(self._kept):
            self._drop(key)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def __len__(self) -> int:
        return len(self._kept)

    async def _opened(self, server: str) -> McpUpstream:
        made = McpUpstream(server, self._servers[server])
        await made.open()
        return made

    def _drop(self, key: tuple[str, str]) -> None:
        task = asyncio.create_task(_closed(self._kept.pop(key)))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            now = time.monotonic()
            for key, task in list(self._kept.items()):
                if not task.done():
                    continue
                failed = task.cancelled() or task.exception() is not None
                if failed or _is_over(task.result(), now):
                    self._drop(key)


def _is_over(one: McpUpstream, now: float) -> bool:
    return one.broken or (not one.running and now - one.used_s > one.settings.idle_s)


async def _closed(opening: asyncio.Task[McpUpstream]) -> None:
    if not opening.done():
        opening.cancel()
    with contextlib.suppress(Exception, asyncio.CancelledError):
        await (await opening).close()
