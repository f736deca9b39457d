"""Compare a fast forward pass with the model's own code, on tokens drawn at random, before it is used."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from torch import Tensor

from sluicegate.engine.attention.paged import Stretch
from sluicegate.engine.batching.step_inputs import I64, StepInputs

Expected = tuple[Tensor, ...]
"""Logits [T, V] of each of a comparison's steps."""


def trial_steps(length: int, vocab_size: int, block_size: int) -> list[StepInputs]:
    """Draw `length` tokens, in two chunks and a single token."""
    ids = np.random.default_rng(0).integers(0, vocab_size, length)
    borders = (0, length // 2), (length // 2, length - 1), (length - 1, length)
    return [first_blocks(ids, start, end, block_size) for start, end in borders if end > start]


def first_blocks(ids: I64, start: int, end: int, block_size: int) -> StepInputs:
    """Make inputs of the tokens [start, end) of `ids` in a pool's first blocks; all their logits are wanted."""
    positions = np.arange(start, end)
    table = np.arange(-(-end // block_size))
    stretches = [Stretch(start, end - start, table)]
    return StepInputs(ids[start:end], positions, positions, np.arange(end - start), stretches)


def worst_difference(found: Iterable[Tensor], expected: Expected) -> float:
    """Return the largest of the relative differences of the steps' logits."""
    return max(float((a - b).norm() / (b.norm() + 1e-6)) for a, b in zip(found, expected, strict=True))
