"""A call from its metadata to its end: who asks, for how long, in how many bytes, and what is sent when it fails."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import grpc

from sluicegate.gateway.accounts.features import FEATURE, HEADER
from sluicegate.gateway.accounts.limits.runs import DEPTH_HEADER, MARK, RUN_HEADER, mark_of
from sluicegate.gateway.api.body.parsing import P
from sluicegate.gateway.api.body.reader import LARGE
from sluicegate.gateway.grpc.errors import failure_of
from sluicegate.gateway.http.api_key import key_in
from sluicegate.gateway.http.body_budget import UNCOUNTED
from sluicegate.gateway.http.disconnects import ClientDisconnected, Disconnect
from sluicegate.gateway.http.guard import allowed, counted_for, route_refused
from sluicegate.gateway.http.key_gate import known_caller, left_of
from sluicegate.gateway.http.middleware import request_id_of
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.telemetry import parent_context
from sluicegate.plugins import (
    Caller,
    DeadlineExceeded,
    GenerationFailed,
    Overloaded,
    Request,
    RequestError,
    SluicegateError,
)

log = logging.getLogger("sluicegate.grpc")
LONGEST_S = 86_400.0
"""Longest time that a request may ask for."""
LAST_WORDS_S = 1.0
"""How long sending the end of a call may take where the client reads nothing."""
Metadata = Iterable[tuple[str, str | bytes]]


class HandlerContext(Protocol):
    """What a handler of `grpc.aio` is given."""

    def invocation_metadata(self) -> Metadata | None: ...

    def peer(self) -> str: ...

    def time_remaining(self) -> float | None: ...

    async def read(self) -> Any: ...

    async def write(self, message: bytes) -> None: ...

    async def send_initial_metadata(self, metadata: Metadata) -> None: ...

    async def abort(self, code: grpc.StatusCode, details: str, trailing_metadata: Metadata) -> None: ...


Work = Callable[["Call"], Coroutine[Any, Any, bytes | None]]


class OpenCalls:
    """All calls that run. Used on the event loop."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._most = runtime.settings.server.max_connections
        self._running: set[Disconnect] = set()
        self._stopping = False

    async def run(self, context: HandlerContext, route: str, work: Work) -> bytes | None:
        """Run `work` for one call. Any error ends the call with a status."""
        call = Call(self.runtime, context, route)
        try:
            self._check_room()
            self._running.add(call.disconnect)
            return await call.disconnect.unless(work(call))
        except ClientDisconnected:
            log.info("%s: the client left, or takes nothing of its answer", route)
            failure: SluicegateError = GenerationFailed("the client took nothing of the answer for too long")
        except SluicegateError as error:
            failure = error
        except Exception:
            log.exception("%s failed", route)
            failure = SluicegateError("the gateway failed on this request; the log of the gateway says why")
        finally:
            self._running.discard(call.disconnect)
            call.ended()
        await call.fail(failure)
        return None

    def end(self) -> None:
        """End what runs with an error: the gateway stops and waits no longer."""
        self._stopping = True
        for disconnect in list(self._running):
            disconnect.end()

    def stats(self) -> Mapping[str, float]:
        return {"grpc_calls": float(len(self._running))}

    def _check_room(self) -> None:
        if self._stopping:
            raise Overloaded("the gateway is shutting down; send the request elsewhere", retry_after_s=5.0)
        if self._most and len(self._running) >= self._most:
            raise Overloaded(
                f"{len(self._running)} calls run, as many as may ([server] max_connections)", retry_after_s=1.0
            )


class Call:
    """One call while it runs: its caller, deadline, size limits and error status."""

    def __init__(self, runtime: Runtime, context: HandlerContext, route: str) -> None:
        self.disconnect = Disconnect()
        self.route = route
        self._runtime = runtime
        self._context = context
        self._limits = runtime.settings.server
        self.headers = headers_of(context.invocation_metadata())
        self.key = key_in(self.headers)
        self._id = request_id_of(self.headers.get("x-request-id", "").encode("latin-1", "replace")).decode("latin-1")
        self._caller: Caller | None = None
        self._whose, self._weight = "", 0
        self._headed = False

    @property
    def parent(self) -> Any:
        """Return the trace that the caller has begun."""
        return parent_context(self.headers)

    async def admit(self) -> None:
        """Refuse a key that is not known or may not call this, and a run that is none, before anything is read. Raises
        `SluicegateError`."""
        FEATURE.set(self.headers.get(HEADER.decode(), ""))
        run, depth = self.headers.get(RUN_HEADER.decode(), ""), self.headers.get(DEPTH_HEADER.decode(), "0")
        MARK.set(mark_of(run, depth))
        self._caller = known_caller(self._runtime.accounts, self.key)
        if self._caller is None and self._runtime.closed_to_strangers:
            await self._turn_away()
        routes = None if self._caller is None else self._caller.routes
        if self._caller is not None and routes is not None and not allowed(self.route, routes):
            raise route_refused(self.route, self._caller)

    async def _turn_away(self) -> None:
        """Have the pipeline refuse an unknown caller, so that the refusal is recorded as over HTTP."""
        pipeline = self._runtime.pipeline
        nothing = Request(id=f"call-{uuid.uuid4().hex}", model="", messages=(), api_key=self.key, n=0, cache=False)
        await pipeline.close(await pipeline.enter(nothing, self.parent, route=self.route))
        self._runtime.identify(self.key)

    async def read(self, parse: Callable[[bytes, str | None], P]) -> P:
        """Read the one message and what it asks for, in a thread where it is large. Raises `SluicegateError`."""
        body = await self._body()
        if len(body) > UNCOUNTED:
            self._whose = counted_for(self._runtime, self.key, _address(self._context.peer()))
            self._weight = self._runtime.bodies.take(self._whose, len(body))
        if len(body) <= LARGE:
            return parse(body, self.key)
        tenant = self._runtime.identify(self.key).tenant  # refuse callers without a key before parsing a large body
        work = lambda: parse(body, self.key).sized(len(body))  # noqa: E731
        return await self._runtime.workers.run(tenant, len(body), work, inline_bytes=LARGE)

    async def _body(self) -> bytes:
        try:
            async with asyncio.timeout(self._limits.body_s):
                body = await self._context.read()
        except TimeoutError:
            error = RequestError(f"the message did not come within {self._limits.body_s:g} s", code="request_timeout")
            error.status = 408
            raise error from None
        if not isinstance(body, bytes):
            raise RequestError("the call has no message; send one", code="invalid_message")
        return body

    def timed(self, request: Request) -> Request:
        """Return the request with the call's deadline as its limit of time, where it names none that is shorter. Raises
        `DeadlineExceeded`."""
        left_s = self._context.time_remaining()
        if left_s is None:
            return request
        if left_s <= 0:
            raise DeadlineExceeded("the deadline of the call was over before the request was read")
        return replace(request, deadline_s=min(left_s, request.deadline_s or LONGEST_S, LONGEST_S))

    async def head(self, headers: Mapping[str, str]) -> None:
        """Send what HTTP says in the head of an answer."""
        self._headed = True
        await self._context.send_initial_metadata((*headers.items(), *self._about()))

    async def send(self, frame: bytes) -> None:
        """Send a part of the answer. A client that takes nothing for `stall_s` is given up."""
        stall = asyncio.get_running_loop().call_later(self._limits.stall_s, self.disconnect.left)
        try:
            await self._context.write(frame)
        except grpc.aio.InternalError as error:
            raise ClientDisconnected from error
        finally:
            stall.cancel()

    async def fail(self, error: SluicegateError) -> None:
        """End the call with the status of `error`."""
        failure = failure_of(error)
        trailing = (*failure.metadata, *(() if self._headed else self._about()))
        with contextlib.suppress(TimeoutError, grpc.aio.InternalError):  # nobody is there to read it
            async with asyncio.timeout(LAST_WORDS_S):
                await self._context.abort(failure.code, failure.message, trailing)

    def ended(self) -> None:
        if self._weight:
            self._runtime.bodies.give_back(self._whose, self._weight)

    def _about(self) -> list[tuple[str, str]]:
        """Return the metadata of the response: its id, and what is left of the caller's limits."""
        left = left_of(self._runtime.accounts, self._caller) if self._caller is not None else []
        return [("x-request-id", self._id), *((name.decode(), value.decode()) for name, value in left)]


def headers_of(metadata: Metadata | None) -> dict[str, str]:
    """Return the first value of each name; binary values are skipped."""
    found: dict[str, str] = {}
    for name, value in metadata or ():
        if isinstance(value, str):
            found.setdefault(name, value)
    return found


def _address(peer: str) -> str:
    """Return the host of `ipv4:HOST:PORT` or `ipv6:%5BHOST%5D:PORT`."""
    return peer.partition(":")[2].rpartition(":")[0] or peer
