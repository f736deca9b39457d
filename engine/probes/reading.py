"""Hold back the pieces of a probed sequence until the probes have scored their tokens.

A token's states are known one step after it was drawn; then its piece is released with the scores. States of rejected
draft tokens, and of tokens recomputed after a preemption, are ignored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from sluicegate.plugins import FinishReason, Piece

Scores = dict[str, float]
"""Log-odds of one token, by label."""


@dataclass(slots=True)
class ProbedReading:
    """Scores and held pieces of one sequence. Mutable; used by the engine thread alone."""

    known: int
    """Number of tokens whose states are known, the prompt's included; those are not judged."""
    ending: FinishReason | None = None
    """Set when the answer has ended except for its last tokens, whose states are computed by a later step."""
    silent_end: int = 0
    """1 = the last token only ended the answer: it has no text, and its state is never read."""
    upto: int = 0
    """Number of tokens computed when it gave up its blocks; 0 = it still has them."""
    _told: int = 0
    _scores: list[Scores] = field(default_factory=list)
    _last: tuple[Scores, ...] = ()
    _held: deque[tuple[Piece, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._told = self.known

    def hold(self, piece: Piece, tokens: int) -> None:
        """Hold a piece until the first `tokens` tokens of the sequence are scored."""
        self._held.append((piece, tokens))

    def take(self, start: int, scores: Seq[Scores], computed: int) -> None:
        """Record the scores of tokens from `start` on. Those past the first `computed` tokens, of rejected drafts, are
        dropped."""
        known = self.known
        if start == known and known + len(scores) <= computed:  # a decode step: all that came is new, and counts
            self._scores += scores
            self.known = known + len(scores)
        elif start <= known < computed:
            new = scores[known - start : computed - start]
            self._scores += new
            self.known = known + len(new)

    @property
    def is_due(self) -> bool:
        """Return whether `release` would yield a piece."""
        return bool(self._held) and self._held[0][1] <= self.known

    def release(self) -> Iterator[Piece]:
        """Yield the pieces whose tokens are all scored, with their scores. A piece without a token of its own (the end
        of a split character) gets the scores of the token before."""
        while self._held and self._held[0][1] <= self.known:
            piece, end = self._held.popleft()
            new = end - self._told
            if new > 0:
                self._last = tuple(self._scores[:new])
                del self._scores[:new]
                self._told = end
            object.__setattr__(
                piece, "probed", self._last
            )  # nobody else has seen it yet; a copy takes as long as a draw
            yield piece

    def drop(self) -> None:
        """Discard the held pieces: text that was not scored must not leave."""
        self._held.clear()
