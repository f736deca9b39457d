"""Some cases of the fuzz programs for checkpoints; each has found something once, or is the first of its kind."""

from __future__ import annotations

import pytest

from tests.fuzz import checkpoint_files, configurations


@pytest.mark.parametrize(
    ("kind", "seed"),
    [("llama", 1), ("llama", 4), ("dots1", 0), ("bamba", 4), ("exaone", 0), ("falcon_h1", 3), ("gemma3n_text", 2)],
)
def test_a_strange_field_is_refused_by_its_name(kind: str, seed: int) -> None:
    assert configurations.case(kind, seed).startswith("refused by the field")


@pytest.mark.parametrize(("name", "seed"), [
    *((name, 1) for name in checkpoint_files.FILES), ("tokenizer.json", 0), ("generation_config.json", 118),
])  # fmt: skip
def test_a_strange_file_is_refused_or_answered_from(name: str, seed: int) -> None:
    assert checkpoint_files.case(name, seed).split(" ")[0].rstrip(":") in ("answers", "refused")
