"""Hold back the pieces of a probed sequence until the probes have scored their tokens.

A token's states are known one step after it was drawn; then its piece may leave with the scores. Whoever reads by
sentence gets several pieces as one. Whoever does not wait for scores gets each piece at once, and the scores of many in
a piece of their own when a block of the pool is full: what a probe costs is then no work for each token.

Scores are read when pieces leave, or the sequence gives up its blocks. Those of rejected draft tokens are never read,
since a sequence does not count them as computed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from itertools import accumulate, repeat

from sluicegate.engine.probes.score_pool import Columns, ScorePool
from sluicegate.plugins import FinishReason, Piece, TokenScores
from sluicegate.plugins.contract.answers import join_pieces
from sluicegate.plugins.contract.sentence_ends import SentenceWatch

MOST_JOINED = 16
"""Most pieces that wait for the end of a sentence."""
BEHIND = 128
"""Texts whose scores follow together, where nobody waits for them."""


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
    sizes: list[int] = field(default_factory=list)
    """Characters of the texts that left and whose scores have not, of a token each unless `note` said otherwise; always
    the same list. A text of one token is noted by appending to it: that is all a step does for who does not wait."""
    _counts: list[int] = field(default_factory=list)
    """Tokens of the first of these texts; the others have one."""
    _noted: int = 0
    """Tokens of the sequence up to the last text in `_counts`."""
    _due_to: int = 0
    """Pieces of the first `_due_to` tokens should leave as soon as these are scored."""
    _scores: Columns = field(init=False)
    """Scores that were read and that no text has got."""
    _last: Columns = field(init=False)
    """Those of the last text that had any."""
    _held: list[tuple[Piece, int]] = field(default_factory=list)
    _watch: SentenceWatch = field(default_factory=SentenceWatch)

    def __post_init__(self) -> None:
        self._noted = self.known
        self._scores, self._last = self.pool.read((), 0, 0), self.pool.read((), 0, 0)

    def hold(self, piece: Piece, tokens: int) -> bool:
        """Hold a piece until the first `tokens` tokens of the sequence are scored. Return whether it should leave
        then. `joined` of a piece of several tokens says how much of its text each of them made final."""
        self._held.append((piece, tokens))
        if self.by_sentence and not self._watch.feed(piece.text) and len(self._held) < MOST_JOINED:
            return False
        self._due_to = tokens
        return True

    def note(self, piece: Piece, tokens: int) -> None:
        """Note a piece that leaves before its scores, with the first `tokens` tokens of the sequence."""
        self._count_single_tokens()
        self._note(piece, tokens)
        object.__setattr__(piece, "joined", ())  # nobody else has seen it yet, and a copy takes as long as a draw

    @property
    def is_due(self) -> bool:
        """Return whether pieces should leave as soon as their tokens are scored."""
        return bool(self._held) and self._held[0][1] <= self._due_to

    def collect(self, blocks: Seq[int], computed: int) -> None:
        """Read the scores of the first `computed` tokens, whose keys and values are in `blocks`. Must be called before
        the blocks are given up."""
        if computed > self.known:
            for column, new in zip(self._scores, self.pool.read(blocks, self.known, computed), strict=True):
                column += new
            self.known = computed

    def bring(self, index: int, blocks: Seq[int], computed: int) -> Piece | None:
        """Return the scores of texts that have left, as a piece of choice `index` without text; None while they are
        less than `BEHIND`. `blocks` and `computed` as for `collect`."""
        if not self.behind or len(self.sizes) < BEHIND:
            return None
        self.collect(blocks, computed)
        return self._with_scores(Piece(index, behind=True))

    def release(self) -> Piece | None:
        """Return the pieces whose tokens are all scored as one, with their scores; None if there are none. A piece
        without a token of its own (the end of a split character) gets the scores of the token before. Where scores
        come behind, return the last piece, with the scores of all before it and its own."""
        if self.behind:
            return self._last_behind()
        leaving, known = self._held, self.known
        if leaving and leaving[-1][1] <= known:
            self._held = []
        else:
            leaving = [held for held in leaving if held[1] <= known]
            del self._held[: len(leaving)]
        if not leaving:
            return None
        for piece, tokens in leaving:
            self._note(piece, tokens)
        pieces = [piece for piece, _ in leaving]
        return self._with_scores(join_pieces(pieces, pieces[-1]))

    def drop(self) -> None:
        """Discard the held pieces: text that was not scored must not leave."""
        self._held.clear()

    def _last_behind(self) -> Piece | None:
        if not self._held:
            return None
        piece, tokens = self._held[-1]
        self.note(piece, tokens)
        object.__setattr__(piece, "behind", True)
        return self._with_scores(piece)

    def _note(self, piece: Piece, tokens: int) -> None:
        parts = piece.joined or ((len(piece.text), tokens - self._noted),)
        self.sizes += [size for size, _ in parts]
        self._counts += [count for _, count in parts]
        self._noted = tokens

    def _count_single_tokens(self) -> None:
        """Count the texts of one token that were noted by their size alone."""
        if singles := len(self.sizes) - len(self._counts):
            self._counts += [1] * singles
            self._noted += singles

    def _with_scores(self, piece: Piece) -> Piece:
        """Give `piece`, which has not left yet, the scores of all noted texts whose scores are known; those of the
        others are never told."""
        if piece.behind and not self._counts and len(self.sizes) == len(self._scores[0]):
            return self._with_scores_of_singles(piece)
        self._count_single_tokens()
        parts = bisect_right(list(accumulate(self._counts)), len(self._scores[0]))
        sizes, counts = self.sizes[:parts], self._counts[:parts]
        tokens = sum(counts)
        scores = [column[:tokens] for column in self._scores]
        del self.sizes[:parts], self._counts[:parts]
        for column in self._scores:
            del column[:tokens]
        if 0 in counts:
            scores, counts = self._repeated(scores, sizes, counts)
        elif counts:
            self._last = [column[-counts[-1] :] for column in scores]
        joined = [part for part in zip(sizes, counts, strict=True) if part != (0, 0)]
        is_one = len(sizes) == 1 and not piece.behind
        return self._given(piece, scores, () if is_one else tuple(joined))

    def _with_scores_of_singles(self, piece: Piece) -> Piece:
        """Do as `_with_scores`, where every noted text is of one token whose score is known."""
        scores, joined = self._scores, tuple(zip(self.sizes, repeat(1)))
        self._noted += len(joined)
        self.sizes.clear()
        self._scores, self._last = [[] for _ in scores], [column[-1:] for column in scores]
        return self._given(piece, scores, joined)

    def _given(self, piece: Piece, scores: Columns, joined: tuple[tuple[int, int], ...]) -> Piece:
        object.__setattr__(piece, "probed", TokenScores(dict(zip(self.pool.labels, scores, strict=True))))
        object.__setattr__(piece, "joined", joined)
        return piece

    def _repeated(self, scores: Columns, sizes: list[int], counts: list[int]) -> tuple[Columns, list[int]]:
        """Return scores and their counts with those taken last for each text that has no token of its own."""
        found: Columns = [[] for _ in scores]
        told: list[int] = []
        last, at = self._last, 0
        for size, count in zip(sizes, counts, strict=True):
            last = [column[at : at + count] for column in scores] if count else last
            at += count
            mine = last if count or size else [[] for _ in scores]
            for column, values in zip(found, mine, strict=True):
                column += values
            told.append(len(mine[0]))
        self._last = last
        return found, told
