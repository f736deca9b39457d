"""What happened on a connection to an MCP server, and bounds on what the server asks for, and answers, by itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

import anyio
from mcp.shared.message import SessionMessage
from mcp.types.jsonrpc import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

MOST_QUESTIONS = 64
"""Questions of a server (pings, requests for the caller's model) from one answer to the next: each costs a message of
ours, and a megabyte holds twenty thousand."""
MOST_ASKED = 4096
"""Requests that may be answered late."""


@dataclass(slots=True)
class ConnectionStats:
    """`oversized`: how often the server went past a bound, after which the connection is given up; `why`: past which;
    `stderr_tail`: the last bytes on standard error."""

    oversized: int = 0
    why: str = ""
    malformed: int = 0
    stderr_tail: bytearray = field(default_factory=bytearray)
    asked: dict[str, None] = field(default_factory=dict)
    """Ids of our requests that the server has not answered, oldest first; of calls that ran out of time, too."""

    def end(self, why: str) -> None:
        """Note that the connection is of no more use, as the server `why`."""
        self.why = why
        self.oversized += 1

    def ask(self, request_id: object) -> None:
        """Note that a request is sent."""
        self.asked[str(request_id)] = None
        if len(self.asked) > MOST_ASKED:
            del self.asked[next(iter(self.asked))]

    def answers(self, request_id: object) -> bool:
        """Note an answer, and return whether it is one: to a request that was sent and is not answered yet."""
        return self.asked.pop(str(request_id), False) is None


class BoundedMessages:
    """What the SDK's session reads from: `inner` without notifications, which nobody here reads, up to the question
    that is one too many, or an answer to nothing that was asked: whoever waits for the right one would wait for its
    whole time."""

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
                if message.id is not None and not self._watch.answers(message.id):
                    await self._end("answered a request that was not asked, or was answered before")
            elif isinstance(message, JSONRPCRequest):
                self._questions += 1
            if self._questions > MOST_QUESTIONS:
                await self._end(f"asked more than {MOST_QUESTIONS} questions before it answered")
            if not isinstance(message, JSONRPCNotification):
                return found

    async def _end(self, why: str) -> NoReturn:
        self._watch.end(why)
        await self.aclose()
        raise anyio.EndOfStream

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


class WatchedMessages:
    """What the SDK's session writes to: `inner`, and the ids of requests go into `watch`."""

    def __init__(self, inner: Any, watch: ConnectionStats) -> None:
        self._inner = inner
        self._watch = watch

    async def send(self, message: SessionMessage) -> None:
        if isinstance(message.message, JSONRPCRequest):
            self._watch.ask(message.message.id)
        await self._inner.send(message)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> WatchedMessages:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()
