"""How long a first text is waited for, from how first texts came lately."""

from __future__ import annotations

import pytest

from sluicegate.gateway.routing.first_texts import DECREASE, INITIAL_TARGET, MIN_TARGET, FirstTextEstimate


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def served(texts: FirstTextEstimate, clock: Clock, count: int, each_s: float) -> None:
    """Serve so many requests, one after the other."""
    for _ in range(count):
        one = texts.expect("a")
        clock.now_s += each_s
        one.came(each_s)
        clock.now_s += 1000  # nobody waits, so that this is no part of anything


def test_who_comes_when_nobody_waits_waits_for_nobody(clock: Clock) -> None:
    texts = FirstTextEstimate(1.0, clock)
    assert texts.wait_s("a") == 0
    served(texts, clock, 5, 10.0)
    assert texts.wait_s("a") == 0


def test_the_wait_is_that_of_all_before_at_the_rate_they_come(clock: Clock) -> None:
    texts = FirstTextEstimate(1.0, clock)
    served(texts, clock, 20, 0.5)
    for _ in range(10):
        texts.expect("a")
    assert texts.wait_s("a") == pytest.approx(5.5)


def test_sixteen_that_are_read_together_count_as_long_as_they_took(clock: Clock) -> None:
    """Places for all, and all first texts 12 s after sixteen came at once: the next sixteen would wait as long."""
    texts = FirstTextEstimate(1.0, clock)
    sixteen = [texts.expect("a") for _ in range(16)]
    clock.now_s += 12.0
    for one in sixteen:
        one.came(12.0)
    for _ in range(15):
        texts.expect("a")
    assert 8 < texts.wait_s("a") < 16


def test_a_stranger_waits_for_a_turn_and_not_for_all_of_anothers(clock: Clock) -> None:
    texts = FirstTextEstimate(1.0, clock)
    served(texts, clock, 20, 0.5)
    for _ in range(30):
        texts.expect("many")
    assert texts.wait_s("many") == pytest.approx(15.5)
    assert texts.wait_s("few") == pytest.approx(1.0)
    texts.expect("few")
    assert texts.wait_s("few") == pytest.approx(2.0)


def test_who_gave_up_is_waited_for_no_more_and_counts_as_nothing(clock: Clock) -> None:
    texts = FirstTextEstimate(1.0, clock)
    served(texts, clock, 3, 0.5)
    left, stays = texts.expect("a"), texts.expect("a")
    left.gave_up()
    left.gave_up()
    assert texts.waiting == 1
    stays.came(0.5)
    stays.gave_up()
    assert texts.waiting == 0


def test_a_silence_counts_before_it_has_ended(clock: Clock) -> None:
    """First texts came ten a second; now nothing has come for 20 s, and nobody is let in as if it still did."""
    texts = FirstTextEstimate(1.0, clock)
    served(texts, clock, 20, 0.1)
    for _ in range(3):
        texts.expect("a")
    before_s = texts.wait_s("a")
    clock.now_s += 20
    assert texts.wait_s("a") > 5 * before_s


def test_late_first_texts_lower_the_aim_and_those_in_time_raise_it_again(clock: Clock) -> None:
    texts = FirstTextEstimate(1.0, clock)
    served(texts, clock, 20, 3.0)
    assert texts.target_s == MIN_TARGET
    served(texts, clock, 2000, 0.1)
    assert texts.target_s == 1.0


def test_all_that_one_jam_made_late_lower_the_aim_once(clock: Clock) -> None:
    texts = FirstTextEstimate(1.0, clock)
    thirty = [texts.expect("a") for _ in range(30)]
    clock.now_s += 3.0
    for one in thirty:
        one.came(3.0)
    assert texts.target_s == pytest.approx(INITIAL_TARGET * DECREASE)
