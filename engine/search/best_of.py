"""Generate more choices than asked for, and return the best: by mean logprob of their tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from sluicegate.engine.sequences.delivery import LiveGeneration
from sluicegate.plugins import Job, Piece, Timeline, Usage
from sluicegate.plugins.contract.answers import join_pieces


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
        choices: list[list[Piece]] = [[] for _ in range(self._inner.job.n)]
        async for piece in self._inner:
            choices[piece.index].append(piece)
        whole = [join_pieces(pieces, pieces[-1]) for pieces in choices]
        ranked = sorted(whole, key=lambda choice: (choice.finish_reason == "cancelled", -_score(choice)))
        for index, choice in enumerate(ranked[: self.job.n]):
            shown = choice.logprobs if self.job.sampling.logprobs is not None else ()
            yield replace(choice, index=index, logprobs=shown)


def _score(choice: Piece) -> float:
    """Return the mean logprob; that of an answer without tokens is the highest possible."""
    return sum(entry.logprob for entry in choice.logprobs) / max(1, len(choice.logprobs))


def widen(job: Job) -> Job:
    """Return the job that generates all `best_of` choices, with logprobs to rank them by. Their pieces are joined, so
    scores must not come behind."""
    logprobs = 0 if job.sampling.logprobs is None else job.sampling.logprobs
    sampling = replace(job.sampling, logprobs=logprobs)
    return replace(job, n=job.sampling.best_of or job.n, sampling=sampling, scores_behind=False)
