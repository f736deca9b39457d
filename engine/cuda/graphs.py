"""Replay decode steps as captured graphs: the many small launches of a forward pass as one.

A graph does the same work at the same addresses each time. So there is one for each of a few numbers of tokens
(*buckets*); a step takes the next larger one and fills it up with padding: tokens that belong to no sequence, see no
key, and keep nothing. All inputs lie in one buffer, filled by one copy; the logits of all graphs lie in another.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sluicegate.engine.attention.paged import AttentionStep, TokenSpan
from sluicegate.engine.cuda.attend import Tiles
from sluicegate.engine.cuda.capture import Capture, Replay
from sluicegate.engine.cuda.layout import FixedLayout, TritonLayout, tile
from sluicegate.engine.cuda.staging import Staging
from sluicegate.engine.failures import first_line
from sluicegate.engine.memory.kv import KVPool

I64 = npt.NDArray[np.int64]
_LOG = logging.getLogger(__name__)

Compute = Callable[[Tensor, Tensor, AttentionStep], tuple[Tensor, Tensor | None]]
"""Maps ids [T], positions [T] and an attention step to logits [T, V] and, if wanted, the states [T, d] they came from.
It must not depend on the values of its tensors."""


class DecodeGraphs:
    """The captured passes of one model over one pool. For one thread at a time, under `torch.inference_mode`."""

    def __init__(
        self, compute: Compute, pool: KVPool, capture: Capture, *, vocab_size: int, most_tokens: int, table_room: int
    ) -> None:
        """Reserve the buffers that graphs read. `most_tokens`: of a step that is replayed; `table_room`: blocks of all
        its sequences together, at most."""
        self.buckets = buckets_up_to(most_tokens)
        self.refusal = ""
        """Why nothing more is captured; '' = no capture has failed."""
        self._compute = compute
        self._pool = pool
        self._capture = capture
        self._inputs = torch.zeros(7 * most_tokens + table_room, dtype=torch.int64, device=pool.device)
        self._logits = torch.zeros(most_tokens, vocab_size, device=pool.device)
        self._staging = Staging(torch.int64, pool.device)
        self._states: Tensor | None = None
        self._graphs: dict[int, Replay] = {}

    def warm_up(self) -> None:
        """Capture all, the largest first: the others fit into the memory that it needed."""
        for bucket in reversed(self.buckets):
            self._graph(bucket)

    def run(
        self, ids: I64, positions: I64, slots: I64, stretches: Seq[TokenSpan]
    ) -> tuple[Tensor, Tensor | None] | None:
        """Return logits [T, V] float32 of the step's tokens, and states [T, d] where the pass gives them, both valid
        until the next call; None where the step is not one for a graph: a long stretch, too many tokens, or no graphs.
        `ids`, `positions`, `slots` are [T]."""
        if len(ids) > self.buckets[-1] or any(s.count > TritonLayout.longest_short for s in stretches):
            return None
        bucket = self.buckets[bisect_left(self.buckets, len(ids))]
        replay = self._graph(bucket)
        if replay is None or not self._fill(bucket, ids, positions, slots, stretches):
            return None
        replay()
        return self._logits[: len(ids)], None if self._states is None else self._states[: len(ids)]

    def _graph(self, bucket: int) -> Replay | None:
        if bucket not in self._graphs and not self.refusal:
            try:
                self._graphs[bucket] = self._captured(bucket)
            except Exception as error:
                self.refusal = f"{type(error).__name__}: {first_line(error)}"
                self._graphs.clear()
                _LOG.warning(
                    "decode steps are not captured as graphs, every kernel is launched by itself: %s", self.refusal
                )
        return self._graphs.get(bucket)

    def _captured(self, bucket: int) -> Replay:
        self._fill(bucket, *(np.zeros(0, np.int64),) * 3, [])
        inputs, logits = _Inputs.of(self._inputs, bucket), self._logits[:bucket]
        layout = FixedLayout(self._pool, Tiles(inputs.tiles, inputs.tables), inputs.slots)

        def work() -> None:
            computed, states = self._compute(inputs.ids, inputs.positions, layout)
            logits.copy_(computed)
            if states is not None:
                self._room_for(states)[:bucket].copy_(states)

        return self._capture(work)

    def _room_for(self, states: Tensor) -> Tensor:
        """Return room [most tokens, d] for `states` [T, d] of all graphs."""
        if self._states is None:  # not within a capture: whoever captures does the work once before
            self._states = states.new_zeros(len(self._logits), states.shape[-1])
        return self._states

    def _fill(self, bucket: int, ids: I64, positions: I64, slots: I64, stretches: Seq[TokenSpan]) -> bool:
        """Write a step's numbers [T] to the bucket's places, and padding after them; False = its tables have no
        room."""
        tables = [stretch.table for stretch in stretches]
        size = 7 * bucket + sum(map(len, tables))
        if size > len(self._inputs):
            return False
        room, count = self._staging.room(size), len(ids)
        parts = _Inputs.of(room, bucket)
        for part, numbers, padding in ((parts.ids, ids, 0), (parts.positions, positions, 0), (parts.slots, slots, -1)):
            part[:count] = numbers
            part[count:] = padding
        parts.tiles[:] = 0
        parts.tiles[:count] = tile(stretches, TritonLayout.longest_short, 1)[0]
        parts.tiles[:, 0] = np.arange(bucket)
        if tables:
            np.concatenate(tables, out=parts.tables)
        self._staging.send(size, self._inputs)
        return True


@dataclass(frozen=True, slots=True)
class _Inputs:
    """Views of one buffer, on the device or the host: ids, positions, slots [T], tiles [T, 4], then block tables."""

    ids: Any
    positions: Any
    slots: Any
    tiles: Any
    tables: Any

    @classmethod
    def of(cls, buffer: Any, tokens: int) -> _Inputs:
        ids, positions, slots = (buffer[at * tokens : (at + 1) * tokens] for at in range(3))
        return cls(ids, positions, slots, buffer[3 * tokens : 7 * tokens].reshape(tokens, 4), buffer[7 * tokens :])


def buckets_up_to(most: int) -> list[int]:
    """Return 1, 2, 4, 8, then by eighths of the power of two below, in steps of 8 at least: little of a step is
    padding."""
    found = [1]
    while found[-1] < most:
        last = found[-1]
        found.append(last * 2 if last < 8 else last + max(8, (1 << (last.bit_length() - 1)) // 4))
    return [*[bucket for bucket in found if bucket < most], most]
