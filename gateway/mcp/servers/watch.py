"""What happened on a connection to an MCP server, and a bound on what the server asks for by itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp.types.jsonrpc import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

MOST_QUESTIONS = 64
"""Questions of a server (pings, requests for the caller's model) from one answer to the next: each costs a message of
ours, and a megabyte holds twenty thousand."""


@dataclass(slots=True)
class ConnectionStats:
    """`oversized`: how often the server went past a bound, after which the connection is given up; `why`: past which;
    `stderr_tail`: the last bytes on standard error."""

    oversized: int = 0
    why: str = ""
    malformed: int = 0
    stderr_tail: bytearray = field(default_factory=bytearray)

    def end(self, why: str) -> None:
        """Note that the connection is of no more use, as the server `why`."""
        self.why = why
        self.oversized += 1


class BoundedMessages:
    """What the SDK's session reads from: `inner` without notifications, which nobody here reads, up to the question
    that is one too many."""

    def __init__(self, inner: Any, watch: ConnectionStats) -> None:
        self._inner = inner
        self._watch = watch
        self._questions = 0

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. Raises `anyio.EndOfStream`."""
        while True:
            found: SessionMessage | Exception = await self._inner.receive()
            message = found.message if isinstance(found, SessionMessage) else None
            if isinstance(message, JSONRPCResponse | JSONRPCError):
                self._questions = 0
            elif isinstance(message, JSONRPCRequest):
                self._questions += 1
            if self._questions > MOST_QUESTIONS:
                self._watch.end(f"asked more than {MOST_QUESTIONS} questions before it answered")
                await self.aclose()
                raise anyio.EndOfStream
            if not isinstance(message, JSONRPCNotification):
                return found

    def __aiter__(self) -> BoundedMessages:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        await self._inner.aclose()

    def close(self) -> None:
        self._inner.close()

    async def __aenter__(self) -> BoundedMessages:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()
