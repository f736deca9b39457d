"""Deliver pieces from the engine thread to the event loop: a step's pieces in one call per loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from sluicegate.engine.failures import as_failure
from sluicegate.plugins import Job, Piece, SluicegateError, Timeline, Usage


class LiveGeneration:
    """A running `Job`: an async iterable of pieces, for one consumer on the event loop that created it.

    `cached_tokens` and `timeline` are written by the engine thread and read anywhere.
    """

    __slots__ = (
        "__weakref__", "_error", "_news", "_on_cancel", "_open_choices", "_pieces", "cached_tokens", "job", "loop",
        "timeline",
    )  # fmt: skip

    def __init__(self, job: Job, on_cancel: Callable[[LiveGeneration], None]) -> None:
        self.job = job
        self.loop = asyncio.get_running_loop()
        self.cached_tokens = 0
        self.timeline = Timeline(explain=job.explain)
        self._on_cancel = on_cancel
        self._pieces: deque[Piece] = deque()
        self._news = asyncio.Event()
        self._error: SluicegateError | None = None
        self._open_choices = job.n

    @property
    def completion_tokens(self) -> int:
        return self.timeline.tokens

    @property
    def usage(self) -> Usage:
        return Usage(len(self.job.prompt.token_ids), self.completion_tokens, self.cached_tokens)

    @property
    def is_over(self) -> bool:
        """Return whether every piece has been received, read or not. On the event loop."""
        return self._open_choices <= 0 or self._error is not None

    @property
    def has_begun(self) -> bool:
        """Return whether a first step has started."""
        return self.timeline.started_s is not None

    async def begin(self) -> None:
        """Return at once: `Engine.generate` has already queued the job."""

    def cancel(self) -> None:
        """End unfinished choices with `finish_reason="cancelled"`; their blocks are free within one step."""
        if not self.is_over:
            self._on_cancel(self)

    async def __aiter__(self) -> AsyncIterator[Piece]:
        """Yield pieces. Raises the engine's error if generation fails. Leaving the iteration early cancels."""
        try:
            while self._open_choices > 0 or self._pieces:
                while self._pieces:
                    yield self._pieces.popleft()
                if self._error is not None:
                    raise self._error
                if self._open_choices > 0:
                    await self._news.wait()
                    self._news.clear()
        finally:
            self.cancel()

    def fail(self, error: Exception) -> None:
        """Make an unfinished iteration raise `error`. From any thread."""
        _hand_over(self.loop, [(self, as_failure(error, "the engine"))])

    def receive(self, news: Piece | SluicegateError) -> None:
        """Queue a piece, or record an error, for the consumer. On the event loop."""
        if isinstance(news, Piece):
            self._pieces.append(news)
            self._open_choices -= news.finish_reason is not None
        elif self._open_choices > 0:
            self._error = self._error or news
        self._news.set()


class Outbox:
    """Pieces and errors of the current step, in order. Used by the engine thread alone."""

    def __init__(self) -> None:
        self._parcels: list[_Parcel] = []

    def add(self, generation: LiveGeneration, piece: Piece) -> None:
        self._parcels.append((generation, piece))

    def fail(self, generation: LiveGeneration, error: SluicegateError) -> None:
        self._parcels.append((generation, error))

    def flush(self) -> list[LiveGeneration]:
        """Send everything to the consumers, one call per event loop. Returns the generations whose loop is closed."""
        if not self._parcels:
            return []
        parcels, self._parcels = self._parcels, []
        by_loop: dict[asyncio.AbstractEventLoop, list[_Parcel]] = {}
        for parcel in parcels:
            by_loop.setdefault(parcel[0].loop, []).append(parcel)
        lost = [g for loop, theirs in by_loop.items() if not _hand_over(loop, theirs) for g, _ in theirs]
        return list(dict.fromkeys(lost))


_Parcel = tuple[LiveGeneration, Piece | SluicegateError]


def _hand_over(loop: asyncio.AbstractEventLoop, parcels: list[_Parcel]) -> bool:
    try:
        loop.call_soon_threadsafe(_receive_all, parcels)
    except RuntimeError:  # the loop is closed: nobody can be waiting
        return False
    return True


def _receive_all(parcels: list[_Parcel]) -> None:
    for generation, news in parcels:
        generation.receive(news)
