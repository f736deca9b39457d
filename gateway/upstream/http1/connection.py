"""One connection to a server: writes a request, reads its answer, and says whether it can be used again.

Whatever a server sends is bounded: heads, interim heads, and bytes that are of no body. What comes unasked closes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from sluicegate.gateway.upstream.http1.alarm import Alarm
from sluicegate.gateway.upstream.http1.failures import BadResponse, ConnectionClosed
from sluicegate.gateway.upstream.http1.response import AT_ONCE, Response, Written

MOST_INTERIM = 16
"""Heads before the answer's own, such as "100 Continue"."""
MOST_HEADERS = 256
LONGEST_HEADER = 8190
"""Bytes of its name and its value."""
MOST_BARREN = 64 * 1024
"""Bytes in a row that bring no byte of a body: of heads, of what stands around chunks, of what follows the last."""
SLICE = 16 * 1024
"""Bytes that are parsed before anybody asks whether the body's reader keeps up."""
BODILESS = frozenset((204, 304))


class HttpConnection(asyncio.Protocol):
    """Serves one request at a time. The callbacks of the parser are `on_...`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, over: Callable[[HttpConnection, bool], None]) -> None:
        """Make an unconnected protocol. `over` is called after each whole answer with True where another request may
        follow, and once with False when the connection is closed."""
        self._loop = loop
        self._over = over
        self._alarm = Alarm(loop, self._late)
        self._parser = HttpResponseParser(self)
        self._transport: Any = None
        self.is_closed = False
        self.idle_since = 0.0
        self._head: asyncio.Future[Response] | None = None
        """Of the answer that is awaited, or comes; None: nothing was asked."""
        self._response: Response | None = None
        self._headers: dict[bytes, bytes] = {}
        self._written: Written | None = None
        """Called, once, when the request was written."""
        self._is_full = False
        """What was written waits here for the socket."""
        self._interim = self._barren = 0
        self._keeps = self._until_close = self._is_whole = False
        self._rest: bytes | memoryview = b""
        """What came and is not parsed yet."""
        self._is_paused = False

    # --- a request ---------------------------------------------------------------------------------------------

    async def ask(self, request: bytes, written: Written, until: float) -> Response:
        """Send a request and return its answer when the head has come. `written` is called when the whole request has
        been sent. Raises `HttpFailure`, `TimeoutError` at `until`, in the loop's time."""
        if self.is_closed:
            raise ConnectionClosed("the server closed the connection")
        head: asyncio.Future[Response] = self._loop.create_future()
        self._head = head
        self._written = written
        self._alarm.set(until)
        self._transport.write(request)
        if not self._is_full:
            self.resume_writing()
        try:
            return await head
        except BaseException:
            if self._head is head:  # else the answer is whole, and somebody else may be served already
                self.abort()
            raise

    def expect(self, until: float) -> None:
        self._alarm.set(until)

    def taken(self) -> None:
        if self._is_paused:
            self._parse_rest()
            self._balance()

    def abort(self) -> None:
        """Close at once. An incomplete answer fails."""
        self._fail(ConnectionClosed("the connection was given up"))

    def _late(self) -> None:
        self._fail(TimeoutError("nothing came in time"))

    # --- the socket --------------------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(0)  # so that `resume_writing` says when all of a request left

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        written, self._written = self._written, None
        if written is not None:
            written()

    def data_received(self, data: bytes) -> None:
        if self._head is None:
            self.abort()
            return
        if self._rest or len(data) > SLICE:
            self._rest = memoryview(bytes(self._rest) + data)
            self._parse_rest()
        else:
            self._parse(data)
        self._balance()

    def eof_received(self) -> None:
        """Let the connection be closed: a server that sends no more gets no request either."""
        if self._head is None:
            self._close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._until_close and exc is None and not self._rest and self._response is not None:
            self._keeps = False
            self._end()
        elif self._rest and self._response is not None:
            self._close()  # what came is read first; it ends as a failure unless the answer's end is there
        else:
            self._fail(ConnectionClosed("the server closed the connection"))

    def _balance(self) -> None:
        """Resume reading where the received bytes were taken, else pause it."""
        waits = bool(self._rest) or (self._response is not None and self._response.held >= AT_ONCE)
        if waits == self._is_paused or self._transport.is_closing():
            return
        self._is_paused = waits
        if waits:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # --- parsing -----------------------------------------------------------------------------------------------

    def _parse_rest(self) -> None:
        while self._rest and self._head is not None and (self._response is None or self._response.held < AT_ONCE):
            part, self._rest = self._rest[:SLICE], self._rest[SLICE:]
            self._parse(part)
        if self.is_closed and not self._rest and self._response is not None:
            self._fail(ConnectionClosed("the server closed the connection"))

    def _parse(self, data: bytes | memoryview) -> None:
        self._barren += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._keeps = False
        except HttpParserError as error:
            self._keeps = False  # what follows an answer is no part of it
            if not self._is_whole:
                self._fail(_reason(error))
                return
        if self._is_whole:
            self._end()
        elif self._barren > MOST_BARREN:
            self._fail(BadResponse(f"the server sent {MOST_BARREN} bytes that are of no body"))

    def on_message_begin(self) -> None:
        if self._is_whole:
            raise BadResponse("the server sent more than it was asked for")
        self._headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._response is not None:
            return  # behind the last chunk
        if len(name) + len(value) > LONGEST_HEADER:
            raise BadResponse(f"the server sent a header of more than {LONGEST_HEADER} bytes")
        name, headers = name.lower(), self._headers
        if name in headers:
            headers[name] += b", " + value
        elif len(headers) < MOST_HEADERS:
            headers[name] = value
        else:
            raise BadResponse(f"the server sent more than {MOST_HEADERS} headers")

    def on_headers_complete(self) -> None:
        status, headers = self._parser.get_status_code(), self._headers
        if 100 <= status < 200 and status != 101:
            self._interim += 1
            if self._interim > MOST_INTERIM:
                raise BadResponse("the server goes on with heads that begin nothing")
            return
        packed = headers.get(b"transfer-encoding")
        if packed is not None and packed.lower() != b"chunked":
            raise BadResponse("the body is packed on its way")
        self._until_close = packed is None and b"content-length" not in headers and status not in BODILESS
        self._keeps = self._parser.should_keep_alive()
        self._response = Response(self, status, headers)
        self._alarm.clear()
        if self._head is not None and not self._head.done():
            self._head.set_result(self._response)

    def on_body(self, body: bytes) -> None:
        self._barren = 0
        if self._response is not None:
            self._response.add(body)

    def on_message_complete(self) -> None:
        self._is_whole = self._response is not None  # else it was an interim head

    # --- ends --------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """End the exchange: the answer is complete."""
        response = self._response
        assert response is not None
        keeps = self._keeps and self._written is None and not self._rest and not self.is_closed
        self._head = self._response = None
        self._rest, self._interim, self._barren = b"", 0, 0
        self._is_whole = self._until_close = False
        self._alarm.clear()
        response.end()
        if keeps:
            self._over(self, True)
        else:
            self._close()

    def _fail(self, failure: OSError) -> None:
        head, response = self._head, self._response
        self._head = self._response = None
        self._rest = b""
        if response is not None:
            response.fail(failure)
        if head is not None and not head.done():
            head.set_exception(failure)
            head.exception()  # whoever asked may have been cancelled, and take it no more
        self._close()

    def _close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._alarm.close()
        self._written = None
        if self._transport is not None:
            self._transport.abort()
        self._over(self, False)


def _reason(error: HttpParserError) -> BadResponse:
    """Return our own error where a callback raised it, else the parser's."""
    found = error.__context__
    return found if isinstance(found, BadResponse) else BadResponse(f"the server sent no HTTP/1.1: {error}")
