"""Hold back the pieces of a probed sequence until the probes have scored their tokens.

A token's states are known one step after it was drawn; then its piece may leave with the scores. Whoever reads by
sentence gets several pieces as one, and whoever does not wait for scores gets each piece at once and the scores of
several later: what a probe costs is then no work for each token.

Scores are read when pieces leave, or the sequence gives up its blocks. Those of rejected draft tokens are never read,
since a sequence does not count them as computed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from itertools import accumulate

from sluicegate.engine.probes.score_pool import ScorePool, Scores
from sluicegate.plugins import FinishReason, Piece
from sluicegate.plugins.contract.answers import join_pieces
from sluicegate.plugins.contract.sentence_ends import SentenceWatch

MOST_JOINED = 16
"""Most pieces that wait for the end of a sentence."""
BEHIND = 32
"""Pieces whose scores follow together, where nobody waits for them."""


@dataclass(slots=True)
class ProbedReading:
    """Scores and held pieces of one sequence. Mutable; used by the engine thread alone."""

    pool: ScorePool
    known: int
    """Number of tokens whose scores have been read, the prompt's included; those are not judged."""
    by_sentence: bool = False
    """Whether pieces are joined up to the end of a sentence."""
    behind: bool = False
    """Whether pieces leave before their scores, which later pieces bring."""
    ending: FinishReason | None = None
    """Set when the answer has ended except for its last tokens, whose states are computed by a later step."""
    silent_end: int = 0
    """1 = the last token only ended the answer: it has no text, and its state is never read."""
    _due_to: int = 0
    """Pieces of the first `_due_to` tokens should leave as soon as these are scored."""
    _told: int = 0
    _scores: list[Scores] = field(default_factory=list)
    _last: tuple[Scores, ...] = ()
    _held: list[tuple[Piece, int]] = field(default_factory=list)
    _watch: SentenceWatch = field(default_factory=SentenceWatch)
    _sizes: list[int] = field(default_factory=list)
    _counts: list[int] = field(default_factory=list)
    """Characters and tokens of the pieces that left and whose scores have not."""
    _noted: int = 0

    def __post_init__(self) -> None:
        self._told = self._noted = self.known

    def hold(self, piece: Piece, tokens: int) -> bool:
        """Hold a piece until the first `tokens` tokens of the sequence are scored. Return whether it should leave
        then. `joined` of a piece of several tokens says how much of its text each of them made final."""
        self._held.append((piece, tokens))
        if self.behind:
            self._note(piece, tokens)
        if self.by_sentence and not self._watch.feed(piece.text) and len(self._held) < MOST_JOINED:
            return False
        self._due_to = tokens
        return True

    def follow(self, piece: Piece, tokens: int, blocks: Seq[int], computed: int) -> None:
        """Note a piece that leaves at once, with the first `tokens` tokens of the sequence. It brings the scores of the
        pieces before it if these are `BEHIND`; `blocks` and `computed` as for `collect`.

        Keeps no piece: what is freed late is memory that the next step has to fetch."""
        if len(self._sizes) < BEHIND or self._noted > computed:
            self._note(piece, tokens)
            return
        self.collect(blocks, computed)
        sizes, counts, scores = self._take()
        self._note(piece, tokens)
        _bring(piece, sizes, counts, scores)

    @property
    def is_due(self) -> bool:
        """Return whether pieces should leave as soon as their tokens are scored."""
        return bool(self._held) and self._held[0][1] <= self._due_to

    def collect(self, blocks: Seq[int], computed: int) -> None:
        """Read the scores of the first `computed` tokens, whose keys and values are in `blocks`. Must be called before
        the blocks are given up."""
        if computed > self.known:
            self._scores += self.pool.read(blocks, self.known, computed)
            self.known = computed

    def release(self) -> Piece | None:
        """Return the pieces whose tokens are all scored as one, with their scores; None if there are none. A piece
        without a token of its own (the end of a split character) gets the scores of the token before. Where scores
        come behind, return the last piece, with the scores of all before it and its own."""
        if self.behind:
            return _bring(self._held[-1][0], *self._take()) if self._held else None
        leaving, known = self._held, self.known
        if leaving and leaving[-1][1] <= known:
            self._held = []
        else:
            leaving = [held for held in leaving if held[1] <= known]
            del self._held[: len(leaving)]
        return self._joined(leaving) if leaving else None

    def drop(self) -> None:
        """Discard the held pieces: text that was not scored must not leave."""
        self._held.clear()

    def _joined(self, pieces: Seq[tuple[Piece, int]]) -> Piece:
        for piece, end in pieces:  # set in place: nobody else has seen it yet, and a copy takes as long as a draw
            if piece.joined:
                parts = [self._scores_of(size, self._told + count) for size, count in piece.joined]
                joined = tuple([(size, len(part)) for (size, _), part in zip(piece.joined, parts, strict=True)])
                object.__setattr__(piece, "probed", tuple([scores for part in parts for scores in part]))
                object.__setattr__(piece, "joined", joined)
            else:
                object.__setattr__(piece, "probed", self._scores_of(len(piece.text), end))
        return join_pieces([piece for piece, _ in pieces], pieces[-1][0])

    def _note(self, piece: Piece, tokens: int) -> None:
        if piece.joined:
            self._sizes += [size for size, _ in piece.joined]
            self._counts += [count for _, count in piece.joined]
            object.__setattr__(piece, "joined", ())
        else:
            self._sizes.append(len(piece.text))
            self._counts.append(tokens - self._noted)
        self._noted = tokens

    def _take(self) -> tuple[list[int], list[int], list[Scores]]:
        """Take characters and tokens of all noted pieces whose scores are known, and these scores; those of the others
        are never told."""
        parts = bisect_right(list(accumulate(self._counts)), len(self._scores))
        sizes, counts = self._sizes[:parts], self._counts[:parts]
        scores = self._scores[: sum(counts)]
        del self._sizes[:parts], self._counts[:parts], self._scores[: len(scores)]
        if 0 in counts:
            scores, counts = self._repeated(scores, sizes, counts)
        self._last = tuple(scores[-counts[-1] :]) if counts and counts[-1] else self._last
        return sizes, counts, scores

    def _repeated(self, scores: list[Scores], sizes: list[int], counts: list[int]) -> tuple[list[Scores], list[int]]:
        """Return scores and their counts with those taken last for each text that has no token of its own."""
        found: list[Scores] = []
        told: list[int] = []
        last, at = list(self._last), 0
        for size, count in zip(sizes, counts, strict=True):
            last = scores[at : at + count] if count else last
            at += count
            mine = last if count or size else []
            found += mine
            told.append(len(mine))
        return found, told

    def _scores_of(self, size: int, end: int) -> tuple[Scores, ...]:
        """Take the scores of the tokens up to `end` that no text has got yet, for a text of `size` characters. One
        without any gets those taken last."""
        if (new := end - self._told) > 0:
            self._last, self._told = tuple(self._scores[:new]), end
            del self._scores[:new]
            return self._last
        return self._last if size else ()


def _bring(piece: Piece, sizes: Seq[int], counts: Seq[int], scores: Seq[Scores]) -> Piece:
    """Give `piece`, which has not left yet, the scores of texts of these `sizes` with `counts` tokens."""
    object.__setattr__(piece, "probed", tuple(scores))
    object.__setattr__(piece, "joined", tuple([part for part in zip(sizes, counts, strict=True) if part != (0, 0)]))
    object.__setattr__(piece, "behind", True)
    return piece
