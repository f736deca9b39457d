"""The test behind a rollout: how often it errs over thousands of rollouts, and how soon it sees what is worse."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from sluicegate.gateway.rollout.evidence import STAKES, Evidence, Ranks

Outcome = Callable[[random.Random, int, bool], float]


def crossing(outcome: Outcome, p: float, requests: int, level: float, seed: int, side: str = "worse") -> int | None:
    """Return the request at which the evidence reaches 1/level, looked at after every one."""
    rng, evidence = random.Random(seed), Evidence(0.1)
    for number in range(requests):
        is_canary = rng.random() < p
        evidence.add(is_canary, p, outcome(rng, number, is_canary))
        if getattr(evidence, side).log >= math.log(1 / level):
            return number + 1
    return None


def rare(rng: random.Random, number: int, is_canary: bool) -> float:
    return float(rng.random() < 0.03)


def drifting(rng: random.Random, number: int, is_canary: bool) -> float:
    """Draw an outcome of which whole stretches go wrong, whoever answers: an outage, a caller with bad prompts."""
    return float(rng.random() < (0.9 if number // 25 % 3 == 0 else 0.05))


def continuous(rng: random.Random, number: int, is_canary: bool) -> float:
    return rng.betavariate(0.5, 0.5)


@pytest.mark.parametrize("outcome", [rare, drifting, continuous])
@pytest.mark.parametrize("p", [0.05, 0.5])
def test_an_equal_canary_is_stopped_no_more_often_than_stated(outcome: Outcome, p: float) -> None:
    """Of 500 rollouts looked at 150 times each, at a level of 10 %: 3 000 in all six cases. More than 70 of 500 would
    come once in a thousand times at 10 %."""
    stopped = sum(crossing(outcome, p, 150, 0.1, seed) is not None for seed in range(500))
    assert stopped <= 70


def test_a_canary_that_is_worse_by_the_tolerance_is_proven_fine_no_more_often_than_stated() -> None:
    def worse(rng: random.Random, number: int, is_canary: bool) -> float:
        return float(rng.random() < (0.13 if is_canary else 0.03))

    proven = sum(crossing(worse, 0.5, 300, 0.1, seed, "fine") is not None for seed in range(300))
    assert proven <= 45


@pytest.mark.parametrize(("p", "within"), [(0.05, 1500), (0.25, 500), (0.5, 300)])
def test_a_canary_that_fails_one_request_in_five_is_seen(p: float, within: int) -> None:
    """19 of 20 rollouts, at a level of 1 %."""

    def worse(rng: random.Random, number: int, is_canary: bool) -> float:
        return float(rng.random() < (0.2 if is_canary else 0.02))

    assert sum(crossing(worse, p, within, 0.01, seed) is not None for seed in range(20)) >= 19


@pytest.mark.parametrize("p", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_nothing_that_comes_ruins_a_bettor(p: float, value: float) -> None:
    """The worst of runs leaves every bettor something to bet with, on either side, and finite."""
    evidence = Evidence(0.3)
    for number in range(3000):
        evidence.add(number % 2 == 0, p, value if number % 2 == 0 else 1 - value)
    assert all(math.isfinite(log) for log in (*evidence.worse.logs, *evidence.fine.logs))


@pytest.mark.parametrize(("p", "value"), [(0.0, 0.5), (1.0, 0.5), (0.5, -0.1), (0.5, 1.1), (0.5, math.nan)])
def test_what_cannot_be_is_refused(p: float, value: float) -> None:
    with pytest.raises(ValueError, match="must lie in"):
        Evidence(0.1).add(True, p, value)


def test_evidence_goes_on_after_it_was_kept_as_if_nothing_had_been() -> None:
    rng, whole, parts = random.Random(5), Evidence(0.1), Evidence(0.1)
    for number in range(200):
        seen = (rng.random() < 0.3, 0.3, rng.random())
        whole.add(*seen)
        parts.add(*seen)
        if number % 40 == 0:
            parts = Evidence.from_json(parts.to_json())
    assert parts == whole
    with pytest.raises(ValueError, match=f"{len(STAKES)} bettors"):
        Evidence.from_json({**whole.to_json(), "worse": [0.0]})


def test_ranks_say_nothing_at_first_and_then_where_a_time_stands() -> None:
    ranks = Ranks()
    for seconds in range(10):
        assert ranks.of(1.0) is None
        ranks.add(float(seconds))
    assert (ranks.of(-1.0), ranks.of(4.5), ranks.of(4.0), ranks.of(1e9)) == (0.0, 0.5, 0.45, 1.0)
    for _ in range(1000):
        ranks.add(7.0)
    assert len(ranks.newest) == Ranks.KEPT
    assert ranks.of(7.0) == 0.5
