"""The command that writes the table of architectures tries what it says, and the table is one it could have written."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.architectures import PAGE, _page, _tried


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "ends"), [("qwen3", "equal"), ("mamba", "refused"), ("gemma4_text", "not tried")])
def test_a_kind_is_tried_by_a_model_of_its_own(kind: str, ends: str, tmp_path: Path) -> None:
    found = _tried(kind, tmp_path)
    assert found["ends"] == ends
    assert bool(found["why"]) == (ends != "equal")


def test_the_table_in_the_documents_has_no_kind_that_answers_differently() -> None:
    rows = [line.split("|") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    ends = {row[1].strip(" `"): row[2].strip() for row in rows}
    assert len(ends) >= 20
    assert set(ends.values()) <= {"equal", "refused", "not tried"}
    assert {ends[kind] for kind in ("llama", "qwen3", "mistral", "mixtral", "gemma2")} == {"equal"}
    assert all(row[3].strip() for row in rows if row[2].strip() != "equal")


def test_a_reason_is_one_cell_of_the_table() -> None:
    found = {"x": {"ends": "refused", "why": "one | two\\n<three>" + " more" * 100}}
    (row,) = [line for line in _page(found).splitlines() if line.startswith("| `x`")]
    assert row.count("|") == 4
    assert "&lt;three>" in row
    assert len(row) < 220
