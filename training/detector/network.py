"""Fit the small network of head `injection` (`safety.detection.scoring`) to the rows of a linear member.

Stochastic gradient descent row after row on the squared hinge loss, with steps divided by the root of the squared
gradients so far (Duchi et al., "Adaptive subgradient methods", JMLR 2011): one divisor for each row of the table. In
each step half of a text's features are left out, so that no few of them decide. Nothing but additions, products,
divisions and roots is used, and rows come one after the other, so the same rows give the same network bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from numba import njit

from sluicegate.safety.detection.features import BUCKETS, Integers
from sluicegate.safety.detection.scoring.network import ROWS, WIDTH, TextNetwork, char_rows, concept_rows, word_rows
from training.detector.fit import CONCEPTS, Row

EPOCHS = 4
STEP = 0.02
LEFT_OUT = 0.5
"""Of a text's features in each step."""
SPREAD = 0.0865
"""The table begins with numbers of up to that size."""
FIRST = 0.01
"""Of the squared gradients, before there is one."""

_Singles = npt.NDArray[np.float32]


def fit_network(rows: Sequence[Row], scale: float, seed: int = 0) -> TextNetwork:
    """Fit a network to `rows`, whose scores are multiplied by `scale`. Raises `ValueError` where one of the two classes
    is missing."""
    if len({row.bad for row in rows}) != 2:
        raise ValueError("training needs both bad and harmless rows")
    read = [_read(row) for row in rows]
    ends = np.cumsum([0, *(len(at) for at, _ in read)])
    rng = np.random.default_rng(seed)
    order = np.stack([rng.permutation(len(rows)) for _ in range(EPOCHS)])
    table = ((rng.random((ROWS, WIDTH)) - 0.5) * (2 * SPREAD)).astype(np.float32)
    hidden = np.zeros(WIDTH, np.float32)
    output = np.where(np.arange(WIDTH) % 2 == 0, 1.0, -1.0).astype(np.float32)
    bias = np.zeros(1, np.float32)
    sign = np.array([1.0 if row.bad else -1.0 for row in rows], dtype=np.float32)
    weight = np.array([row.weight for row in rows], dtype=np.float32)
    at, value = (np.concatenate(parts) for parts in zip(*read, strict=True))
    _descend(ends, at, value, sign, weight, order, table, hidden, output, bias, seed + 1)
    return TextNetwork(table, hidden, (output * np.float32(scale)).astype(np.float32), float(bias[0]) * scale)


def _read(row: Row) -> tuple[Integers, _Singles]:
    """Return the rows of the table that a row of training names, and their values."""
    words, concepts = row.at < BUCKETS, row.at >= CONCEPTS
    chars = (row.at >= BUCKETS) & (row.at < 2 * BUCKETS)
    at = (word_rows(row.at[words]), char_rows(row.at[chars] - BUCKETS), concept_rows(row.at[concepts] - CONCEPTS))
    value = np.concatenate((row.value[words], row.value[chars], row.value[concepts]))
    return np.concatenate(at), value.astype(np.float32)


@njit(cache=True)  # type: ignore[untyped-decorator]  # numba carries no types
def _mixed(number: np.uint64) -> np.uint64:
    """Mix the bits of a number (splitmix64, public domain, Sebastiano Vigna)."""
    mixed = number * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return mixed ^ (mixed >> np.uint64(31))


@njit(cache=True)  # type: ignore[untyped-decorator]
def _descend(
    ends: Integers,
    at: Integers,
    value: _Singles,
    sign: _Singles,
    weight: _Singles,
    order: Integers,
    table: _Singles,
    hidden: _Singles,
    output: _Singles,
    bias: _Singles,
    seed: int,
) -> None:
    """Step along row after row in `order` [epochs, rows]; row k is at[ends[k] : ends[k + 1]]. Changes `table` [ROWS,
    WIDTH], `hidden`, `output` [WIDTH] and `bias` [1] in place."""
    width = table.shape[1]
    table_squares = np.full(table.shape[0], FIRST, np.float32)
    hidden_squares, output_squares = np.full(width, FIRST, np.float32), np.full(width, FIRST, np.float32)
    bias_square = np.float32(FIRST)
    step, gain = np.float32(STEP), np.float32(1.0 / (1.0 - LEFT_OUT))
    threshold = np.uint64(int(LEFT_OUT * 4294967296.0))
    state = np.uint64(seed)
    kept = np.zeros(np.diff(ends).max(), np.int64)
    sums = np.zeros(width, np.float32)
    for epoch in range(len(order)):
        for k in order[epoch]:
            state = _mixed(state + np.uint64(k) + np.uint64(1))
            count = 0
            for d in range(width):
                sums[d] = hidden[d]
            for j in range(ends[k], ends[k + 1]):
                if (_mixed(state ^ np.uint64(j)) & np.uint64(0xFFFFFFFF)) < threshold:
                    continue
                kept[count] = j
                count += 1
                for d in range(width):
                    sums[d] += table[at[j], d] * (value[j] * gain)
            score = bias[0]
            for d in range(width):
                if sums[d] > 0:
                    score += output[d] * sums[d]
            short = np.float32(1.0) - sign[k] * score
            if short <= 0:
                continue
            slope = -sign[k] * short * weight[k]
            bias_square += slope * slope
            bias[0] -= step * slope / np.sqrt(bias_square)
            square = np.float32(0.0)
            for d in range(width):
                if sums[d] <= 0:
                    sums[d] = 0.0
                    continue
                inward, outward = slope * output[d], slope * sums[d]
                output_squares[d] += outward * outward
                output[d] -= step * outward / np.sqrt(output_squares[d])
                hidden_squares[d] += inward * inward
                hidden[d] -= step * inward / np.sqrt(hidden_squares[d])
                sums[d] = inward
                square += inward * inward / np.float32(width)
            if square == 0:
                continue
            for i in range(count):
                j = kept[i]
                factor = value[j] * gain
                table_squares[at[j]] += square * factor * factor
                rate = step * factor / np.sqrt(table_squares[at[j]])
                for d in range(width):
                    table[at[j], d] -= rate * sums[d]
