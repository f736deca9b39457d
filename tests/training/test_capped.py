"""Capped heads: no few weights alone decide, and all others stay as they were fitted."""

from __future__ import annotations

import numpy as np

from training.detector.data import Example
from training.detector.evaluate import Scored, calibrated, classes, threshold
from training.detector.fit import CAP, CAPPED_BY, Row, fit

RARE = 400


def rows() -> list[Row]:
    """Return attacks that share one word and have one of `RARE` each, and harmless rows of other words."""
    value = np.ones(3)
    bad = [Row(np.array([1, 1000 + i, 5000 + i % 50]), value, True) for i in range(RARE)]
    return bad + [Row(np.array([2, 3000 + i, 6000 + i % 50]), value, False) for i in range(RARE)]


def test_a_cap_takes_the_largest_weights_to_a_share_of_the_one_at_its_rank() -> None:
    free, capped = fit(rows(), 1.0), fit(rows(), 1.0, capped=True)
    most = CAP * np.sort(free.words)[::-1][CAPPED_BY]
    assert free.words[1] > most > 0
    assert capped.words.max() == np.float32(most)
    below = free.words <= most
    assert np.array_equal(capped.words[below], free.words[below])
    assert np.array_equal(capped.chars, free.chars)  # none is above zero


def test_heads_for_requests_are_held_to_fewer_false_alarms_than_one_in_a_hundred() -> None:
    """Eight harmless texts in a thousand lie above the threshold of `injection`, seven above that of `harm`."""
    rng = np.random.default_rng(0)

    def scored(of: str, bad: bool, middle: float, many: int) -> list[Scored]:
        return [
            Scored(Example(of, str(i), "", bad, str(i)), {"injection": raw, "harm": raw})
            for i, raw in enumerate(rng.normal(middle, 1.0, many))
        ]

    harmless = scored("benign_notinject", False, 0.0, 1000)
    users = [*harmless, *scored("prompt_leak", True, 3.0, 50), *scored("harm_harmbench_standard", True, 3.0, 50)]
    documents = [
        Scored(Example("indirect_bipia_email", str(i), "", i < 50, str(i)), {"document": raw, "injection": raw})
        for i, raw in enumerate(rng.normal(0.0, 1.0, 100))
    ]
    found = calibrated([*users, *documents])
    above = {head: sum(s.raw[head] > found[head][1] for s in harmless) for head in ("injection", "harm")}
    assert above == {"injection": 8, "harm": 7}
    assert threshold(classes("harm", users)[1], 0.0075) == found["harm"][1]
