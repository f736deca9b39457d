"""A generation that runs on another server: requested, judged, and requested again if unusable."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate.gateway.telemetry.tries import INVALID, Try
from sluicegate.gateway.upstream.bounds import SPARE_BYTES
from sluicegate.gateway.upstream.events import Broken, Malformed, StreamCut, TimeUp, alone, chunks
from sluicegate.gateway.upstream.reading.counting import added, unanswered, within_one
from sluicegate.gateway.upstream.reading.pieces import UpstreamReading
from sluicegate.gateway.upstream.reading.tool_calls import OfferedTools
from sluicegate.gateway.upstream.request_body import with_complaint
from sluicegate.gateway.upstream.transport.client import Client
from sluicegate.gateway.upstream.transport.reply import Reply
from sluicegate.gateway.upstream.transport.server import TryCounter
from sluicegate.plugins import DeadlineExceeded, Job, Piece, Timeline, UpstreamFailed, Usage
from sluicegate.plugins.frozen import frozen_when_checked

log = logging.getLogger("sluicegate.upstream")
NOTHING = Usage()
BREATH = 64
"""Chunks after which others have their turn, however fast the server sends."""


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class UpstreamCall:
    """What to send to which server. `context`: the model's length there."""

    job: Job
    client: Client
    body: dict[str, Any]
    offered: OfferedTools
    attempts: int
    context: int


class UpstreamGeneration:
    """A `Generation` that starts with `begin`, or when iterated. Streamed requests pass pieces on as they come; others
    with a schema or tools hold them until the answer is whole, so that a broken one can be requested again.

    `usage` counts from the moment that a prompt was written to the server, whatever becomes of the answer."""

    def __init__(self, asked: UpstreamCall) -> None:
        self._asked = asked
        self._job = asked.job
        self._body = asked.body
        self._reply: Reply | None = None
        self.timeline: Timeline | None = None
        self._cancelled = False
        self._tries = TryCounter()
        self._spent = NOTHING
        """Of answers that were no good; the operator pays for them all the same."""
        self._reading = UpstreamReading(asked.job, asked.offered, asked.context)
        limit_s = asked.job.deadline_s
        self._deadline = None if limit_s is None else asyncio.get_running_loop().time() + limit_s

    @property
    def usage(self) -> Usage:
        """Return the tokens used; never more than one answer can use, which is what was reserved."""
        now = self._now()[0]
        if self._spent == NOTHING:
            return now
        return within_one(self._asked.offered.request, self._asked.context, added(self._spent, now))

    @property
    def tries(self) -> Sequence[Try]:
        """Return all attempts at all servers, the newest last."""
        return tuple(self._tries.made)

    def cancel(self) -> None:
        self._cancelled = True
        self._drop()

    async def begin(self) -> None:
        """Return once the server has begun to answer. Raises what `Client.ask` raises, and `DeadlineExceeded`."""
        client, traceparent = self._asked.client, self._job.traceparent
        try:
            self._reply = await client.ask(self._body, self._tries, traceparent, self._deadline)
        except TimeUp:
            raise self._late() from None
        if self._cancelled:
            self._drop()

    async def __aiter__(self) -> AsyncIterator[Piece]:
        """Yield the pieces of the answer. Raises `UpstreamFailed`, and `DeadlineExceeded`."""
        try:
            if self._reply is None:
                await self.begin()
            for attempt in range(1, self._asked.attempts + 1):
                released = False
                try:
                    reply = self._reply
                    if reply is not None and not reply.is_stream:
                        for piece in await self._whole(reply):
                            yield piece
                        return
                    async with contextlib.aclosing(self._pieces()) as pieces:
                        async for piece in pieces:
                            released = True
                            yield piece
                    return
                except Broken as broken:
                    if self._cancelled:
                        return
                    self._note_failure(broken)
                    if released or attempt == self._asked.attempts or isinstance(broken, Malformed):
                        self._asked.client.broken += 1
                        raise UpstreamFailed(f"the answer of model {self._job.model!r} was no good: {broken}") from None
                    log.warning("request %s: asked again, since %s", self._job.request_id, broken)
                    await self._again(broken)
        except TimeUp:
            raise self._late() from None
        finally:
            self._drop()

    def _pieces(self) -> AsyncGenerator[Piece, None]:
        """Return the pieces of one stream, held until it is judged where that is needed."""
        request = self._asked.offered.request
        holding = (self._job.grammar is not None or bool(request.callable_tools)) and not request.stream
        return self._held() if holding else self._read()

    async def _held(self) -> AsyncGenerator[Piece, None]:
        async with contextlib.aclosing(self._read()) as pieces:
            held = [piece async for piece in pieces]
        for piece in held:
            yield piece

    async def _read(self) -> AsyncGenerator[Piece, None]:
        """Yield the pieces of a stream, ends of choices last: the reader stops once it has all of them."""
        reply, reading = self._reply, self._reading
        assert reply is not None
        ends: list[Piece] = []
        count = 0
        body = self._body_of(reply)
        found = chunks(body, reading.bounds)
        async with contextlib.aclosing(body), contextlib.aclosing(found):
            async for chunk in found:
                count += 1
                for piece in reading.feed(chunk):
                    reply.progressed()
                    if piece.finish_reason is None:
                        yield piece
                    else:
                        ends.append(piece)
                if reading.cut:
                    break
                if count % BREATH == 0:
                    await asyncio.sleep(0)
        await self._finish(reply)
        for piece in ends:
            yield piece

    async def _whole(self, reply: Reply) -> list[Piece]:
        """Return the pieces of an answer that comes at once, ends of choices last; nothing leaves before all of it is
        judged."""
        async with contextlib.aclosing(self._body_of(reply)) as body:
            chunk = await alone(body, self._reading.bounds)
        pieces = list(self._reading.feed(chunk, whole=True))
        await self._finish(reply)
        return pieces if len(pieces) == 1 else sorted(pieces, key=lambda piece: piece.finish_reason is not None)

    def _body_of(self, reply: Reply) -> AsyncGenerator[bytes, None]:
        return reply.pieces(self._deadline, self._reading.bounds.event_bytes + SPARE_BYTES)

    async def _finish(self, reply: Reply) -> None:
        """Note that the answer was read. Raises `StreamCut` where a choice has no end."""
        if not self._reading.whole:
            raise StreamCut("the server called its stream done before every choice had ended")
        self._note_claim()
        if self._reading.cut:
            self._asked.client.cut += 1
            reply.drop()
        else:
            await reply.finish()

    async def _again(self, broken: Broken) -> None:
        failed = self._reply.server if self._reply is not None and isinstance(broken, StreamCut) else None
        self._drop()
        if not isinstance(broken, StreamCut):  # a stream that a server cut is nothing that the caller had
            self._spent = added(self._spent, self._now()[0])
        answer = next((text for choice in self._reading.choices if (text := choice.text)), "")
        self._reply, self._tries = None, self._tries.next(failed)
        self._reading = UpstreamReading(self._job, self._asked.offered, self._asked.context)
        if answer and self._job.grammar:
            self._body = with_complaint(self._asked.body, answer, str(broken))
        await self.begin()

    def _now(self) -> tuple[Usage, bool]:
        """Return (usage of this answer, whether the server's reported usage was rejected). However often it was tried,
        it counts once; where no server answered, the prompt counts if one of them may have read it."""
        if self._reply is not None:
            return self._reading.usage()
        return unanswered(self._asked.offered.request, self._asked.context) if self._tries.read else Usage(), False

    def _note_failure(self, broken: Broken) -> None:
        """Count a cut or malformed stream against the server. An answer against its schema says nothing about the
        server."""
        reply = self._reply
        if reply is not None and isinstance(broken, StreamCut | Malformed):
            reply.failed("cut" if isinstance(broken, StreamCut) else "malformed")
        elif self._tries.made:
            self._tries.made[-1].end(INVALID)

    def _note_claim(self) -> None:
        if self._now()[1]:
            self._asked.client.disbelieve(self._job.request_id)

    def _late(self) -> DeadlineExceeded:
        return DeadlineExceeded(
            f"the {self._job.deadline_s:g} s that the request was given are over; ask for less, or give it more time"
        )

    def _drop(self) -> None:
        if self._reply is not None:
            self._reply.drop()
