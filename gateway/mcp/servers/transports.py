"""Transports to MCP servers with bounded messages: streamable HTTP, and a program's standard streams.

The SDK's own transports read a line, or a JSON body, of any length. The last bytes that a program writes to standard
error go into the log when its connection ends, never to a caller.
"""

from __future__ import annotations

import contextlib
import logging
import ssl
from collections.abc import AsyncIterator
from functools import lru_cache
from typing import Any

import anyio
import httpx2
from anyio.abc import Process
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage
from mcp.types.jsonrpc import JSONRPCError, JSONRPCResponse, jsonrpc_message_adapter

from sluicegate.gateway.mcp.servers.bounded_heads import HttpTransport
from sluicegate.gateway.mcp.servers.http_bounds import BoundedTransport
from sluicegate.gateway.mcp.servers.watch import BoundedMessages, ConnectionStats, WatchedMessages
from sluicegate.gateway.mcp.settings import McpServerSettings

log = logging.getLogger("sluicegate.mcp")
EXIT_S = 1.0
"""How long a program may take to exit after its input has ended; then it and its children are killed."""
TAIL = 2000


def transport_of(settings: McpServerSettings, watch: ConnectionStats) -> Any:
    """Return a context manager that yields the streams for the SDK's client."""
    return _bounded(over_http(settings, watch) if settings.url else over_stdio(settings, watch), watch)


@contextlib.asynccontextmanager
async def _bounded(transport: Any, watch: ConnectionStats) -> AsyncIterator[Any]:
    async with transport as (read, write):
        yield BoundedMessages(read, watch), WatchedMessages(write, watch)


# --- streamable HTTP ------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def over_http(settings: McpServerSettings, watch: ConnectionStats) -> AsyncIterator[Any]:
    headers = {**settings.headers, "accept-encoding": "identity"}  # a few bytes of gzip can expand to gigabytes
    tls = await anyio.to_thread.run_sync(_trusted) if settings.url.startswith("https:") else None
    timeout = httpx2.Timeout(settings.timeout_s + 5, connect=settings.start_s)
    bounded = BoundedTransport(HttpTransport(tls), settings.max_result_bytes, settings.timeout_s, watch)
    async with (
        httpx2.AsyncClient(transport=bounded, headers=headers, timeout=timeout, trust_env=False) as client,
        streamable_http_client(
            settings.url, http_client=client, max_sse_event_size=settings.max_result_bytes
        ) as streams,
    ):
        yield streams


@lru_cache
def _trusted() -> ssl.SSLContext:
    """Read the trusted authorities, once: it takes 20 ms, and each connection would do so on the event loop."""
    return httpx2.create_ssl_context()


# --- standard streams -----------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def over_stdio(settings: McpServerSettings, watch: ConnectionStats) -> AsyncIterator[Any]:
    """Start a program and yield its streams. Raises `OSError` if it cannot be started."""
    environ = {**get_default_environment(), **settings.env}
    process = await anyio.open_process(
        list(settings.command), env=environ, cwd=settings.cwd or None, start_new_session=True
    )
    found, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, written = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with found, read, write, written, anyio.create_task_group() as tasks:
            tasks.start_soon(_read_lines, process, found, settings.max_result_bytes, watch)
            tasks.start_soon(_write_lines, process, written, found)
            tasks.start_soon(_read_tail, process, watch)
            try:
                yield read, write
            finally:
                with anyio.CancelScope(shield=True):
                    await _ended(process)
                tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await _ended(process)
            with contextlib.suppress(Exception):
                await process.aclose()


async def _read_lines(process: Process, found: Any, most: int, watch: ConnectionStats) -> None:
    """Pass messages on until one is longer than `most` bytes, or until notifications (progress, logs) between two
    answers are longer together: such a program could delay every answer."""
    assert process.stdout is not None
    rest, unasked = bytearray(), 0
    async with found:
        with contextlib.suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            while True:
                part = await process.stdout.receive(65_536)
                *lines, last = part.split(b"\n")
                for line in lines:
                    message = _parsed(bytes(rest + line), watch)
                    unasked = 0 if _is_answer(message) else unasked + len(rest) + len(line)
                    rest.clear()
                    if unasked > most:
                        watch.end(f"answered with more than {most} bytes")
                        return
                    await found.send(message)
                rest += last
                if len(rest) > most:
                    watch.end(f"answered with more than {most} bytes")
                    return  # the rest of this line would follow: the connection is unusable


def _parsed(line: bytes, watch: ConnectionStats) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        watch.malformed += 1
        return ValueError("a line that is no JSON-RPC message")


def _is_answer(message: SessionMessage | Exception) -> bool:
    return isinstance(message, SessionMessage) and isinstance(message.message, JSONRPCResponse | JSONRPCError)


async def _write_lines(process: Process, written: Any, found: Any) -> None:
    assert process.stdin is not None
    try:
        async for message in written:
            line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await process.stdin.send(line.encode() + b"\n")
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        await found.aclose()  # ends the wait of all pending calls


async def _read_tail(process: Process, watch: ConnectionStats) -> None:
    assert process.stderr is not None
    with contextlib.suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        while True:
            watch.stderr_tail += await process.stderr.receive(4096)
            del watch.stderr_tail[:-TAIL]


async def _ended(process: Process) -> None:
    """Close the program's input, wait a moment, and kill it and its children if they still run."""
    if process.stdin is not None:
        with contextlib.suppress(Exception):
            await process.stdin.aclose()
    with anyio.move_on_after(EXIT_S):
        while process.returncode is None:  # noqa: ASYNC110 - `wait` waits for the pipes, too
            await anyio.sleep(0.01)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        await terminate_posix_process_tree(process, EXIT_S)
