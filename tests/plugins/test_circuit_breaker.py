"""What keeps failing is left alone, and tried again."""

from __future__ import annotations

from dataclasses import dataclass

from sluicegate.plugins.circuit_breaker import CircuitBreaker


@dataclass(frozen=True)
class Terms:
    failures_to_open: int = 2
    pause_s: float = 5.0


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def opened(most: float = 60.0) -> tuple[CircuitBreaker, Clock]:
    clock = Clock()
    breaker = CircuitBreaker(most, clock)
    assert not breaker.failed(Terms())
    assert breaker.failed(Terms()), "the second failure in a row opens it"
    return breaker, clock


def test_failures_in_a_row_open_it() -> None:
    """One that succeeds in between begins the count anew."""
    breaker = CircuitBreaker(60.0, Clock())
    assert not breaker.would_open(Terms())
    breaker.failed(Terms())
    assert breaker.would_open(Terms())
    breaker.succeeded()
    breaker.failed(Terms())
    assert (breaker.is_open, breaker.admits(Terms()), breaker.failures, breaker.opened) == (False, True, 2, 0)


def test_one_trial_is_let_through_after_each_pause() -> None:
    """Others wait for it, and for a pause more where it never ends."""
    breaker, clock = opened()
    assert (breaker.wait_s, breaker.admits(Terms())) == (5.0, False)
    clock.now_s = 5.0
    assert (breaker.wait_s, breaker.is_open, breaker.would_open(Terms())) == (0.0, True, True)
    assert breaker.admits(Terms())
    assert (breaker.wait_s, breaker.admits(Terms())) == (5.0, False)
    clock.now_s = 10.0
    assert breaker.admits(Terms())


def test_each_trial_that_fails_doubles_the_pause_up_to_a_bound() -> None:
    breaker, clock = opened(most=12.0)
    for wait_s in (10.0, 12.0, 12.0):
        clock.now_s += breaker.wait_s
        assert breaker.admits(Terms())
        assert not breaker.failed(Terms()), "it was open already"
        assert breaker.wait_s == wait_s
    assert breaker.opened == 4


def test_a_success_closes_it_and_the_next_pause_is_the_first_again() -> None:
    breaker, clock = opened()
    clock.now_s = 5.0
    breaker.failed(Terms())
    breaker.succeeded()
    assert (breaker.is_open, breaker.wait_s, breaker.admits(Terms())) == (False, 0.0, True)
    assert not breaker.failed(Terms())
    assert breaker.failed(Terms())
    assert breaker.wait_s == 5.0


def test_a_failure_that_was_the_callers_is_counted_and_opens_nothing() -> None:
    breaker = CircuitBreaker(60.0, Clock())
    breaker.failed(Terms())
    breaker.failed_by_caller()
    assert not breaker.failed(Terms())
    assert (breaker.is_open, breaker.failures) == (False, 3)
