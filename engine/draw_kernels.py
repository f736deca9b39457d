"""Penalties, masks and draws for CPUs: a few passes over a row where torch would need a sort of the vocabulary.

The twin is `engine.draws.TorchDraws`; tests compare the two row by row.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

import numpy as np
from numba import njit
from torch import Tensor

from engine.kernels import FASTMATH, exponentiate
from engine.masks import Bitmask
from engine.noise import uniform
from engine.sequence import DrawRow

_CHUNK = 512
_BINS = 2048  # sign, exponent and three bits of mantissa of a float32


class HostDraws:
    """Same as `TorchDraws`, for logits in a CPU's memory."""

    def warm_up(self) -> None:
        """Compile the kernels now, not under the first request."""
        logits = np.zeros((1, 32), np.float32)
        _penalise(logits[0], np.zeros(1, np.int64), 0, 1.0, 0.0, 0.0)
        _refuse(logits, np.zeros(1, np.int64), np.full((1, 1), -1, np.int32))
        numbers = np.array([[1.0, 1.0, 0.5, 0.1]])
        _choose(logits, numbers, np.zeros(1), np.empty(1, np.float32), np.empty(1, np.int64))

    def penalise(self, logits: Tensor, rows: Seq[DrawRow]) -> None:
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
        _refuse(logits.numpy(), np.array(rows, np.int64), bitmask)

    def choose(self, logits: Tensor, rows: Seq[DrawRow]) -> tuple[list[float], list[int]]:
        numbers = np.array([row.sequence.rule.numbers for row in rows], np.float64)
        drawn = [uniform(row.seed, row.position) if row.sequence.rule.numbers[0] else 0.0 for row in rows]
        at = np.array(drawn, np.float64)
        best, tokens = np.empty(len(rows), np.float32), np.empty(len(rows), np.int64)
        _choose(logits.numpy(), numbers, at, best, tokens)
        return best.tolist(), tokens.tolist()


@njit(cache=True, nogil=True)
def _penalise(logits, tokens, prompt_length, repetition, frequency, presence):  # type: ignore[no-untyped-def]
    """One row [V]. A token counts when it is met first, so that none is penalised twice."""
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


@njit(cache=True, nogil=True)
def _refuse(logits, rows, bitmask):  # type: ignore[no-untyped-def]
    for index in range(len(rows)):
        row = logits[rows[index]]
        for word in range(bitmask.shape[1]):
            bits = np.uint32(bitmask[index, word])
            if bits == np.uint32(0xFFFFFFFF):
                continue
            for bit in range(min(32, len(row) - word * 32)):
                if not (bits >> np.uint32(bit)) & np.uint32(1):
                    row[word * 32 + bit] = -np.inf


@njit(cache=True, nogil=True)
def _choose(logits, numbers, at, best, tokens):  # type: ignore[no-untyped-def]
    weights = np.empty(logits.shape[1], np.float32)
    for row in range(logits.shape[0]):
        best[row], tokens[row] = _largest(logits[row])
        temperature, top_k, top_p, min_p = numbers[row]
        if temperature > 0 and np.isfinite(best[row]):
            _weigh(logits[row], best[row], np.float32(temperature), weights)
            if top_k > 0 or top_p < 1 or min_p > 0:
                tokens[row] = _draw_cut(weights, int(top_k), top_p, min_p, at[row])
            else:
                tokens[row] = _draw(weights, at[row])


@njit(cache=True, nogil=True)
def _largest(logits):  # type: ignore[no-untyped-def]
    """(value, first index) of the largest logit; (NaN, index) if there is a NaN. By chunks, which become vector code;
    only the chunk that holds it is looked at one by one."""
    best, where = -np.inf, 0
    for begin in range(0, len(logits), _CHUNK):
        chunk = logits[begin : begin + _CHUNK]
        if _count_nan(chunk) > 0:
            return np.nan, begin
        peak = _peak(chunk)
        if peak > best:
            best, where = peak, begin
    while logits[where] < best:
        where += 1
    return best, where


@njit(cache=True, nogil=True)
def _count_nan(values):  # type: ignore[no-untyped-def]
    count = 0
    for index in range(len(values)):
        count += values[index] != values[index]
    return count


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _peak(values):  # type: ignore[no-untyped-def]
    largest = values[0]
    for index in range(len(values)):
        largest = values[index] if values[index] > largest else largest
    return largest


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _weigh(logits, best, temperature, weights):  # type: ignore[no-untyped-def]
    """Probabilities up to a factor: the largest is 1; what is refused, or below e^-80 of it, is exactly 0."""
    for index in range(len(logits)):
        weights[index] = (logits[index] - best) / temperature
    for begin in range(0, len(logits), _CHUNK):
        exponentiate(weights[begin : begin + _CHUNK])
    for index in range(len(logits)):
        if weights[index] < np.float32(1.8e-35):
            weights[index] = 0


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _mass(weights):  # type: ignore[no-untyped-def]
    total = 0.0
    for index in range(len(weights)):
        total += weights[index]
    return total


@njit(cache=True, nogil=True)
def _draw(weights, at):  # type: ignore[no-untyped-def]
    """The first index whose cumulated weight exceeds the share `at` of the total; chunks' sums find it quickly."""
    chunks = (len(weights) + _CHUNK - 1) // _CHUNK
    sums = np.empty(chunks, np.float64)
    for chunk in range(chunks):
        sums[chunk] = _mass(weights[chunk * _CHUNK : (chunk + 1) * _CHUNK])
    target, before, last = at * sums.sum(), 0.0, 0
    for chunk in range(chunks):
        if sums[chunk] > 0 and (before + sums[chunk] > target or chunk == chunks - 1):
            inside = before
            for index in range(chunk * _CHUNK, min(len(weights), (chunk + 1) * _CHUNK)):
                if weights[index] > 0:
                    inside += weights[index]
                    last = index
                    if inside > target:
                        return index
        elif sums[chunk] > 0:
            for index in range(chunk * _CHUNK, min(len(weights), (chunk + 1) * _CHUNK)):
                if weights[index] > 0:
                    last = index
        before += sums[chunk]
    return last


@njit(cache=True, nogil=True)
def _draw_cut(weights, top_k, top_p, min_p, at):  # type: ignore[no-untyped-def]
    """Draw among the likeliest, in sorted order: rank < top_k, mass before < top_p of what top_k leaves,
    weight >= min_p. Nothing is sorted but the bins in which a border or the drawn token lies."""
    bins = weights.view(np.int32) >> 20  # weights are not negative, so their bits are in their order
    counts, masses = np.zeros(_BINS, np.int64), np.zeros(_BINS, np.float64)
    for index in range(len(weights)):
        counts[bins[index]] += 1
        masses[bins[index]] += weights[index]
    ranks = top_k if top_k > 0 else len(weights)
    total = _kept(weights, bins, counts, masses, ranks, np.inf, 0.0) if top_k > 0 else masses.sum()
    mass = _kept(weights, bins, counts, masses, ranks, top_p * total, min_p)
    return _find(weights, bins, counts, masses, at * mass)


@njit(cache=True, nogil=True)
def _sorted_bin(weights, bins, wanted):  # type: ignore[no-untyped-def]
    """Tokens of a bin, heaviest first, lower ids first among equals."""
    tokens = np.nonzero(bins == wanted)[0]
    return tokens[np.argsort(-weights[tokens], kind="mergesort")]


@njit(cache=True, nogil=True)
def _kept(weights, bins, counts, masses, ranks, limit, min_p):  # type: ignore[no-untyped-def]
    """Mass of the longest beginning of the sorted order in which every token has a rank < `ranks`, less than `limit`
    before it, and weighs at least `min_p`; the first token always counts."""
    count, mass = 0, 0.0
    for wanted in range(_BINS - 1, 0, -1):
        if counts[wanted] == 0:
            continue
        lightest = np.array([wanted << 20], np.int32).view(np.float32)[0]
        if count + counts[wanted] <= ranks and mass + masses[wanted] <= limit and lightest >= min_p:
            count += counts[wanted]
            mass += masses[wanted]
            continue
        for token in _sorted_bin(weights, bins, wanted):
            if count > 0 and (count >= ranks or mass >= limit or weights[token] < min_p):
                return mass
            count += 1
            mass += weights[token]
    return mass


@njit(cache=True, nogil=True)
def _find(weights, bins, counts, masses, target):  # type: ignore[no-untyped-def]
    """The first token of the sorted order at which the mass exceeds `target`."""
    mass, last = 0.0, 0
    for wanted in range(_BINS - 1, 0, -1):
        if counts[wanted] == 0:
            continue
        if mass + masses[wanted] <= target:
            mass += masses[wanted]
            continue
        for token in _sorted_bin(weights, bins, wanted):
            mass += weights[token]
            last = token
            if mass > target:
                break
        return last
    return last
