"""A loaded decoder, ready to compute steps: the program, its threads, and the step's numbers in the places it reads."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.attention import Stretch
from engine.cpu.lowrank import FactorTable, span_rows
from engine.cpu.operations import tokens_a_task
from engine.cpu.paged import scratch_floats
from engine.cpu.products import PANEL
from engine.cpu.recipe import Sizes, sizes_of, write_recipe
from engine.cpu.table import State
from engine.cpu.team import Team
from engine.kv import KVPool, LayerShape

I64 = npt.NDArray[np.int64]
_INPUTS = (State.IDS, State.POSITIONS, State.SLOTS, State.WANTED)


class Decoder:
    """The forward pass of a model of the Llama family over one KV pool. For one thread at a time."""

    def __init__(
        self, module: Any, sizes: Sizes, layers: tuple[LayerShape, ...], pool: KVPool, *, tokens: int, threads: int
    ) -> None:
        self._rotary = module.model.rotary_emb
        self._sizes = sizes
        self._task_tokens = tokens_a_task(sizes.heads, sizes.kv_heads)
        self._recipe = write_recipe(module, sizes, layers, pool, tokens)
        self._state = np.zeros(len(State), np.int64)
        self._team = Team(self._recipe.table, np.array(self._recipe.reals), self._state, threads)
        self._scratch = self._make_scratch(pool, tokens)
        self._logits = torch.empty(0, sizes.vocab)
        self._turns: list[Tensor] = []
        self.max_tokens = tokens

    def run(
        self,
        ids: I64,
        positions: I64,
        slots: I64,
        wanted: I64,
        stretches: Seq[Stretch],
        spans: Seq[tuple[int, int, FactorTable]] = (),
    ) -> Tensor:
        """Logits [len(wanted), V] float32 at the places `wanted` of the flattened row; valid until the next call.
        `spans`: tokens that have an adapter, as (first, count, its table)."""
        tasks, adapted = self._tasks(stretches), span_rows(spans)
        self._cover(max(stretch.end for stretch in stretches))
        logits = self._room_for(len(wanted))
        state = self._state
        state[State.TOKENS], state[State.SAMPLED], state[State.TASKS] = len(ids), len(wanted), len(tasks)
        for place, array in (
            (State.IDS, ids),
            (State.POSITIONS, positions),
            (State.SLOTS, slots),
            (State.WANTED, wanted),
        ):
            state[place] = array.ctypes.data
        state[State.TASK_LIST], state[State.LOGITS] = tasks.ctypes.data, logits.data_ptr()
        state[State.SPANS], state[State.SPAN_LIST] = len(adapted), adapted.ctypes.data
        self._team.run()
        return logits

    def states(self, rows: int) -> Tensor:
        """What the last call's logits came from: [rows, d] float32, valid as long as they."""
        assert self._recipe.states is not None
        return self._recipe.states[:rows, : self._sizes.hidden]

    def _tasks(self, stretches: Seq[Stretch]) -> I64:
        found: list[tuple[int, int, int, int]] = []
        token, step = 0, self._task_tokens
        for stretch in stretches:
            table = stretch.table.ctypes.data
            for at in range(0, stretch.count, step):
                found.append((token + at, min(step, stretch.count - at), stretch.start + at, table))
            token += stretch.count
        return np.array(found, np.int64)

    def _cover(self, length: int) -> None:
        """Have cosines and sines for positions below `length`."""
        if self._turns and len(self._turns[0]) >= length:
            return
        positions = torch.arange(max(512, 1 << (length - 1).bit_length()))[None]
        cosines, sines = self._rotary(torch.zeros(1), positions)
        self._turns = [cosines[0].float().contiguous(), sines[0].float().contiguous()]
        self._state[State.COSINES], self._state[State.SINES] = (turn.data_ptr() for turn in self._turns)

    def _room_for(self, rows: int) -> Tensor:
        if len(self._logits) < rows:
            self._logits = torch.empty(rows, self._sizes.vocab)
        return self._logits[:rows]

    def _make_scratch(self, pool: KVPool, tokens: int) -> Tensor:
        group = self._sizes.heads // self._sizes.kv_heads
        floats = max(scratch_floats(group, pool.block_size, self._sizes.dim), 2 * tokens * PANEL)
        floats = -(-floats // 16) * 16
        scratch = torch.empty(self._team.size, floats)
        self._state[State.SCRATCH], self._state[State.SCRATCH_BYTES] = scratch.data_ptr(), 4 * floats
        return scratch


def decoder_for(
    module: Any, layers: tuple[LayerShape, ...], pool: KVPool, *, tokens: int, threads: int
) -> Decoder | None:
    """None where the model is not of the family, or not in float32 on a CPU."""
    sizes = sizes_of(module, layers)
    return None if sizes is None else Decoder(module, sizes, layers, pool, tokens=tokens, threads=threads)
