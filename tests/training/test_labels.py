"""What the measurement of labels promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from training.decode import greedy
from training.everyday.book import Family
from training.labels import choices, chosen, kinds

BUNDLED = Path(__file__).resolve().parents[2] / "engine" / "bundled"
FAMILIES: list[Family] = ["train", "heldout"]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(BUNDLED)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_choice_has_one_right_answer_among_several(tokenizer: Any, family: Family) -> None:
    for frame in kinds(family):
        for choice in choices(tokenizer, family, frame, 20):
            assert len(set(choice.answers)) == len(choice.answers) >= 2
            assert 0 <= choice.right < len(choice.answers)
            assert all(len(json.loads(answer)) == 1 for answer in choice.answers)


def test_the_likeliest_answer_is_the_one_that_is_decoded(tokenizer: Any) -> None:
    """Where the free greedy answer is one of the options; it nearly always is."""
    model = AutoModelForCausalLM.from_pretrained(BUNDLED).eval()
    asked = choices(tokenizer, "train", "opinion", 12)
    written = greedy(model, tokenizer, [choice.prompt for choice in asked], 24)
    compared = [
        choice.answers[chosen(model, tokenizer, choice)] == answer
        for choice, answer in zip(asked, written, strict=True)
        if answer in choice.answers
    ]
    assert len(compared) >= 6
    assert sum(compared) >= len(compared) - 1
