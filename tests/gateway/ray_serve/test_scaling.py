"""More engines where somebody waits, fewer where the ones left would be calm, and never a swing between the two."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from sluicegate.gateway.ray_serve.scaling import EngineLoad, EngineScaling, LoadBounds, wanted

BOUNDS = LoadBounds(waiting=4.0, kv_usage=0.8, first_text_s=2.0)


@pytest.mark.parametrize(
    ("load", "queued", "expected"),
    [
        (EngineLoad(), 0.0, 1),
        (EngineLoad(waiting=6), 0.0, 3),
        (EngineLoad(kv_usage=1.0), 0.0, 3),
        (EngineLoad(first_text_s=2.5), 0.0, 3),
        (EngineLoad(waiting=400), 0.0, 4),
        (EngineLoad(), 10.0, 3),
        (EngineLoad(waiting=3, kv_usage=0.7, first_text_s=1.9), 0.0, 2),
    ],
    ids=["idle", "waiting", "full", "late", "far-too-many", "queued-outside", "within-bounds"],
)
def test_two_engines_become(load: EngineLoad, queued: float, expected: int) -> None:
    assert wanted(2, 2, [load, load], queued, BOUNDS) == expected


def test_any_load_calls_for_some_engines_and_at_most_twice_as_many() -> None:
    dice = random.Random(7)
    for _ in range(2000):
        current = dice.randrange(9)
        loads = [
            EngineLoad(dice.random(), 500 * dice.random() ** 3, dice.random(), 100 * dice.random() ** 3)
            for _ in range(current)
        ]
        assert 1 <= wanted(current, current, loads, 1000 * dice.random() ** 3, BOUNDS) <= 2 * max(1, current)


def test_taking_engines_away_never_calls_for_them_again() -> None:
    """The same load on the ones left does not ask for more."""
    dice = random.Random(8)
    for _ in range(2000):
        current, waiting, usage = dice.randrange(1, 40), 4 * dice.random(), 0.8 * dice.random()
        fewer = wanted(current, current, [EngineLoad(waiting=waiting, kv_usage=usage)] * current, 0.0, BOUNDS)
        spread = EngineLoad(waiting=waiting * current / fewer, kv_usage=usage * current / fewer)
        assert fewer <= current
        assert wanted(fewer, fewer, [spread] * fewer, 0.0, BOUNDS) <= fewer


def test_replicas_that_still_load_their_models_stay_when_the_load_dips() -> None:
    """A lull of seconds must not undo what takes minutes, and a quiet of `down_s` does."""
    busy, calm, idle = (EngineLoad(first_text_s=seconds) for seconds in (3.0, 1.9, 0.0))
    assert wanted(2, 2, [busy] * 2, 0.0, BOUNDS) == 3
    assert wanted(2, 3, [calm] * 2, 0.0, BOUNDS) == 3
    assert wanted(2, 5, [busy] * 2, 0.0, BOUNDS) == 5
    assert wanted(2, 3, [idle] * 2, 0.0, BOUNDS) == 1


def test_the_policy_reads_what_ray_hands_it() -> None:
    metrics = {"waiting": {"a": 9.0, "b": 9.0}, "running": {"a": 1.0}, "kv_usage": {"a": None}}
    context = SimpleNamespace(
        aggregated_metrics=metrics, current_num_replicas=2, target_num_replicas=2, total_queued_requests=None
    )
    assert EngineScaling(waiting=4.0, kv_usage=0.8, first_text_s=2.0)(context) == (4, {})
    context.aggregated_metrics = None
    assert EngineScaling(waiting=4.0, kv_usage=0.8, first_text_s=2.0)(context) == (1, {})
