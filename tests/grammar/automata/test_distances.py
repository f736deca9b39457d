"""How far states are from acceptance, beside a search that follows the edges forward."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sluicegate.grammar.automata.byte_level.distances import distances_of
from sluicegate.grammar.token_ids import I32


def drawn(seed: int) -> tuple[I32, np.ndarray]:
    pick = random.Random(seed)
    size = pick.randint(1, 40)
    table = np.full((size, 256), -1, np.int32)
    for state in range(size):
        for _ in range(pick.randint(0, 3)):
            low = pick.randrange(256)
            table[state, low : pick.randint(low, 256)] = pick.randrange(size)
    return table, np.array([pick.random() < 0.1 for _ in range(size)], np.bool_)


def forward(table: I32, accepting: np.ndarray, state: int) -> int:
    """Count the bytes until some of the states that can be reached accepts; -1 where none does."""
    seen, here, far = {state}, {state}, 0
    while here:
        if accepting[list(here)].any():
            return far
        here = {int(after) for each in here for after in table[each] if after >= 0} - seen
        seen |= here
        far += 1
    return -1


@pytest.mark.parametrize("loop", [distances_of, distances_of.py_func], ids=["compiled", "Python"])
def test_each_state_has_the_number_of_bytes_to_the_nearest_that_accepts(loop: object) -> None:
    assert callable(loop)
    for seed in range(60):
        table, accepting = drawn(seed)
        assert loop(table, accepting).tolist() == [forward(table, accepting, state) for state in range(len(table))]
