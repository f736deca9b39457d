"""Draft with a head that reads the model's states and then its own, token by token: EAGLE-3 and MTP layers.

The head has its own KV cache, of pairs: a state of the model and the token after it. Pairs of draft tokens are
overwritten once the model's own states are known. For a prefix from the cache the model's states are not known: the
head reads from its end on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sluicegate.engine.attention.paged import StepLayout, TokenSpan
from sluicegate.engine.batching.batch import Batch
from sluicegate.engine.batching.runner import ModelRunner
from sluicegate.engine.memory.blocks import BlockPool, OutOfBlocks
from sluicegate.engine.memory.kv import KVPool
from sluicegate.engine.model.chain_head import ChainHead
from sluicegate.engine.model.model import LoadedModel
from sluicegate.engine.sequences.sequence import Sequence, SequenceState
from sluicegate.engine.speculation.draft_sampling import Draft, DraftSampler, Wanted, drafting

READS_AT_ONCE = 32
"""Most pairs of a sequence that may delay its next draft; more of them, as after a prompt, are read after the step."""


@dataclass(slots=True)
class _ChainReading:
    """The head's progress in one sequence: pairs from position `first` on, read up to `known`."""

    first: int
    known: int
    waiting: Tensor
    """States [k, d] of the positions from `known` on; some of those after the sequence's last token are wrong."""
    blocks: list[int] = field(default_factory=list)

    def take(self, start: int, states: Tensor) -> None:
        """Replace the states from position `start` on."""
        self.waiting = torch.cat([self.waiting[: start - self.known], states])


class _ChainRun(NamedTuple):
    """Consecutive pairs of one sequence to read: tokens, and the states [k, d] before them, from position `start`
    on."""

    reading: _ChainReading
    start: int
    tokens: list[int]
    states: Tensor

    def stretch(self, size: int) -> TokenSpan:
        """Return the run's positions in the head's own cache, whose blocks have `size` positions."""
        first, count = self.start - self.reading.first, len(self.tokens)
        return TokenSpan(first, count, np.array(self.reading.blocks[: -(-(first + count) // size)], np.int64))


class ChainDrafter:
    """A `BatchDrafter`. Used by the engine thread alone."""

    def __init__(self, model: LoadedModel, head: ChainHead, runner: ModelRunner, num_blocks: int) -> None:
        """Draft from the states that `runner`, the model's, stores after each step."""
        self.seconds_a_token = 0.0
        self._head = head
        self._runner = runner
        self._device = model.device
        size = runner.pool.block_size
        self._pool = BlockPool(num_blocks, size, reuse=False)
        self._kept = KVPool((head.shape,), num_blocks, size, model.dtype, model.device)
        self._sampler = DraftSampler(model)
        self._readings: dict[Sequence, _ChainReading] = {}

    # --- what a step of the model brought ----------------------------------------------------------------------

    def learn(self, batch: Batch) -> None:
        states, at, runs = self._head.features(self._runner.layer_states), 0, []
        for sequence, start, count, _, _ in batch.rows:
            if not sequence.is_beam:
                reading = self._take(sequence, start, states[at : at + count])
                ready = len(sequence.tokens) - 1 - reading.known
                if ready > READS_AT_ONCE and (run := self._ready(sequence, reading, start + count)) is not None:
                    runs.append(run)
            at += count
        if runs:
            self._read(runs)

    def _take(self, sequence: Sequence, start: int, states: Tensor) -> _ChainReading:
        reading = self._readings.get(sequence)
        if reading is None or not reading.known <= start <= reading.known + len(reading.waiting):
            self._drop(sequence)
            reading = self._readings[sequence] = _ChainReading(start, start, states[:0])
        reading.take(start, states)
        return reading

    def _ready(self, sequence: Sequence, reading: _ChainReading, computed: int) -> _ChainRun | None:
        """Return the pairs whose token and state are final, and count them as read. None where there are none, or no
        free blocks. States from position `computed` on belong to rejected draft tokens."""
        count = min(min(len(sequence.tokens) - 1, computed) - reading.known, len(reading.waiting))
        if count <= 0 or not self._reserve(reading, reading.known + count):
            return None
        start, states = reading.known, reading.waiting[:count]
        reading.known, reading.waiting = start + count, reading.waiting[count:]
        return _ChainRun(reading, start, sequence.tokens[start + 1 : start + 1 + count], states)

    # --- guesses -----------------------------------------------------------------------------------------------

    def guess(self, wanted: Seq[Wanted]) -> list[list[int]]:
        """Draft as `BatchDrafter.guess` says; [] for a sequence without free blocks or states."""
        began = time.perf_counter()
        self.release()
        with drafting(wanted) as guesses:
            rounds = self._grow(guesses)
        found = [guess.found for guess in guesses]
        if rounds:
            self.seconds_a_token += 0.1 * ((time.perf_counter() - began) / rounds - self.seconds_a_token)
        return found

    def _grow(self, guesses: list[Draft]) -> int:
        """Extend all drafts by one token at a time until they are done; return the number of rounds."""
        live, runs = [], []
        for guess in guesses:
            reading = self._readings.get(guess.sequence)
            if reading is None or not self._reserve(reading, len(guess.sequence.tokens) + guess.longest):
                continue
            if (run := self._ready(guess.sequence, reading, guess.sequence.computed)) is not None:
                live.append(guess)
                runs.append(run)
        rounds = 0
        positions = {id(guess): run.start + len(run.tokens) for guess, run in zip(live, runs, strict=True)}
        while live:
            states = dict(zip(map(id, live), self._read(runs), strict=True))
            due = [guess for guess in live if positions[id(guess)] == len(guess.sequence.tokens) + len(guess.found) - 1]
            if due:
                self._sampler.grow(due, self._head.logits(torch.stack([states[id(guess)] for guess in due])))
                rounds += 1
            live = [guess for guess in live if not guess.over]
            runs = [self._next(guess, positions[id(guess)], states[id(guess)]) for guess in live]
            for guess in live:
                positions[id(guess)] += 1
        return rounds

    def _next(self, guess: Draft, position: int, state: Tensor) -> _ChainRun:
        """Return the pair at `position`: the head's own state and the drafted or forced token after it."""
        behind = position + 1 - len(guess.sequence.tokens)
        token = guess.found[behind] if behind >= 0 else guess.sequence.tokens[position + 1]
        return _ChainRun(self._readings[guess.sequence], position, [token], state[None])

    def _read(self, runs: list[_ChainRun]) -> list[Tensor]:
        """Read pairs of several sequences in one pass; return the head's last state [d] for each."""
        order = sorted(range(len(runs)), key=lambda at: len(runs[at].tokens))
        rows, size = [runs[at] for at in order], self._pool.block_size
        stretches = [row.stretch(size) for row in rows]
        pairs = [(row, at) for row, one in zip(rows, stretches, strict=True) for at in range(one.start, one.end)]
        slots = self._tensor([row.reading.blocks[at // size] * size + at % size for row, at in pairs])
        tokens = self._tensor([token for row in rows for token in row.tokens])
        states = self._head.advance(
            tokens,
            torch.cat([row.states for row in rows]),
            self._tensor([at for _, at in pairs]),
            StepLayout(self._kept, stretches, slots),
        )
        lasts = np.cumsum([len(row.tokens) for row in rows]) - 1
        found = dict(zip(order, (states[int(last)] for last in lasts), strict=True))
        return [found[at] for at in range(len(runs))]

    # --- rooms -------------------------------------------------------------------------------------------------

    def release(self) -> None:
        for sequence in [one for one in self._readings if one.state is not SequenceState.RUNNING]:
            self._drop(sequence)

    def close(self) -> None:
        """Return at once: the drafter has no threads."""

    def _drop(self, sequence: Sequence) -> None:
        if (reading := self._readings.pop(sequence, None)) is not None:
            self._pool.release(reading.blocks)

    def _reserve(self, reading: _ChainReading, end: int) -> bool:
        """Take blocks for all positions before `end`; return False if too few are free."""
        missing = self._pool.blocks_for(end - reading.first) - len(reading.blocks)
        try:
            reading.blocks += self._pool.take(missing) if missing > 0 else []
        except OutOfBlocks:
            return False
        return True

    def _tensor(self, values: list[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self._device)
