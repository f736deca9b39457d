"""List the rows of logits that a step samples from, and whether all of them take the fast path."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import NamedTuple

from sluicegate.engine.batching.batch import BatchRow
from sluicegate.engine.sampling.params import DrawRule
from sluicegate.engine.sampling.rows import SequencesCache
from sluicegate.engine.sequences.sequence import Sequence


class SampleRow(NamedTuple):
    """One row of logits, for the token after the first `ahead` draft tokens of a sequence, if those are accepted."""

    sequence: Sequence
    ahead: int = 0

    @property
    def rule(self) -> DrawRule:
        return self.sequence.rule

    @property
    def seed(self) -> int:
        return self.sequence.seed

    @property
    def position(self) -> int:
        """Return the index of the drawn token in the output."""
        sequence = self.sequence
        return len(sequence.tokens) - sequence.prompt_length + self.ahead

    @property
    def prompt_length(self) -> int:
        return self.sequence.prompt_length

    @property
    def tokens(self) -> list[int]:
        return self.sequence.tokens + self.guessed

    @property
    def history(self) -> list[int]:
        return self.sequence.tokens

    @property
    def guessed(self) -> list[int]:
        return self.sequence.draft[: self.ahead]

    @property
    def is_constrained(self) -> bool:
        return self.sequence.matcher is not None

    @property
    def is_explained(self) -> bool:
        return self.sequence.timeline.explain

    @property
    def looks_at_allowed_only(self) -> bool:
        """Return whether sampling ignores the logits of masked tokens: no logprobs are reported, and no filter changes
        logits before the mask."""
        sequence = self.sequence
        rule = sequence.rule
        return rule.is_plain and rule.logprobs is None and not sequence.is_beam and not sequence.timeline.explain

    @property
    def may_end(self) -> bool:
        return self.position >= self.sequence.sampling.min_tokens


class SampleRows(NamedTuple):
    draws: list[SampleRow]
    """One entry for each row of logits."""
    is_plain: bool
    """Whether each row draws one token whose text goes straight to the reader; see `Sequence.is_plain`."""
    is_constrained: bool
    """Whether any row has a grammar."""


class SampleRowCache:
    """Reuses the last step's sample rows while the batch holds the same sequences and no drafts."""

    def __init__(self) -> None:
        self._same: SequencesCache[BatchRow, SampleRows] = SequencesCache(_sample_rows)

    def of(self, rows: Seq[BatchRow]) -> SampleRows:
        return _sample_rows(rows) if any(row.drafted for row in rows) else self._same.of(rows)

    def release(self) -> None:
        """Drop the cached rows, and with them all references to sequences."""
        self._same.forget()


def _sample_rows(rows: Seq[BatchRow]) -> SampleRows:
    draws = [SampleRow(row.sequence, ahead) for row in rows for ahead in range(row.drafted + 1)]
    is_plain = len(draws) == len(rows) and all(row.sequence.is_plain for row in rows)
    return SampleRows(draws, is_plain, any(row.sequence.matcher is not None for row in rows))
