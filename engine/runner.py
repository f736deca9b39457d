"""One forward pass: a step's batch flattened into one row of tokens, logits for the rows that are sampled."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.attention import InPlaceLayout, StepLayout, Stretch
from engine.kv import KVPool
from engine.model import LoadedModel
from engine.scheduler import Batch, Row
from engine.settings import AttentionKind


class Runner:
    """Owns the KV pool of a model. Used by the engine thread alone, under `torch.inference_mode`."""

    def __init__(
        self, model: LoadedModel, num_blocks: int, block_size: int, *, attention: AttentionKind = "auto"
    ) -> None:
        self._model = model
        self.pool = KVPool(model.layers, num_blocks, block_size, model.dtype, model.device)
        in_place = attention == "auto" and bool(self.pool.key_arrays)
        self._layout_class = InPlaceLayout if in_place else StepLayout
        if in_place:
            self._warm_up()

    def run(self, batch: Batch) -> Tensor:
        """Write keys and values of the batch's tokens; return logits [R, V] float32 of its sampled rows, in order: for
        each the next token's, and one more after every token of its draft.

        Running the same batch again writes the same values to the same places.
        """
        return self._model.logits(
            self._upload(np.concatenate([_ids(row) for row in batch.rows])),
            self._upload(np.concatenate([np.arange(row.start, row.start + row.count) for row in batch.rows])),
            self._upload(_last_of_sampled(batch.rows)),
            self._layout(batch.rows),
        )

    def _warm_up(self) -> None:
        """Compile the kernels now, not under the first request."""
        stretch = Stretch(0, 1, np.zeros(1, np.int64))
        layout = InPlaceLayout(self.pool, [stretch], torch.zeros(1, dtype=torch.int64))
        for layer, shape in enumerate(self.pool.layers):
            layout.attend_short(layer, torch.zeros(1, shape.query_heads, shape.key_dim), None, None, None)

    def scrub(self, blocks: Seq[int]) -> None:
        self.pool.scrub(blocks)

    def _layout(self, rows: list[Row]) -> StepLayout:
        size = self.pool.block_size
        stretches = [_stretch(row, size) for row in rows]
        slots = np.concatenate([_slots(stretch, size) for stretch in stretches])
        return self._layout_class(self.pool, stretches, self._upload(slots))

    def _upload(self, values: npt.NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(values).to(self._model.device)


def _ids(row: Row) -> npt.NDArray[np.int64]:
    end = row.start + row.count - row.drafted
    return np.array(row.sequence.tokens[row.start : end] + row.sequence.draft[: row.drafted], np.int64)


def _stretch(row: Row, block_size: int) -> Stretch:
    blocks = -(-(row.start + row.count) // block_size)
    return Stretch(row.start, row.count, row.sequence.table[:blocks])


def _slots(stretch: Stretch, block_size: int) -> npt.NDArray[np.int64]:
    """Slot mapping: where the KV pool keeps each new token, int64 [count]."""
    positions = np.arange(stretch.start, stretch.end)
    return stretch.table[positions // block_size] * block_size + positions % block_size


def _last_of_sampled(rows: list[Row]) -> npt.NDArray[np.int64]:
    """Places in the flattened row whose logits are needed: a row's last token, and before it those of its draft."""
    ends = list(accumulate(row.count for row in rows))
    wanted = [np.arange(end - 1 - r.drafted, end) for end, r in zip(ends, rows, strict=True) if r.is_last]
    return np.concatenate(wanted) if wanted else np.zeros(0, np.int64)
