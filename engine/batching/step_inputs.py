"""Flatten a step's batch into one row of tokens."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from sluicegate.engine.attention.paged import TokenSpan
from sluicegate.engine.batching.batch import BatchRow
from sluicegate.engine.model.lora_batch import Span

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StepInputs:
    """A step's tokens in one flattened row: ids, positions and slots in the pool, int64 [T].

    `wanted` int64 [R]: indices of the tokens whose logits are needed, a row's last token and the `drafted` ones before
    it.
    """

    ids: I64
    positions: I64
    slots: I64
    wanted: I64
    stretches: list[TokenSpan]
    """Their block tables may be longer than needed; see `cut`."""
    spans: list[Span] = field(default_factory=list)
    """Runs of tokens that use an adapter."""
    is_cut: bool = False

    @classmethod
    def of(cls, rows: Seq[BatchRow], block_size: int) -> StepInputs:
        """Flatten rows in the order of a batch. The id of a token still being drawn, after the last of its sequence, is
        0."""
        if rows[-1].count == 1:
            return cls._of_single_tokens(rows, block_size)
        ids: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        wanted: list[int] = []
        spans: list[Span] = []
        for row in rows:
            sequence, end = row.sequence, row.start + row.count
            if sequence.adapter is not None:
                spans.append((len(ids), row.count, sequence.adapter))
            ids += sequence.tokens[row.start : end - row.drafted]
            ids += sequence.draft[: row.drafted]
            ids += [0] * (end - row.drafted - len(sequence.tokens))
            positions += range(row.start, end)
            blocks = sequence.blocks
            slots += [blocks[at // block_size] * block_size + at % block_size for at in range(row.start, end)]
            if row.is_last:
                wanted += range(len(ids) - 1 - row.drafted, len(ids))
        made = [np.array(values, np.int64) for values in (ids, positions, slots, wanted)]
        return cls(made[0], made[1], made[2], made[3], [_stretch(row) for row in rows], spans)

    @classmethod
    def _of_single_tokens(cls, rows: Seq[BatchRow], block_size: int) -> StepInputs:
        """Flatten rows of one token each, the common case, in one loop over the sequences."""
        ids: list[int] = []
        slots: list[int] = []
        stretches: list[TokenSpan] = []
        spans: list[Span] = []
        new = tuple.__new__
        for sequence, start, _, _, _ in rows:
            if sequence.adapter is not None:
                spans.append((len(ids), 1, sequence.adapter))
            tokens = sequence.tokens
            ids.append(tokens[start] if start < len(tokens) else 0)
            slots.append(sequence.blocks[start // block_size] * block_size + start % block_size)
            stretches.append(new(TokenSpan, (start, 1, sequence.table, sequence.table_address, sequence.state_slot)))
        wanted = [at for at, row in enumerate(rows) if row[3]]
        made = [np.array(values, np.int64) for values in (ids, [row[1] for row in rows], slots, wanted)]
        return cls(made[0], made[1], made[2], made[3], stretches, spans)

    def cut(self, block_size: int) -> list[TokenSpan]:
        """Return the stretches with block tables cut to the blocks they use."""
        if self.is_cut:
            return self.stretches
        new = tuple.__new__
        return [
            new(TokenSpan, (start, count, table[: (start + count - 1) // block_size + 1], address, state_slot))
            for start, count, table, address, state_slot in self.stretches
        ]

    def trimmed(self, block_size: int) -> StepInputs:
        """Return a copy whose stretches are `cut`."""
        return replace(self, stretches=self.cut(block_size), is_cut=True)


def _stretch(row: BatchRow) -> TokenSpan:
    return TokenSpan(row.start, row.count, row.sequence.table, row.sequence.table_address, row.sequence.state_slot)
