"""Slot `generate`: ends a generation after so many seconds, wherever it is.

Not covered: a structured answer that is cut short is no valid one; its `finish_reason` says `length`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

from sluicegate.plugins import Generation, Generator, Job, Piece, ServedModel, Timeline, Usage
from sluicegate_every_slot.wrapping import Wrapping


class Deadline(Wrapping[Generator]):
    def __init__(self, inner: Generator, seconds: float) -> None:
        super().__init__(inner)
        self._seconds = seconds

    @property
    def models(self) -> Mapping[str, ServedModel]:
        return self.inner.models

    async def generate(self, job: Job) -> Hurried:
        return Hurried(await self.inner.generate(job), job.n, self._seconds)

    def stats(self) -> Mapping[str, float]:
        return self.inner.stats()


class Hurried:
    """The inner generation until its time is up; then every choice that is still open ends with `length`."""

    def __init__(self, inner: Generation, n: int, seconds: float) -> None:
        self._inner = inner
        self._open = set(range(n))
        self._seconds = seconds

    @property
    def timeline(self) -> Timeline | None:
        return self._inner.timeline

    async def begin(self) -> None:
        await self._inner.begin()

    async def __aiter__(self) -> AsyncIterator[Piece]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._seconds
        pieces = aiter(self._inner)
        while self._open:
            try:
                async with asyncio.timeout_at(deadline):
                    piece = await anext(pieces)
            except StopAsyncIteration:
                return
            except TimeoutError:
                break
            if piece.finish_reason is not None:
                self._open.discard(piece.index)
            yield piece
        self.cancel()
        for index in sorted(self._open):
            yield Piece(index, finish_reason="length")

    def cancel(self) -> None:
        self._inner.cancel()

    @property
    def usage(self) -> Usage:
        return self._inner.usage
