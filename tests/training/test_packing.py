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
from training.forward import answer_places, packed_loss
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


def test_the_loss_of_training_is_the_models_own(tokenizer: Any) -> None:
    """Rounded to bfloat16 on the way: against float32 logits of transformers, weighted by hand."""
    torch.manual_seed(0)
    model = build_model(tokenizer, width=64, layers=2, heads=2).eval()
    batch = sample_batch(tokenizer, "loss", rows=3, length=256)
    with torch.no_grad():
        logits = model(input_ids=batch.ids, position_ids=batch.positions, attention_mask=batch.mask).logits
        each = F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED, reduction="none")
        weights = batch.weights.flatten() * (batch.targets.flatten() != IGNORED)
        found = packed_loss(model, batch.ids, batch.positions, batch.mask, *answer_places(batch))
    assert float(found) == pytest.approx(float((each * weights).sum() / weights.sum()), rel=3e-3)


def test_a_token_weighs_less_in_a_longer_answer(tokenizer: Any) -> None:
    row = Row(32)
    assert row.add([1, 2], [([3], [4, 5, 6, 7]), ([3], [8])])
    batch = batch_of([row], tokenizer.pad_token_id)
    weights = batch.weights[batch.targets != IGNORED]
    assert weights.tolist() == pytest.approx([4**-0.75] * 4 + [1.0])


def test_targets_beyond_the_fixed_number_of_places_are_left_out(tokenizer: Any) -> None:
    """The number is that of the shape, whatever the batch holds; the weights of what is left add up to one."""
    row = Row(40)
    assert row.add([1], [([2], list(range(10, 45)))])
    batch = batch_of([row], tokenizer.pad_token_id)
    places, targets, weights = answer_places(batch)
    assert len(places) == len(targets) == len(weights) == 13
    assert IGNORED not in targets
    assert float(weights.sum()) == pytest.approx(1)


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
