"""A response of a server whose head has arrived: read within time limits, or dropped."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Protocol

from sluicegate.gateway.telemetry.tries import ANSWERED, LOST, Try
from sluicegate.gateway.upstream.events import Malformed, StreamCut, TimeUp
from sluicegate.gateway.upstream.http1.response import AT_ONCE, Response
from sluicegate.gateway.upstream.settings import UpstreamModelSettings

FINISH_S = 0.05
A_PIECE = 256
"""What one piece counts for besides its bytes."""
PLAIN = ("", "identity")
"""What `content-encoding` may be: nothing packed was asked for, and a few packed bytes may be very many."""


class Reply(Protocol):
    """A response whose head has arrived, with a body to be read or dropped."""

    @property
    def is_stream(self) -> bool: ...

    @property
    def server(self) -> int:
        """Return the number of the server that answers."""

    def pieces(self, until: float | None, most_unused: int) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the answer. Raises `TimeUp` at `until`, in the loop's time. `most_unused`: the most bytes
        of a stream between two things that belong to the answer."""

    def progressed(self) -> None:
        """Restart the silence timer: bytes of the answer arrived."""

    def failed(self, why: str) -> None:
        """Report that the body was cut or is malformed; counts against the server."""

    async def finish(self) -> None:
        """Return the connection to the pool if the server ends the response at once; everything needed was read."""

    def drop(self) -> None: ...


class Answering(Protocol):
    """The server that a reply comes from."""

    number: int
    running: int

    def answered(self) -> None: ...

    def broke_off(self) -> None: ...

    def fell_silent(self) -> None: ...


class LiveReply:
    def __init__(
        self,
        answer: Response,
        server: Answering,
        settings: UpstreamModelSettings,
        began: float,
        attempt: Try,
    ) -> None:
        """Begin to read an answer. `began`: when the request was sent, in the event loop's time. The request counts as
        running until the reply is dropped."""
        self._answer = answer
        self._server = server
        self._try = attempt
        self._idle_s = settings.idle_s
        self._open = True
        self._alive = False
        """Bytes came since something last belonged to the answer; `_unused`: how many."""
        self._unused = 0
        self.is_stream = answer.header(b"content-type").lower().startswith("text/event-stream")
        self._whole_until = began + settings.whole_s
        now = asyncio.get_running_loop().time()
        self._patience_s = max(settings.idle_s, began + settings.first_s - now)
        """How long the server may still be waited for before something comes that belongs to the answer."""

    @property
    def server(self) -> int:
        return self._server.number

    def progressed(self) -> None:
        self._patience_s, self._alive, self._unused = self._idle_s, False, 0

    async def pieces(self, until: float | None, most_unused: int) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the answer. Raises `Broken` where the connection breaks, falls silent or takes too long,
        `TimeUp` past `until`. Only time in which the server is waited for counts as silence."""
        if self._answer.header(b"content-encoding").lower() not in PLAIN:
            raise Malformed("the server packed its answer, which was not asked for")
        clock, answer = asyncio.get_running_loop().time, self._answer
        ends = self._whole_until if until is None else min(until, self._whole_until)
        taken = 0
        try:
            while True:
                now = clock()
                piece = answer.take() or await answer.read(min(now + self._patience_s, ends))
                if not piece:
                    return
                read = clock()
                if read >= ends:
                    raise TimeoutError
                self._patience_s, self._alive = self._patience_s - (read - now), True
                self._unused += len(piece)
                if not self.is_stream:
                    self.progressed()
                elif self._unused > most_unused:
                    raise Malformed("the server sent too much that belongs to no answer")
                yield piece
                taken += len(piece) + A_PIECE
                if taken > AT_ONCE:  # what lies ready is read without waiting
                    taken = 0
                    await asyncio.sleep(0)
        except TimeoutError as error:
            raise self._silent(clock(), until) from error
        except OSError as error:
            raise StreamCut("the connection broke in the middle of the stream") from error

    def _silent(self, now: float, until: float | None) -> Exception:
        if until is not None and now >= until:
            return TimeUp()
        if now >= self._whole_until:
            return Malformed("the server took longer for its answer than it may")
        if not self._alive:  # one that sends comments is not gone: others are to go on asking it
            self._server.fell_silent()
            self._try.end("silent")
        return StreamCut("the server fell silent in the middle of its answer")

    def failed(self, why: str) -> None:
        if self._try.ended_s is None:
            self._server.broke_off()
        self._try.end(why)

    async def finish(self) -> None:
        self._server.answered()
        self._try.end(ANSWERED)
        if self._answer.at_end:
            return
        with contextlib.suppress(OSError):
            await self._answer.read(asyncio.get_running_loop().time() + FINISH_S)

    def drop(self) -> None:
        """Close the connection, unless the answer was read to its end; the server sees that nobody listens."""
        if self._open:
            self._open = False
            self._try.end(LOST)
            self._server.running -= 1
            self._answer.close()
