"""Bounds on what an MCP server may send over HTTP: bytes and time of a call, and no stream beside calls.

A call is one POST and what is read on for it: a server may close the stream of an answer and name an event to resume
from. Bytes and time of all these together are bounded. The stream that a client may open to listen has no end by which
to count, and all that it carries (reports, changes of lists, questions to the caller's model) goes nowhere here: it is
not opened, as if the server had none.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import cast

import anyio
import httpx2

from sluicegate.gateway.mcp.servers.bounded_heads import awaiting_head
from sluicegate.gateway.mcp.servers.watch import ConnectionStats

RESUME_S = 0.2
"""Least time between two streams that resume one call: a server chooses the pause itself, and may choose none."""
GRACE_S = 5.0
"""How much longer than a call may take its answer is read: what came too late need not break the connection."""


@dataclass(slots=True)
class CallBudget:
    """What the answer to one POST may still use."""

    left: int
    """Bytes."""
    ends_s: float
    """`time.monotonic()` after which nothing more of it is read."""


_BUDGET: ContextVar[CallBudget | None] = ContextVar("mcp_call_budget", default=None)
"""Of the call that the current task carries out; the SDK sends a POST, and resumes its answer, in a task of its own."""


class BoundedTransport(httpx2.AsyncBaseTransport):
    """`most`: bytes of the answer to a POST; `limit_s`: how long it may take."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, most: int, limit_s: float, watch: ConnectionStats) -> None:
        self._inner = inner
        self._most = most
        self._limit_s = limit_s
        self._watch = watch

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        budget = CallBudget(self._most, time.monotonic() + self._limit_s + GRACE_S)
        if request.method == "POST":
            _BUDGET.set(budget)
        elif request.method == "GET":
            resumed = _BUDGET.get() if "last-event-id" in request.headers else None
            if resumed is None:
                return httpx2.Response(405, request=request)
            budget = resumed
            await anyio.sleep(RESUME_S)
            if time.monotonic() > budget.ends_s:
                raise httpx2.RemoteProtocolError("the answer took longer than a call may", request=request)
        with awaiting_head():
            response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.RemoteProtocolError("the answer is compressed, which was not asked for", request=request)
        stream = cast(httpx2.AsyncByteStream, response.stream)
        response.stream = BoundedStream(stream, budget, self._most, self._watch)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class BoundedStream(httpx2.AsyncByteStream):
    """Ends a stream whose call has used its bytes or its time."""

    def __init__(self, inner: httpx2.AsyncByteStream, budget: CallBudget, most: int, watch: ConnectionStats) -> None:
        self._inner = inner
        self._budget = budget
        self._most = most
        self._watch = watch

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._inner:
            self._budget.left -= len(part)
            if self._budget.left < 0:
                self._watch.end(f"answered with more than {self._most} bytes")
                raise httpx2.StreamError(f"the answer is longer than {self._most} bytes")
            if time.monotonic() > self._budget.ends_s:
                raise httpx2.StreamError("the answer took longer than a call may")
            yield part

    async def aclose(self) -> None:
        await self._inner.aclose()
