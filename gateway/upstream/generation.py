"""A generation that runs elsewhere: asked for, judged, and asked for again where it is no good."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from gateway.upstream.body import with_complaint
from gateway.upstream.client import Client, Reply
from gateway.upstream.events import Broken, chunks, whole
from gateway.upstream.pieces import Reading
from plugins import Job, Piece, UpstreamFailed, Usage

log = logging.getLogger("sluicegate.upstream")


class UpstreamGeneration:
    """A `Generation`. Of a streamed request pieces go on as they come; of others, where the answer has a schema, only
    once it is whole, so that a broken one can be asked for again."""

    def __init__(self, job: Job, client: Client, body: dict[str, Any], reply: Reply, attempts: int) -> None:
        self._job = job
        self._client = client
        self._body = body
        self._reply: Reply | None = reply
        self._attempts = attempts
        self._cancelled = False
        self._spent = Usage()
        """Of answers that were no good; the operator pays for them all the same."""
        self._reading = Reading(job)

    @property
    def usage(self) -> Usage:
        now, before = self._reading.estimated(self._job), self._spent
        return Usage(
            before.prompt_tokens + now.prompt_tokens,
            before.completion_tokens + now.completion_tokens,
            before.cached_tokens + now.cached_tokens,
        )

    def cancel(self) -> None:
        self._cancelled = True
        self._drop()

    async def __aiter__(self) -> AsyncIterator[Piece]:
        """Raises `UpstreamFailed`."""
        try:
            for attempt in range(1, self._attempts + 1):
                released = False
                try:
                    async with contextlib.aclosing(self._pieces()) as pieces:
                        async for piece in pieces:
                            released = True
                            yield piece
                    return
                except Broken as broken:
                    if self._cancelled:
                        return
                    if released or attempt == self._attempts:
                        raise UpstreamFailed(f"the answer of model {self._job.model!r} was no good: {broken}") from None
                    log.warning("request %s: asked again, since %s", self._job.request_id, broken)
                    await self._again(broken)
        finally:
            self._drop()

    async def _pieces(self) -> AsyncGenerator[Piece, None]:
        """Of one answer; whole, where it is to be held until it is judged."""
        held: list[Piece] = []
        request = self._job.request
        holding = self._job.grammar is not None and request is not None and not request.stream
        async with contextlib.aclosing(self._read()) as pieces:
            async for piece in pieces:
                if holding:
                    held.append(piece)
                else:
                    yield piece
        for piece in held:
            yield piece

    async def _read(self) -> AsyncGenerator[Piece, None]:
        """Ends of choices come last, when all that belongs to them has: whoever has them all stops reading."""
        assert self._reply is not None
        ends: list[Piece] = []
        async with contextlib.aclosing(_chunks(self._reply)) as found:
            async for chunk in found:
                for piece in self._reading.feed(chunk, whole=not self._reply.is_stream):
                    if piece.finish_reason is None:
                        yield piece
                    else:
                        ends.append(piece)
        if not self._reading.whole:
            raise Broken("the server called its stream done before every choice had ended")
        await self._reply.finish()
        for piece in ends:
            yield piece

    async def _again(self, broken: Broken) -> None:
        self._drop()
        self._spent = self.usage
        answer = next((choice.text for choice in self._reading.choices if choice.text), "")
        self._reading = Reading(self._job)
        asked = with_complaint(self._body, answer, str(broken)) if answer and self._job.grammar else self._body
        self._reply = await self._client.ask(asked, self._job.traceparent)
        if self._cancelled:
            self._drop()

    def _drop(self) -> None:
        if self._reply is not None:
            self._reply.drop()


async def _chunks(reply: Reply) -> AsyncGenerator[dict[str, Any], None]:
    """Whatever the server made of it: a stream, or all at once."""
    if not reply.is_stream:
        yield await whole(reply.pieces())
        return
    async with contextlib.aclosing(chunks(reply.pieces())) as found:
        async for chunk in found:
            yield chunk
