"""The network of head `injection`: fitted the same each time, to texts it then tells apart; and halves of sources."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from sluicegate.safety.detection.features import BUCKETS, CONCEPT_BUCKETS
from sluicegate.safety.detection.scoring.head import Head
from sluicegate.safety.detection.segments import CONTEXT
from training.detector import generate, shares
from training.detector.data import Example
from training.detector.fit import Row, concept_row
from training.detector.material import Item, _half
from training.detector.network import fit_network


def rows(seed: int, count: int) -> list[Row]:
    rng = random.Random(seed)
    attacks = [concept_row(generate.attack(rng), True) for _ in range(count)]
    return attacks + [concept_row(generate.harmless(rng), False) for _ in range(count)]


def test_the_same_rows_give_the_same_network_bit_for_bit() -> None:
    one, same, other = (fit_network(rows(0, 40), 0.5, seed) for seed in (0, 0, 1))
    assert one.table.tobytes() == same.table.tobytes()
    assert (one.output.tobytes(), one.bias) == (same.output.tobytes(), same.bias)
    assert one.table.tobytes() != other.table.tobytes()


def test_a_network_tells_texts_apart_that_it_has_not_read() -> None:
    network = fit_network(rows(0, 200), 1.0)
    nothing = np.zeros(BUCKETS, dtype=np.float32)
    concepts, context = np.zeros(CONCEPT_BUCKETS, dtype=np.float32), np.zeros(len(CONTEXT), dtype=np.float32)
    head = Head(nothing, nothing, context, 0.0, concepts=concepts, network=network, network_share=1.0)
    rng = random.Random(1)

    def found(make: Callable[[random.Random], str]) -> int:
        texts = [make(rng) for _ in range(60)]
        return sum(float(head.scores(head.features(text), [(0, len(text))])[0]) > 0 for text in texts)

    assert found(generate.attack) >= 45
    assert found(generate.harmless) <= 15


def test_a_network_needs_both_classes() -> None:
    with pytest.raises(ValueError, match="both bad and harmless"):
        fit_network([row for row in rows(0, 3) if row.bad], 1.0)


def test_each_harmless_source_is_in_one_half_and_what_thresholds_are_made_on_in_both() -> None:
    row = rows(0, 1)[1]
    known = Item(row, Example("benign_notinject", "1", "a", False, "g"))
    attack = Item(replace(row, bad=True), None, "attack")
    plain, sources = Item(row), [Item(row, None, "published", f"package{i}") for i in range(9)]
    halves = [_half([known, attack, plain, *sources], which) for which in (0, 1)]
    assert [len(half) >= 4 for half in halves] == [True, True]
    assert sum(map(len, halves)) == 3 + 3 + 9
    for half in halves:
        assert [one.weight for one in half[:3]] == [row.weight] * 3
        assert {one.weight for one in half[3:]} == {row.weight * shares.RIVAL_WEIGHT}
