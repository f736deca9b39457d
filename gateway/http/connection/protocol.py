"""uvicorn's protocols with limits: on heads that never come or never end, on bodies that go on after their answer, and
on clients that stop reading.

They also report a closed connection to what runs for it, and write with few system calls. A well-behaved client pays
nothing for this: timers are set once for a head, where a client falls behind, and where an answer comes before the end
of its body.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sized
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from httptools import HttpRequestParser
from starlette.types import Scope
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from sluicegate.gateway.http.arrival import note_arrival
from sluicegate.gateway.http.authority import TARGET
from sluicegate.gateway.http.connection.coalescing import CoalescedTransport
from sluicegate.gateway.http.connection.half_closed import HalfClosing
from sluicegate.gateway.http.connection.older_clients import UnboundedLength, head_without_offer
from sluicegate.gateway.http.connection.refusals import Refusing
from sluicegate.gateway.http.connection.stalls import StallLimit, stop
from sluicegate.gateway.http.disconnects import EXTENSION, Disconnect
from sluicegate.gateway.settings import ServerSettings


@dataclass(frozen=True, slots=True)
class HeadRefusal:
    """The answer to a request of which nothing but its head is read."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


Door = Callable[[bytes, Scope], HeadRefusal | None]
"""Called with the target and the scope of a POST whose head was read."""


class _RefusedCycle:
    """Stands in for uvicorn's cycle of a request that was answered at its head: its body is discarded."""

    response_complete = more_body = True

    @property
    def message_event(self) -> _RefusedCycle:
        return self

    def set(self) -> None:
        """Do nothing: nobody waits for the body."""


REFUSED: Any = _RefusedCycle()


CLOSE = (b"connection", b"close")
TRANSFER, LENGTH = b"transfer-encoding", b"content-length"
PASSED_OVER_BYTES = 256 << 20
"""Most bytes of a body that are read and dropped behind its answer, so that the client comes to read that."""
AT_ONCE = 8
"""Most requests of one read that are refused within the same turn of the event loop; the others wait."""


class _PipelineLimit(FlowControl):
    """Pauses reading while requests that were read wait for their turn. uvicorn alone resumes after each answer, and so
    buffers everything that a client sends ahead."""

    def __init__(self, transport: asyncio.Transport, waiting: Sized) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()


class GuardedProtocol(StallLimit, Refusing, HalfClosing, HttpToolsProtocol):  # type: ignore[misc]
    """HTTP/1.1 with limits of time and size; `guarded_protocol` makes the subclass that has the settings."""

    limits: ServerSettings
    door: Door

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_bytes = 0
        self._silent_bytes = 0
        """Bytes read after the head that belong to no body: trailers, and what stands beside the sizes of chunks."""
        self._has_body = False
        """Whether the last read contained part of a body."""
        self._ended = False
        self._refused = 0
        """Number refused in this turn."""
        self._head: asyncio.TimerHandle | None = None
        self._rest: asyncio.TimerHandle | None = None
        self.disconnect = Disconnect()
        self._closes = False
        """Whether to close after the body of a request that was already answered."""
        self._passed_over = 0
        """Bytes of the body that came behind its answer."""
        self._offers = False
        self.pipelined = False
        """Whether the last request came before the one in front of it was answered."""
        self._ahead: list[Any] = []
        """uvicorn's cycles of requests in front of a pipelined one; of the last one it knows itself."""
        self._read = self._again = b""
        """The last bytes received, and the bytes to parse in their place."""

    def connection_made(self, transport: Any) -> None:
        coalesced = CoalescedTransport(transport, self.loop)
        coalesced.keeps_open = self._lets_send_on
        super().connection_made(coalesced)  # type: ignore[arg-type]
        self.flow = _PipelineLimit(self.transport, self.pipeline)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        stop(self._head)
        stop(self._rest)
        super().connection_lost(exc)
        for cycle in self._ahead:
            if not cycle.response_complete:  # else it would be called a fault of the application
                cycle.disconnected = True
                cycle.message_event.set()
        self.disconnect.left()

    def data_received(self, data: bytes) -> None:
        if self.passes_over(data):
            return
        self._ended, self._refused = False, 0
        self._read = data
        super().data_received(data)
        if self._again:
            self._read_again()
        self._read = b""
        if self.cycle is REFUSED:
            self._expect_rest()
        # After another request in the same read, it is unknown how many bytes belong to this head: counting begins
        # with the next read.
        if self._ended or self._unread is not None or self.transport.is_closing():
            return
        if self._head is None:
            self._expect_end(len(data))
            return
        self._head_bytes += len(data)
        if self._head_bytes > self.limits.max_head_bytes:
            self.send_400_response(f"The head of the request is larger than {self.limits.max_head_bytes} bytes.")

    def _expect_end(self, arrived: int) -> None:
        """Count what came and is no body: the parser keeps a trailer until it is whole, however long it gets."""
        if self._has_body:
            self._has_body, self._silent_bytes = False, 0
            return
        self._silent_bytes += arrived
        if self._silent_bytes <= self.limits.max_head_bytes:
            return
        if self.cycle.response_complete:
            self.transport.abort()
        else:
            self.send_400_response(f"More than {self.limits.max_head_bytes} bytes stand around the body.")

    def _refusal(self, why: str) -> ValueError:
        """Return what makes httptools end the parsing, and uvicorn answer with a 400."""
        self._why = why
        return ValueError(why)

    def _unsupported_upgrade_warning(self) -> None:
        """Keep the request to be read again, without its offer: the parser takes what follows the head, a body too,
        for another protocol. Called while `HttpParserUpgrade` is handled."""
        upgrade = sys.exception()
        if upgrade is None or not self._offers:
            return
        method, version = self.parser.get_method(), self.parser.get_http_version()
        self._again = head_without_offer(method, self.url, version, self.headers) + self._read[upgrade.args[0] :]

    def _should_upgrade(self) -> bool:
        """Return whether a WebSocket begins: its handshake is a GET of HTTP/1.1 without a body, and what else offers
        one is answered as if it did not."""
        parser = self.parser
        return (
            parser.get_method() == b"GET"
            and parser.get_http_version() == "1.1"
            and not any(name == TRANSFER or (name == LENGTH and value.strip(b"0")) for name, value in self.headers)
            and super()._should_upgrade()
        )

    def _offers_another(self) -> bool:
        """Return whether the request offers an upgrade to a protocol that this server lacks, so that HTTP/1.1 goes
        on."""
        return self.parser.get_method() != b"CONNECT" and not self._should_upgrade()

    def _read_again(self) -> None:
        self.parser = HttpRequestParser(self)
        again, self._again = self._again, b""
        super().data_received(again)
        if self._again:  # each time all that follows is copied
            self._again = b""
            self.send_400_response("Offer another protocol with one request at a time.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.disconnect.arrived = False
        self.scope["extensions"] = {EXTENSION: self.disconnect}
        self._expect_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head is None:  # ignore trailers: a proxy may have filtered the head alone
            return
        if len(self.headers) >= self.limits.max_headers:
            raise self._refusal(f"The request has more than {self.limits.max_headers} headers; send fewer.")
        if len(name) == len(TRANSFER) and name.lower() == TRANSFER and value.lower() != b"chunked":
            raise self._refusal("The body is packed on its way; send it as it is.")  # it would be handed on as it came
        super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._has_body = True
        if self.cycle.response_complete:
            self._passed_over += len(body)
            if self._passed_over > PASSED_OVER_BYTES:
                self.transport.abort()
        super().on_body(body)

    def on_headers_complete(self) -> None:
        if len(self._read) > self.limits.max_head_bytes and self._is_too_large():
            raise self._refusal(f"The head of the request is larger than {self.limits.max_head_bytes} bytes.")
        stop(self._head)
        self._head = None
        self._passed_over = 0
        self._silent_bytes, self._has_body = 0, True  # in the read that ends the head, the part of the body is unknown
        self._offers = self.parser.should_upgrade() and self._offers_another()
        if self._offers:
            return
        if not self.url.startswith(b"/"):
            self.scope["extensions"][TARGET] = self.url
        if not self.limits.shed_s or (self.cycle is not None and not self.cycle.response_complete):
            self._begin()
        elif self.transport.is_closing():
            self.cycle = REFUSED
        else:
            note_arrival(self.scope, self.transport.get_extra_info("socket"))
            copy_context().run(self._at_door)  # what is found out about the key is forgotten with the request

    def _is_too_large(self) -> bool:
        """Measure a head that came, whole, in a read that is larger than heads may be."""
        lines = sum([len(name) + len(value) + len(": \r\n") for name, value in self.headers])
        return len(self.url) + lines > self.limits.max_head_bytes

    def _at_door(self) -> None:
        refusal = self.door(self.url, self.scope) if self._is_plain() else None
        if refusal is None:
            self._begin()
        else:
            self._refuse(refusal)

    def _begin(self) -> None:
        self.pipelined = self.cycle is not None and self.cycle is not REFUSED and not self.cycle.response_complete
        if self.pipelined:
            self._ahead = [cycle for cycle in (*self._ahead, self.cycle) if not cycle.response_complete]
        super().on_headers_complete()
        if self.scope["http_version"] == "1.0":
            self.cycle.chunked_encoding, self.cycle.expected_content_length = False, UnboundedLength()

    def _is_plain(self) -> bool:
        """Return whether the request needs only an answer, and the connection can take one now."""
        parser = self.parser
        return (
            parser.get_method() == b"POST"
            and parser.get_http_version() == "1.1"
            and not (self.expect_100_continue or parser.should_upgrade())
            and not (self.flow.write_paused or self._refused >= AT_ONCE)
            and (self.limit_concurrency is None or len(self.connections) < self.limit_concurrency)
        )

    def _refuse(self, refusal: HeadRefusal) -> None:
        headers = [*self.server_state.default_headers, *refusal.headers]
        self._closes = CLOSE in headers or not self.parser.should_keep_alive()
        if self._closes and CLOSE not in headers:
            headers.append(CLOSE)
        lines = [b"%s: %s\r\n" % header for header in headers]
        answer = b"".join([STATUS_LINE[refusal.status], *lines, b"\r\n", refusal.body])
        self.transport.write_whole(answer)  # type: ignore[attr-defined]
        self.cycle = REFUSED
        self._refused += 1
        self.server_state.total_requests += 1

    def _expect_rest(self) -> None:
        """Wait for the rest of a body that nobody reads, else for the next request."""
        if self.transport.is_closing():
            return
        if self.disconnect.arrived:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
        elif self._rest is None:
            self._rest = self.loop.call_later(self.limits.body_s, self.transport.abort)

    def on_message_complete(self) -> None:
        if self._offers:
            return
        stop(self._rest)
        self._rest = None
        super().on_message_complete()
        self.disconnect.arrived = self._ended = True
        if self._closes:
            self.transport.close()

    def on_response_complete(self) -> None:
        """Let a client that was answered early send the rest of its body for a while, so that the answer is not
        lost with the connection."""
        super().on_response_complete()
        if self.half_closed and self.cycle.response_complete:
            self.transport.close()
        elif self.cycle.response_complete and self.cycle.more_body:
            self._rest = self.loop.call_later(self.limits.body_s, self.transport.abort)
            if self._closes and self.transport.can_write_eof():
                self.transport.write_eof()

    def _lets_send_on(self) -> bool:
        """Return whether the connection stays open after an answer that was to end it, until the client has sent its
        body: many read nothing before, and what lies unread when a connection is closed resets it. Called at each
        attempt to close; the second one succeeds."""
        cycle = self.cycle
        if self._closes or self._rest is not None or cycle is None or cycle is REFUSED:
            return False
        self._closes = cycle.response_complete and cycle.more_body and not self.half_closed
        return self._closes

    def end_work(self) -> None:
        """Cancel the running requests with an error: the server stops."""
        self.disconnect.end()

    def _expect_head(self) -> None:
        self._head_bytes = 0
        if self._head is None:
            self._head = self.loop.call_later(self.limits.head_s, self._head_is_late)

    def _head_is_late(self) -> None:
        self._head = None
        if not self.transport.is_closing():
            self.send_400_response(f"The head of the request did not come within {self.limits.head_s:g} s.")


def guarded_protocol(settings: ServerSettings, door: Door = lambda target, scope: None) -> type[HttpToolsProtocol]:
    """Return a protocol class with these limits; uvicorn makes one object of it for each connection. `door` is asked
    about plain POSTs where somebody may be refused for the load."""
    made = {"limits": settings, "stall_s": settings.stall_s, "door": staticmethod(door)}
    return type("GuardedProtocol", (GuardedProtocol,), made)
