"""A small part of what `python -m tests.fuzz.upstream` does."""

from __future__ import annotations

from tests.fuzz.upstream import run


def test_nothing_of_a_random_answer_is_believed() -> None:
    """All outcomes are met, and none is a finding."""
    counts, found = run(500, seed=1, served_part=0.06)
    assert not found
    assert {"whole", "upstream_failed", "served:whole", "served:upstream_failed"} <= set(counts)
