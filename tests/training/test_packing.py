"""Packed rows train on exactly what the unpacked sequences would."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from transformers import AutoTokenizer

from training.examples import rendered, sample_example
from training.model import build_model
from training.packing import IGNORED, Row, batch_of, sample_batch

BUNDLED = Path(__file__).resolve().parents[2] / "engine" / "bundled"


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(BUNDLED)


def encoded(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False))


def test_the_loss_of_a_packed_row_is_the_loss_of_its_sequences(tokenizer: Any) -> None:
    """Two documents of three questions each, with weights large enough that a leak between branches would show."""
    torch.manual_seed(0)
    model = build_model(tokenizer, width=32, layers=2, heads=2).eval()
    for parameter in model.parameters():
        parameter.data.mul_(8 if parameter.ndim > 1 else 1)
    row, alone, count = Row(1600), 0.0, 0
    for seed in range(2):
        prefix, branches = rendered(tokenizer, sample_example(random.Random(seed)))
        parts = [(encoded(tokenizer, p), [*encoded(tokenizer, a), tokenizer.eos_token_id]) for p, a in branches]
        assert row.add(encoded(tokenizer, prefix), parts)
        for prompt, answer in parts:
            before = encoded(tokenizer, prefix) + prompt
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([before + answer])).logits[0, len(before) - 1 : -1]
            alone += float(F.cross_entropy(logits, torch.tensor(answer), reduction="sum"))
            count += len(answer)
    batch = batch_of([row], tokenizer.pad_token_id)
    with torch.no_grad():
        logits = model(input_ids=batch.ids, position_ids=batch.positions, attention_mask=batch.mask).logits
    packed = F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED, reduction="sum")
    assert int((batch.targets != IGNORED).sum()) == count
    assert float(packed) == pytest.approx(alone, rel=1e-4)


def test_a_row_refuses_what_does_not_fit_and_stays_unchanged() -> None:
    row = Row(8)
    assert row.add([1, 2, 3], [([4], [5, 6])])
    assert not row.add([1, 2], [([4], [5, 6])])
    assert row.ids == [1, 2, 3, 4, 5, 6]
    assert row.targets == [IGNORED, IGNORED, IGNORED, 5, 6, IGNORED]


def test_the_same_seed_gives_the_same_batch(tokenizer: Any) -> None:
    first, second = (sample_batch(tokenizer, "1-2-0", rows=2, length=512) for _ in range(2))
    assert torch.equal(first.ids, second.ids)
    assert torch.equal(first.mask, second.mask)
    assert not torch.equal(first.ids, sample_batch(tokenizer, "1-3-0", rows=2, length=512).ids)
