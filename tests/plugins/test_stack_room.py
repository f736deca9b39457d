"""Calls of a loop that runs with room never wait for a new piece of the interpreter's stack, however deep it stands."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable

import pytest

from sluicegate.plugins.memory.stack_room import with_room

CALLS = 500
DEPTHS = range(40, 240)
"""A piece has room for some 100 to 200 small frames."""


def faults_of_calls() -> int:
    """Return how often memory was given to us while a function was called again and again."""

    def nothing() -> None:
        """Do nothing: what is looked at is the call."""

    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(CALLS):
        nothing()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def at_depth(depth: int, call: Callable[[], int]) -> int:
    return at_depth(depth - 1, call) if depth else call()


@pytest.mark.skipif(sys.platform != "linux", reason="counts faults as Linux does")
def test_no_depth_is_unlucky_with_room() -> None:
    assert max(at_depth(depth, lambda: with_room(faults_of_calls)) for depth in DEPTHS) < CALLS // 5


@pytest.mark.skipif(sys.platform != "linux", reason="counts faults as Linux does")
def test_some_depth_is_unlucky_without() -> None:
    """Show that the test above could fail."""
    if max(at_depth(depth, faults_of_calls) for depth in DEPTHS) < CALLS:
        pytest.skip("this interpreter keeps the pieces of its stack")


def test_what_runs_with_room_returns_and_raises_as_it_would() -> None:
    assert with_room(lambda: 7) == 7
    with pytest.raises(KeyError, match="gone"):
        with_room(lambda: {}["gone"])
