"""Define a batch: which tokens of which sequences a step computes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from sluicegate.engine.batching.prefill_chunking import SHORT
from sluicegate.engine.sequences.sequence import Sequence


class BatchRow(NamedTuple):
    """Tokens [start, start + count) of a sequence, the last `drafted` of them from its draft, to compute in this
    step."""

    sequence: Sequence
    start: int
    count: int  # type: ignore[assignment]  # a tuple has a method of that name
    is_last: bool
    """Whether no token of the sequence is left after this row, so that the next token is sampled from its logits. Set
    when the row is made: once a token is drawn, one is pending again."""
    drafted: int = 0
    """How many of the `count` tokens come from the sequence's draft."""

    @classmethod
    def of(cls, sequence: Sequence, count: int) -> BatchRow:
        """Make a row of the next `count` pending tokens."""
        start = sequence.computed
        is_last = start + count == len(sequence.tokens) and not sequence.reads_rest
        return cls(sequence, start, count, is_last)

    @property
    def decodes(self) -> bool:
        """Return whether the row continues an answer, as opposed to reading a part of a prompt."""
        return self.is_last and self.count - self.drafted <= SHORT


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one step, those with the fewest tokens first."""

    rows: list[BatchRow] = field(default_factory=list)
    fills_blocks: list[Sequence] = field(default_factory=list)
    """Sequences that fill a block in this step; other sequences may then reuse the block."""
    sampled: list[BatchRow] = field(init=False)
    """Rows from whose logits a token is drawn."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sampled", [row for row in self.rows if row[3]])  # by place: half the time

    @property
    def prompt_tokens(self) -> int:
        """Count the prompt tokens of the step; 0 where every row has one token."""
        return 0 if self.rows[-1].count == 1 else sum(row.count for row in self.rows if not row.decodes)

    @property
    def decoding(self) -> int:
        """Count the sequences that decode in this step."""
        return len(self.rows) if self.rows[-1].count == 1 else sum(row.decodes for row in self.rows)
