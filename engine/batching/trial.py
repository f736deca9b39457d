"""Compare a fast forward pass with the model's own code on random tokens, before the fast pass is used."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from torch import Tensor

from sluicegate.engine.attention.paged import TokenSpan
from sluicegate.engine.batching.step_inputs import I64, StepInputs

Expected = tuple[Tensor, ...]
"""The logits [T, V] of each step of a comparison."""


def trial_steps(length: int, vocab_size: int, block_size: int) -> list[StepInputs]:
    """Draw `length` random tokens; return inputs of up to three steps: two chunks and a single token."""
    ids = np.random.default_rng(0).integers(0, vocab_size, length)
    borders = (0, length // 2), (length // 2, length - 1), (length - 1, length)
    return [first_blocks(ids, start, end, block_size) for start, end in borders if end > start]


def first_blocks(ids: I64, start: int, end: int, block_size: int) -> StepInputs:
    """Return inputs for tokens [start, end) of `ids`, placed in the first blocks of a pool; all logits are wanted."""
    positions = np.arange(start, end)
    table = np.arange(-(-end // block_size))
    stretches = [TokenSpan(start, end - start, table)]
    return StepInputs(ids[start:end], positions, positions, np.arange(end - start), stretches)


def worst_difference(found: Iterable[Tensor], expected: Expected) -> float:
    """Return the largest relative difference (L2 norm) between the logits of corresponding steps."""
    return max(float((a - b).norm() / (b.norm() + 1e-6)) for a, b in zip(found, expected, strict=True))
