"""Budgets of CPU time count the work at hand, and no garbage of others."""

from __future__ import annotations

import gc
import time

import pytest

from sluicegate.grammar.budget.clock import worked_s
from sluicegate.grammar.budget.meter import Allowance, allowed, look
from tests.plugins.loops import counted


class Over(Exception):
    pass


def spend(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_a_collection_counts_for_nobody() -> None:
    """A heap of a million objects takes long to look through; the work around it has taken nothing of that."""
    heap = [[i] for i in range(1_000_000)]
    before, worked = time.thread_time(), worked_s()
    gc.collect()
    passed, counted = time.thread_time() - before, worked_s() - worked
    assert len(heap) == 1_000_000
    assert counted < passed / 2


def test_a_loop_that_is_compiled_counts_for_nobody() -> None:
    """Nor does one whose code is loaded: both fall on whoever calls it first."""
    before, worked = time.thread_time(), worked_s()
    counted.build()
    passed, own = time.thread_time() - before, worked_s() - worked
    assert passed > 0
    assert own < passed / 2


def test_work_past_its_allowance_ends() -> None:
    with allowed(Allowance(0.02, Over())):
        spend(0.05)
        with pytest.raises(Over):
            look()
    with allowed(Allowance(60, Over())):
        spend(0.05)
        look()
