"""Draw draft tokens for several sequences at once from any logits, and append forced tokens.

A draft token is drawn by the rule, under the mask and with the random number of its position, as the real token will
be. So equal distributions give equal draws, not only for greedy rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import dataclass, field

from torch import Tensor

from sluicegate.engine.batching.sample_rows import SampleRow
from sluicegate.engine.model.model import LoadedModel
from sluicegate.engine.sampling.bitmasks import forbid, words_for
from sluicegate.engine.sampling.outcomes import MaskRows, SampledToken
from sluicegate.engine.sampling.sampler import Sampler
from sluicegate.engine.sequences.sequence import Sequence
from sluicegate.plugins import GrammarTooCostly, TokenRejected

Wanted = tuple[Sequence, int]
"""(sequence, number of tokens to draft for it)."""


@dataclass(slots=True, eq=False)
class Draft:
    """The growing draft of one sequence. Until it is done it is the sequence's `draft`, and the matcher follows it."""

    sequence: Sequence
    longest: int
    found: list[int] = field(default_factory=list)
    over: bool = False

    @property
    def row(self) -> SampleRow:
        return SampleRow(self.sequence, len(self.found))

    def accept(self, token: int) -> bool:
        """Append a token if the grammar allows it; return False if the draft is finished."""
        matcher = self.sequence.matcher
        try:
            if matcher is not None:
                matcher.accept(token)
        except (TokenRejected, GrammarTooCostly):
            self.over = True
            return False
        self.found.append(token)
        self.over = len(self.found) >= self.longest or (matcher is not None and matcher.is_finished)
        return not self.over

    def follow_the_grammar(self) -> None:
        matcher = self.sequence.matcher
        while not self.over and matcher is not None and (forced := matcher.forced_tokens()):
            for token in forced:
                if not self.accept(token):
                    return


@contextmanager
def drafting(wanted: Seq[Wanted]) -> Iterator[list[Draft]]:
    """Yield drafts to extend; afterwards restore the sequences' drafts and roll their matchers back."""
    guesses = [Draft(sequence, longest) for sequence, longest in wanted]
    before = [sequence.draft for sequence, _ in wanted]
    for guess in guesses:
        guess.sequence.draft = guess.found
    try:
        yield guesses
    finally:
        for guess, draft in zip(guesses, before, strict=True):
            guess.sequence.draft = draft
            if guess.sequence.matcher is not None and guess.found:
                guess.sequence.matcher.rollback(len(guess.found))


class DraftSampler:
    """Draws one more token for each of several drafts."""

    def __init__(self, model: LoadedModel) -> None:
        self._vocab = model.vocab_size
        self._eos = model.eos_token_ids
        self._sampler = Sampler(model.usable_vocab, model.eos_token_ids, model.device)

    def grow(self, guesses: list[Draft], logits: Tensor) -> None:
        """Draw a token for each draft from `logits` [len(guesses), V] float32, which is overwritten."""
        outcomes = self._sampler.draw(logits, [guess.row for guess in guesses], self._masks(guesses))
        for guess, outcome in zip(guesses, outcomes, strict=True):
            if not isinstance(outcome, SampledToken):
                guess.over = True
            elif guess.accept(outcome.token_id):
                if outcome.token_id in self._eos and not guess.sequence.sampling.ignore_eos:
                    guess.over = True
                guess.follow_the_grammar()

    def _masks(self, guesses: list[Draft]) -> MaskRows:
        bitmask = self._sampler.room(len(guesses), words_for(self._vocab))
        masked: list[int] = []
        free: set[int] = set()
        for index, guess in enumerate(guesses):
            matcher = guess.sequence.matcher
            if matcher is None:
                continue
            try:
                if not matcher.fill_mask(bitmask[len(masked)]):
                    free.add(index)
                    continue
            except GrammarTooCostly:  # without a mask it is not drawn from, and the guess is over
                continue
            if not guess.row.may_end:
                forbid(bitmask[len(masked)], self._eos)
            masked.append(index)
        unending = [i for i, guess in enumerate(guesses) if not guess.row.may_end and i not in masked]
        return MaskRows(masked, bitmask[: len(masked)], frozenset(free), unending)
