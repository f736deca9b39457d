"""How answers are scored, and that greedy decoding obeys a matcher."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import AutoTokenizer

from training.decode import greedy
from training.evaluate import Score
from training.model import build_model
from training.muon import orthogonalised
from training.schemas import Question

BUNDLED = Path(__file__).resolve().parents[2] / "engine" / "bundled"
QUESTION = Question(
    schema={},
    answer='{"total":12.50,"paid":true,"who":{"name":"Ann"}}',
    kinds=(("total", "number"), ("paid", "boolean"), ("who.name", "string")),
)


@pytest.mark.parametrize(
    ("answer", "fields", "whole"),
    [
        ('{"total":12.5,"paid":true,"who":{"name":"Ann"}}', 3, 1),
        ('{"total":12.5,"paid":1,"who":{"name":"ann"}}', 1, 0),
        ('{"total":12.5,"paid":true,"who":{"name":"Ann"},"more":1}', 3, 0),
        ('{"total":12.5,"paid":tr', 0, 0),
        ('["Ann"]', 0, 0),
    ],
)
def test_fields_and_whole_answers_are_counted_by_json_equality(answer: str, fields: int, whole: int) -> None:
    """12.50 is 12.5, 1 is not true, and an answer that does not parse has no right field."""
    score = Score()
    score.add(QUESTION, answer)
    assert (score.right["fields"], score.asked["fields"]) == (fields, 3)
    assert (score.right["answers"], score.asked["answers"]) == (whole, 1)


class Scripted:
    """A matcher that allows one token at each step."""

    def __init__(self, tokens: list[int]) -> None:
        self.tokens = list(tokens)

    @property
    def is_finished(self) -> bool:
        return not self.tokens

    def fill_mask(self, row: NDArray[np.int32]) -> bool:
        row[:] = 0
        token = self.tokens[0]
        row[token // 32] = np.uint32(1 << token % 32).astype(np.int32)
        return True

    def accept(self, token_id: int) -> None:
        assert token_id == self.tokens.pop(0)


def test_constrained_decoding_takes_only_what_the_matcher_allows() -> None:
    """Two rows of different length, each forced to its own text; a third is free."""
    tokenizer: Any = AutoTokenizer.from_pretrained(BUNDLED)
    model = build_model(tokenizer, width=32, layers=1, heads=2).eval()
    texts = ['{"a":1}', '{"name":"Zoë"}']
    matchers = [Scripted(tokenizer.encode(text, add_special_tokens=False)) for text in texts]
    answers = greedy(model, tokenizer, ["<|user|>a", "<|user|>a longer one", "<|user|>b"], 12, [*matchers, None])
    assert answers[:2] == texts


@pytest.mark.parametrize("shape", [(2, 8, 8), (1, 4, 12), (3, 12, 4)])
def test_orthogonalisation_brings_singular_values_near_one(shape: tuple[int, int, int]) -> None:
    values = torch.linalg.svdvals(orthogonalised(torch.randn(shape, generator=torch.Generator().manual_seed(1))))
    assert values.max() < 1.4
    assert values.median() > 0.6
