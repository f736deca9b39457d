"""Penalise, mask and draw on CPUs, in a few passes over a row and without sorting the vocabulary.

The reference is `engine.sampling.torch_draws.TorchDraws`; tests compare the two row by row.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sluicegate.engine.cpu.kernels.long_rows import CHUNK, largest, padded, strike, weigh
from sluicegate.engine.cpu.kernels.nucleus import draw_cut
from sluicegate.engine.sampling.bitmasks import Bitmask, words_for
from sluicegate.engine.sampling.rng import mixed_seed
from sluicegate.engine.sampling.rows import LogitsRow, SequencesCache
from sluicegate.engine.sampling.torch_draws import Note
from sluicegate.plugins.compiled.kernels import kernel


class CpuDraws:
    """Implements `Draws` for logits [R, V] float32 in CPU memory; see `TorchDraws`."""

    def __init__(self) -> None:
        self._rules: SequencesCache[LogitsRow, _Rules] = SequencesCache(_rules)
        self._seen: tuple[Tensor, npt.NDArray[np.float32]] | None = None
        """The last step's logits and the same memory as an array: the next step's logits mostly lie in the same
        tensor."""

    def warm_up(self) -> None:
        """Compile the kernels now, not under the first request."""
        logits = np.zeros((1, 32), np.float32)
        _penalise(logits[0], np.zeros(1, np.int64), 0, 1.0, 0.0, 0.0)
        _refuse(logits, np.zeros(1, np.int64), np.full((1, 1), -1, np.int32))
        numbers = np.array([[1.0, 1.0, 0.5, 0.1]])
        zeros = np.zeros(1, np.uint64)
        best, tokens, masks = np.empty(1, np.float32), np.empty(1, np.int64), np.full(1, -1)
        _choose(logits, numbers, zeros, zeros, best, tokens, _NO_MASKS, masks)

    def penalise(self, logits: Tensor, rows: Seq[LogitsRow]) -> None:
        for index, row in enumerate(rows):
            rule = row.rule
            if rule.penalises:
                tokens = np.array(row.tokens, np.int64)
                _penalise(
                    logits[index].numpy(), tokens, row.prompt_length, rule.repetition, rule.frequency, rule.presence
                )

    def room(self, rows: int, words: int) -> Bitmask:
        return np.zeros((rows, words), np.int32)

    def refuse(self, logits: Tensor, rows: list[int], bitmask: Bitmask) -> None:
        assert bitmask.shape[1] >= words_for(logits.shape[1]), "a mask that is too short"
        _refuse(logits.numpy(), np.array(rows, np.int64), bitmask)

    def choose(
        self, logits: Tensor, rows: Seq[LogitsRow], masked: Seq[int] = (), bitmask: Bitmask | None = None
    ) -> tuple[list[float], list[int]]:
        """Return the largest logit and the chosen token of each row, as `TorchDraws.choose` does. Each row is masked
        just before it is drawn from, while it is in the cache."""
        rules = self._rules.of(rows)
        best, tokens, positions = rules.best, rules.tokens, _NOWHERE
        if rules.random:
            positions = np.array([row.position for row in rows], np.uint64)
        if self._seen is None or self._seen[0] is not logits:
            self._seen = logits, logits.numpy()
        masks, found = rules.unmasked, _NO_MASKS
        if bitmask is not None:
            assert bitmask.shape[1] >= words_for(logits.shape[1]), "a mask that is too short"
            masks, found = masks.copy(), bitmask
            masks[masked] = range(len(masked))
        _choose(self._seen[1], rules.numbers, rules.seeds, positions, best, tokens, found, masks)
        return best.tolist(), tokens.tolist()

    def choose_and_note(
        self, logits: Tensor, rows: Seq[LogitsRow], note: Note
    ) -> tuple[list[float], list[int], list[float]]:
        """Call `choose`; also return the values of `note` for the chosen tokens int64 [R]."""
        best, tokens = self.choose(logits, rows)
        return best, tokens, note(torch.tensor(tokens)).tolist()

    def release(self) -> None:
        self._rules.forget()
        self._seen = None


class _Rules(NamedTuple):
    """Sampling parameters of a step's rows: `numbers` float64 [R, 4] of `DrawRule`, `seeds` uint64 [R] mixed."""

    numbers: npt.NDArray[np.float64]
    seeds: npt.NDArray[np.uint64]
    random: bool
    """Whether some row is not greedy."""
    best: npt.NDArray[np.float32]
    tokens: npt.NDArray[np.int64]
    """`best` and `tokens` are output buffers [R]."""
    unmasked: npt.NDArray[np.int64]
    """A constant array of -1 [R]."""


def _rules(rows: Seq[LogitsRow]) -> _Rules:
    numbers = np.array([row.rule.numbers for row in rows], np.float64)
    seeds = np.array([mixed_seed(row.seed) for row in rows], np.uint64)
    count = len(rows)
    room = np.empty(count, np.float32), np.empty(count, np.int64)
    return _Rules(numbers, seeds, bool(numbers[:, 0].any()), *room, np.full(count, -1))


_NOWHERE = np.zeros(0, np.uint64)
_NO_MASKS = np.zeros((0, 0), np.int32)


@kernel()
def _mix(value):  # type: ignore[no-untyped-def]
    """Compute `engine.sampling.rng.mix` for uint64."""
    value = value + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@kernel()
def _uniform(seed, position):  # type: ignore[no-untyped-def]
    """Compute `engine.sampling.rng.uniform` for a mixed seed."""
    return np.float64(_mix(seed ^ _mix(position)) >> np.uint64(11)) / np.float64(1 << 53)


@kernel("void(float32[::1], int64[::1], int64, float64, float64, float64)")
def _penalise(logits, tokens, prompt_length, repetition, frequency, presence):  # type: ignore[no-untyped-def]
    """Penalise one row [V] in place. A token is penalised at its first occurrence only."""
    counts = np.full(len(logits), -1, np.int32)
    for at in range(len(tokens)):
        counts[tokens[at]] = max(counts[tokens[at]], 0) + (at >= prompt_length)
    for at in range(len(tokens)):
        token = tokens[at]
        if counts[token] >= 0:
            value = logits[token]
            value = value / repetition if value > 0 else value * repetition
            logits[token] = value - frequency * counts[token] - (presence if counts[token] > 0 else 0.0)
            counts[token] = -1


@kernel("void(float32[:, ::1], int64[::1], int32[:, ::1])")
def _refuse(logits, rows, bitmask):  # type: ignore[no-untyped-def]
    for index in range(len(rows)):
        strike(logits[rows[index]].ctypes.data, logits.shape[1], bitmask[index].ctypes.data)


@kernel(
    "void(float32[:, ::1], float64[:, ::1], uint64[::1], uint64[::1], float32[::1], int64[::1], int32[:, ::1], "
    "int64[::1])"
)
def _choose(logits, numbers, seeds, positions, best, tokens, bitmask, masks):  # type: ignore[no-untyped-def]
    """Write each row's largest logit to `best` [R] and its drawn token to `tokens` [R]. `masks` [R]: the row of
    `bitmask` for each row of logits; -1 = none."""
    columns = logits.shape[1]
    weights = np.empty(padded(columns), np.float32)
    sums = np.empty((columns + CHUNK - 1) // CHUNK, np.float64)
    for row in range(logits.shape[0]):
        here = logits[row].ctypes.data
        if masks[row] >= 0:
            strike(here, columns, bitmask[masks[row]].ctypes.data)
        best[row], tokens[row] = largest(here, columns)
        temperature, top_k, top_p, min_p = numbers[row]
        if temperature > 0 and np.isfinite(best[row]):
            total = weigh(here, columns, best[row], np.float32(1 / temperature), weights.ctypes.data, sums)
            at = _uniform(seeds[row], positions[row])
            if top_k > 0 or top_p < 1 or min_p > 0:
                tokens[row] = draw_cut(weights.ctypes.data, columns, total, int(top_k), top_p, min_p, at)
            else:
                tokens[row] = _draw(weights, sums, at * total)


@kernel()
def _draw(weights, sums, target):  # type: ignore[no-untyped-def]
    """Return the first index whose cumulated weight exceeds `target`, else the last with any weight; the chunks' `sums`
    lead there."""
    before, chunk = 0.0, 0
    while chunk < len(sums) - 1 and before + sums[chunk] <= target:
        before += sums[chunk]
        chunk += 1
    for index in range(chunk * CHUNK, min(len(weights), (chunk + 1) * CHUNK)):
        before += weights[index]
        if weights[index] > 0 and before > target:
            return index
    last = min(len(weights), (chunk + 1) * CHUNK) - 1
    while last > 0 and weights[last] == 0:
        last -= 1
    return last


DRAW_KERNELS = [_choose, _penalise, _refuse]
