"""Real schemas and a model that babbles: every answer that finishes is valid."""

from __future__ import annotations

import pytest

from benchmarks import common
from benchmarks.validity import measure

DATA = common.DATA / "maskbench.jsonl.gz"


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="the schema collection is not part of the repository")
async def test_answers_of_a_random_model_are_valid_on_real_schemas() -> None:
    """Of the accepted schemas each ends in `stop` and validates, or says `length`."""
    counts = await measure(DATA, 60, 200)
    assert counts.get("invalid", 0) == 0
    assert counts["accepted"] == counts.get("finished", 0) + counts.get("length", 0)
    assert counts["accepted"] >= 40
    assert counts["finished"] >= 5
