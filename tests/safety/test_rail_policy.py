"""What an operator's terms make of a rail: its action by score, and when it is left alone."""

from __future__ import annotations

from itertools import product

import pytest

from sluicegate.plugins.circuit_breaker import CircuitBreaker
from sluicegate.safety import RailPolicy

MAX_PAUSE_S = 300.0
SCORES = (None, 0.0, 0.29, 0.3, 0.5, 0.7, 0.9, 1.0)


def by_the_book(policy: RailPolicy, action: str, score: float | None) -> str:
    """Apply the rule, written out: thresholds replace what the rail made of its score, where both are there."""
    if score is not None and not (policy.block is None and policy.escalate is None):
        blocks = policy.block is not None and score >= policy.block
        escalates = policy.escalate is not None and score >= policy.escalate
        own = {"block": policy.block is None, "escalate": policy.escalate is None, "redact": True}
        action = "block" if blocks else "escalate" if escalates else action if own.get(action) else "pass"
    return "escalate" if action == "block" and policy.on_block == "escalate" else action


@pytest.mark.parametrize("action", ["pass", "redact", "escalate", "block"])
def test_thresholds_decide_in_place_of_the_rail(action: str) -> None:
    bounds = [(None, None), (0.3, None), (None, 0.7), (0.3, 0.7), (0.5, 0.5)]
    for (escalate, block), on_block, score in product(bounds, ("block", "escalate"), SCORES):
        policy = RailPolicy(escalate=escalate, block=block, on_block=on_block)  # type: ignore[arg-type]
        assert policy.action(action, score) == by_the_book(policy, action, score), (policy, score)


def test_whose_failure_stops_nothing() -> None:
    assert not RailPolicy().may_fail
    assert RailPolicy(failure_mode="open").may_fail
    assert RailPolicy(mode="shadow").may_fail


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


MAX_PAUSE_S = 300.0
TERMS = RailPolicy(failures_to_open=3, pause_s=10.0)


def opened(clock: Clock) -> CircuitBreaker:
    breaker = CircuitBreaker(MAX_PAUSE_S, clock)
    assert [breaker.failed(TERMS) for _ in range(3)] == [False, False, True]
    return breaker


def test_so_many_failures_in_a_row_open_it() -> None:
    breaker = CircuitBreaker(MAX_PAUSE_S, Clock())
    for would in (False, False, True):
        assert breaker.admits(TERMS)
        assert breaker.would_open(TERMS) is would
        assert breaker.failed(TERMS) is would
        assert breaker.is_open is would
    assert breaker.failures == 3
    assert breaker.would_open(TERMS), "one more keeps it open"
    assert not breaker.admits(TERMS)


@pytest.mark.parametrize("between", ["succeeded", "failed_by_caller"])
def test_what_went_well_in_between_begins_the_count_anew(between: str) -> None:
    breaker = CircuitBreaker(MAX_PAUSE_S, Clock())
    for _ in range(3):
        assert not breaker.failed(TERMS)
        assert not breaker.failed(TERMS)
        assert breaker.would_open(TERMS)
        getattr(breaker, between)()
        assert not breaker.would_open(TERMS)
    assert breaker.failures == (6 if between == "succeeded" else 9)


def test_one_call_a_pause_is_let_through_to_try() -> None:
    clock = Clock()
    breaker = opened(clock)
    assert breaker.wait_s == 10
    clock.now += 9.5
    assert breaker.wait_s == 0.5
    assert not breaker.admits(TERMS)
    clock.now += 0.5
    assert breaker.wait_s == 0
    assert breaker.admits(TERMS)
    assert not breaker.admits(TERMS), "the trial is under way"
    clock.now += 10
    assert breaker.admits(TERMS), "a trial that never ends blocks no later one"
    breaker.succeeded()
    assert not breaker.is_open
    assert breaker.admits(TERMS)


def test_each_trial_that_fails_doubles_the_pause_up_to_the_longest() -> None:
    clock = Clock()
    breaker = opened(clock)
    pauses = []
    for _ in range(8):
        pauses.append(breaker.wait_s)
        clock.now += breaker.wait_s
        assert breaker.admits(TERMS)
        assert breaker.failed(TERMS) is False, "it is open already"
    assert pauses == [10, 20, 40, 80, 160, MAX_PAUSE_S, MAX_PAUSE_S, MAX_PAUSE_S]
    breaker.succeeded()
    assert [breaker.failed(TERMS) for _ in range(3)] == [False, False, True]
    assert breaker.wait_s == 10, "the next time it begins anew"
