"""Generate more choices than asked for, and return the best: by mean logprob of their tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace

from sluicegate.engine.sequences.delivery import LiveGeneration
from sluicegate.plugins import ClosedBy, FinishReason, Job, Piece, Timeline, TokenLogprob, Usage


@dataclass(slots=True)
class _Choice:
    index: int
    text: str = ""
    tokens: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    reason: FinishReason | None = None
    closed: ClosedBy = ""
    probed: tuple[Mapping[str, float], ...] = ()
    joined: tuple[tuple[int, int], ...] = ()

    @property
    def score(self) -> float:
        """Return the mean logprob; that of an answer without tokens is the highest possible."""
        return sum(entry.logprob for entry in self.logprobs) / max(1, len(self.logprobs))


class BestOf:
    """A `Generation` around one with more choices and with logprobs. Yields its pieces after all choices have ended."""

    def __init__(self, inner: LiveGeneration, job: Job) -> None:
        """Wrap `inner`, which runs `widen(job)`, to answer `job`."""
        self.job = job
        self._inner = inner

    @property
    def usage(self) -> Usage:
        """Count the tokens of all generated choices, as OpenAI does."""
        return self._inner.usage

    @property
    def timeline(self) -> Timeline:
        return self._inner.timeline

    async def begin(self) -> None:
        await self._inner.begin()

    def cancel(self) -> None:
        self._inner.cancel()

    async def __aiter__(self) -> AsyncIterator[Piece]:
        choices = [_Choice(index) for index in range(self._inner.job.n)]
        async for piece in self._inner:
            choice = choices[piece.index]
            choice.text += piece.text
            choice.tokens += piece.token_ids
            choice.logprobs += piece.logprobs
            choice.reason = piece.finish_reason or choice.reason
            choice.closed = choice.closed or piece.closed
            choice.probed += piece.probed
            choice.joined += piece.joined or ((len(piece.text), len(piece.probed)),)
        ranked = sorted(choices, key=lambda choice: (choice.reason == "cancelled", -choice.score))
        for index, choice in enumerate(ranked[: self.job.n]):
            shown = tuple(choice.logprobs) if self.job.sampling.logprobs is not None else ()
            yield Piece(
                index,
                choice.text,
                tuple(choice.tokens),
                shown,
                choice.reason,
                closed=choice.closed,
                probed=choice.probed,
                joined=choice.joined if choice.probed else (),
            )


def widen(job: Job) -> Job:
    """Return the job that generates all `best_of` choices, with logprobs to rank them by."""
    logprobs = 0 if job.sampling.logprobs is None else job.sampling.logprobs
    return replace(job, n=job.sampling.best_of or job.n, sampling=replace(job.sampling, logprobs=logprobs))
