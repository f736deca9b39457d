"""Run forward passes of a loaded decoder: owns its program, its threads and the inputs of a step."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sluicegate.engine.attention.paged import TokenSpan
from sluicegate.engine.cpu.decoder_parts import turn_cell, turn_kinds, turns_of
from sluicegate.engine.cpu.kernels.attention import scratch_floats
from sluicegate.engine.cpu.kernels.lowrank import FactorTable, lift, span_rows
from sluicegate.engine.cpu.kernels.products_by_form import WIDEST_PANEL
from sluicegate.engine.cpu.operation_table import Cell, Op
from sluicegate.engine.cpu.operations import OPERATIONS, tokens_a_task
from sluicegate.engine.cpu.program import help_out, run
from sluicegate.engine.cpu.table_builder import LinearProbing, Sizes, build_table, operation_kernels, sizes_of
from sluicegate.engine.cpu.threads import ThreadTeam, ring
from sluicegate.engine.cpu.wanted_logits import WantedLogits, mark_rows
from sluicegate.engine.memory.kv import KVPool, LayerShape
from sluicegate.plugins.compiled.kernels import Kernel, address_of

I64 = npt.NDArray[np.int64]
_TOKENS, _SAMPLED, _TASKS = int(Cell.TOKENS), int(Cell.SAMPLED), int(Cell.TASKS)
_SPANS, _TOLD = int(Cell.SPANS), int(Cell.TOLD)


class Decoder:
    """The forward pass of a model of the Llama family, or of Gemma 3, over one KV pool. For one thread at a time."""

    def __init__(
        self,
        module: Any,
        sizes: Sizes,
        layers: tuple[LayerShape, ...],
        pool: KVPool,
        *,
        tokens: int,
        threads: int,
        watched: Seq[int] = (),
        raw: bool = False,
        probing: LinearProbing | None = None,
    ) -> None:
        self.is_probing = probing is not None
        """Whether the pass computes and stores probes."""
        self._rotary, self._turn_kinds = module.model.rotary_emb, turn_kinds(module)
        self._sizes = sizes
        self._task_tokens = tokens_a_task(sizes.heads, sizes.kv_heads)
        self._operations = build_table(
            module, sizes, layers, pool, tokens, () if self.is_probing else watched, raw, probing
        )
        self._state = np.zeros(len(Cell), np.int64)
        self._team = ThreadTeam(self._operations.table, np.array(self._operations.reals), self._state, threads)
        self._scratch = self._make_scratch(pool, tokens)
        self._logits = self._room = torch.empty(0, sizes.vocab)
        self._inputs = np.empty((4, tokens), np.int64)
        self._tasks = np.empty((tokens, 4), np.int64)
        self._order = np.empty((2, tokens), np.int64)
        self._covered = 0
        self._watched: tuple[int, list[Tensor]] = (0, [])
        self._turns: list[Tensor] = []
        self.max_tokens = tokens
        for place, row in zip((Cell.IDS, Cell.POSITIONS, Cell.SLOTS, Cell.WANTED), self._inputs, strict=True):
            self._state[place] = row.ctypes.data
        self._state[Cell.TASK_LIST] = self._tasks.ctypes.data
        self._state[Cell.ORDER], self._state[Cell.MASKS] = (row.ctypes.data for row in self._order)

    def run(
        self,
        ids: I64,
        positions: I64,
        slots: I64,
        wanted: I64,
        stretches: Seq[TokenSpan],
        spans: Seq[tuple[int, int, FactorTable]] = (),
        looked_at: WantedLogits | None = None,
    ) -> Tensor:
        """Return logits [len(wanted), V] float32 at the places `wanted` [R] of the flattened row of T tokens; valid
        until the next call. `ids`, `positions`, `slots` are [T]. `spans`: tokens that have an adapter, as (first,
        count, its table); with `looked_at` the logits it leaves out may be anything, and `states` are in another order.
        """
        count, sampled, adapted = len(ids), len(wanted), span_rows(spans)
        if (length := int(positions.max()) + 1) > self._covered:
            self._cover(length)
        logits = self._room_for(sampled)
        state, inputs = self._state, self._inputs
        inputs[0, :count], inputs[1, :count], inputs[2, :count], inputs[3, :sampled] = ids, positions, slots, wanted
        state[_TOKENS], state[_SAMPLED], state[_TASKS] = count, sampled, self._share_out(stretches)
        state[_SPANS], state[_TOLD] = len(adapted), 0 if looked_at is None else looked_at.address
        if spans:
            state[Cell.SPAN_LIST] = adapted.ctypes.data
            if not state[Cell.LIFT]:
                self._add_adapters()
        self._team.run()
        return logits

    def close(self) -> None:
        """Stop the helper threads."""
        self._team.close()

    def states(self, rows: int) -> Tensor:
        """Return the states [rows, d] float32 behind the last call's logits, valid as long as those; not after a call
        with `looked_at`."""
        assert self._operations.states is not None
        return self._operations.states[:rows, : self._sizes.hidden]

    def layer_states(self, tokens: int) -> list[Tensor]:
        """Return the states [tokens, d] float32 of each watched layer after the last call; valid until the next.
        Returns the same list while the number of tokens is unchanged."""
        if self._watched[0] != tokens:
            rooms = self._operations.layer_states
            self._watched = tokens, [kept[:tokens, : self._sizes.hidden] for kept in rooms]
        return self._watched[1]

    def _add_adapters(self) -> None:
        """Add the kernels for adapters to the program, when the first adapter is used."""
        self._team.put(Op.LOWER, address_of(OPERATIONS[Op.LOWER]))
        self._state[Cell.LIFT] = address_of(lift)

    def _share_out(self, stretches: Seq[TokenSpan]) -> int:
        """Write the list of attention tasks; return their number."""
        found: list[int] = []
        token, step = 0, self._task_tokens
        for start, count, table, address, _ in stretches:
            address = address or table.ctypes.data
            for at in range(0, count, step):
                found += (token + at, min(step, count - at), start + at, address)
            token += count
        tasks = len(found) // 4
        self._tasks.ravel()[: len(found)] = found
        return tasks

    def _cover(self, length: int) -> None:
        """Compute cosines and sines for positions below `length`, rounded up to a power of two."""
        positions = torch.arange(max(512, 1 << (length - 1).bit_length()))[None]
        self._turns = []
        for kind in self._turn_kinds:
            turns, cell = turns_of(self._rotary, kind, positions), turn_cell(kind)
            self._state[cell], self._state[cell + 1] = (turn.data_ptr() for turn in turns)
            self._turns += turns
        self._covered = positions.shape[1]

    def _room_for(self, rows: int) -> Tensor:
        """Return a buffer [rows, V] for logits, reused while the number of rows stays the same."""
        if self._room.shape[0] != rows:
            if self._logits.shape[0] < rows:
                self._logits = torch.empty(rows, self._sizes.vocab)
                self._state[Cell.LOGITS] = self._logits.data_ptr()
            self._room = self._logits[:rows]
        return self._room

    def _make_scratch(self, pool: KVPool, tokens: int) -> Tensor:
        group = self._sizes.heads // self._sizes.kv_heads
        floats = max(scratch_floats(group, pool.block_size, self._sizes.dim), 2 * tokens * WIDEST_PANEL)
        floats = -(-floats // 16) * 16
        scratch = torch.empty(self._team.size, floats)
        self._state[Cell.SCRATCH], self._state[Cell.SCRATCH_BYTES] = scratch.data_ptr(), 4 * floats
        return scratch


def program_kernels(module: Any, layers: tuple[LayerShape, ...], *, probing: bool = False) -> list[Kernel]:
    """Return the kernels that a decoder of this model calls; [] where `decoder_for` would return None."""
    if sizes_of(module, layers) is None:
        return []
    return [*operation_kernels(module, probing=probing), run, help_out, ring, mark_rows]


def decoder_for(
    module: Any,
    layers: tuple[LayerShape, ...],
    pool: KVPool,
    *,
    tokens: int,
    threads: int,
    watched: Seq[int] = (),
    raw: bool = False,
    probing: LinearProbing | None = None,
) -> Decoder | None:
    """Return a decoder; None unless the model is of the Llama family or Gemma 3, in float32 on a CPU. `watched`: layers
    whose states are stored; `raw`: store them unscaled. `probing`: probes to compute in place of storing states."""
    sizes = sizes_of(module, layers)
    if sizes is None:
        return None
    return Decoder(
        module, sizes, layers, pool, tokens=tokens, threads=threads, watched=watched, raw=raw, probing=probing
    )
