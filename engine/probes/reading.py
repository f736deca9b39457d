"""Follow one sequence whose tokens are judged by probes: which states are known, and which pieces wait for theirs.

A piece leaves once the states of all its tokens are known, with what the probes say of each. That is one step after
its token was drawn. Tokens of a draft that were not taken, or that a preempted sequence reads again, do not count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from sluicegate.plugins import FinishReason, Piece

Scores = dict[str, float]
"""Log-odds by label, of one token."""


@dataclass(slots=True)
class ProbedReading:
    """Mutable, for one sequence; used by the engine thread alone."""

    known: int
    """Tokens of the sequence whose states are known, those of the prompt among them: they are not judged."""
    ending: FinishReason | None = None
    """It has ended but for its last tokens, whose states a step has yet to compute."""
    silent_end: int = 0
    """1 = the last token only ended the answer: it has no text, and is never read."""
    upto: int = 0
    """Tokens computed when it gave up its blocks; 0 = it has them."""
    _told: int = 0
    _scores: list[Scores] = field(default_factory=list)
    _last: tuple[Scores, ...] = ()
    _held: deque[tuple[Piece, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._told = self.known

    def hold(self, piece: Piece, tokens: int) -> None:
        """Let a piece wait until the states of the first `tokens` tokens are known."""
        self._held.append((piece, tokens))

    def take(self, start: int, scores: Seq[Scores], computed: int) -> None:
        """Take what was found of the tokens from `start` on; of these the first `computed` of the sequence count."""
        if start <= self.known < computed:
            self._scores += scores[self.known - start : computed - start]
            self.known = self.known + len(scores[self.known - start : computed - start])

    def release(self) -> Iterator[Piece]:
        """Yield the pieces all of whose tokens are known, with what was found of them. A piece that has no token of its
        own, as the end of a half character, has what was found of the token before."""
        while self._held and self._held[0][1] <= self.known:
            piece, end = self._held.popleft()
            new = max(0, end - self._told)
            mine, self._scores, self._told = tuple(self._scores[:new]), self._scores[new:], max(end, self._told)
            self._last = mine or self._last
            object.__setattr__(
                piece, "probed", self._last
            )  # nobody else has seen it yet; a copy takes as long as a draw
            yield piece

    def drop(self) -> None:
        """Forget the pieces that wait: what was not judged does not leave."""
        self._held.clear()
