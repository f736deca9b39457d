"""How long a first text is waited for, from how first texts came lately."""

from __future__ import annotations

import time

import pytest

from sluicegate.gateway.routing.first_texts import FirstTexts
from tests.altered import altered


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        stopped = altered(time, monotonic=lambda: self.now_s)
        monkeypatch.setattr("sluicegate.gateway.routing.first_texts.time", stopped)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def served(texts: FirstTexts, clock: Clock, count: int, each_s: float) -> None:
    """So many requests, one after the other."""
    for _ in range(count):
        one = texts.expect("a")
        clock.now_s += each_s
        one.came()
        clock.now_s += 1000  # nobody waits, so that this is no part of anything


def test_who_comes_when_nobody_waits_waits_for_nobody(clock: Clock) -> None:
    texts = FirstTexts()
    assert texts.wait_s("a") == 0
    served(texts, clock, 5, 10.0)
    assert texts.wait_s("a") == 0


def test_the_wait_is_that_of_all_before_at_the_rate_they_come(clock: Clock) -> None:
    texts = FirstTexts()
    served(texts, clock, 20, 0.5)
    for _ in range(10):
        texts.expect("a")
    assert texts.wait_s("a") == pytest.approx(5.0)


def test_sixteen_that_are_read_together_count_as_long_as_they_took(clock: Clock) -> None:
    """Places for all, and all first texts 12 s after sixteen came at once: the next sixteen would wait as long."""
    texts = FirstTexts()
    sixteen = [texts.expect("a") for _ in range(16)]
    clock.now_s += 12.0
    for one in sixteen:
        one.came()
    for _ in range(15):
        texts.expect("a")
    assert 8 < texts.wait_s("a") < 16


def test_a_stranger_waits_for_a_turn_and_not_for_all_of_anothers(clock: Clock) -> None:
    texts = FirstTexts()
    served(texts, clock, 20, 0.5)
    for _ in range(30):
        texts.expect("many")
    assert texts.wait_s("many") == pytest.approx(15.0)
    assert texts.wait_s("few") == pytest.approx(0.5)
    texts.expect("few")
    assert texts.wait_s("few") == pytest.approx(1.5)


def test_who_gave_up_is_waited_for_no_more_and_counts_as_nothing(clock: Clock) -> None:
    texts = FirstTexts()
    served(texts, clock, 3, 0.5)
    left, stays = texts.expect("a"), texts.expect("a")
    left.gave_up()
    left.gave_up()
    assert texts.waiting == 1
    stays.came()
    stays.gave_up()
    assert texts.waiting == 0
