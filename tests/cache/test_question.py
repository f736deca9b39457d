"""What is compared by meaning, and what only exactly."""

from __future__ import annotations

from sluicegate.cache.lookup import MAX_COMPARED_CHARS
from tests.cache.examples import asked


def test_a_long_question_is_compared_exactly_only() -> None:
    """Its vector would take seconds, and nobody words pages the same way twice."""
    assert asked("x" * MAX_COMPARED_CHARS, semantic=True).text is not None
    assert asked("x" * (MAX_COMPARED_CHARS + 1), semantic=True).text is None
