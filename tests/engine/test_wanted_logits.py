"""Logits that masks refuse are left out of the product with the vocabulary: the others keep their bits, and nobody
looks at what was not computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sluicegate.engine import load_model
from sluicegate.engine.attention.paged import TokenSpan
from sluicegate.engine.batching.runner import ModelRunner, RunnerOptions
from sluicegate.engine.cpu import Decoder, WantedLogits
from sluicegate.engine.sampling.bitmasks import words_for
from tests.engine.conftest import MakeModel
from tests.engine.driving import ScriptedGrammar, a_job, prompts, run, serving
from tests.engine.tiny_models import save_tiny

BLOCK, ROWS, EOS = 4, 13, 256
UNTOUCHED = 777.0


class Pass:
    """A forward pass of `ROWS` tokens, each with its logits."""

    def __init__(self, model: Any, threads: int = 1) -> None:
        self.runner = ModelRunner(model, 32, BLOCK, RunnerOptions(threads=threads))
        assert self.runner._decoder is not None
        self.decoder = self.runner._decoder
        self.vocab = model.vocab_size

    @torch.inference_mode()
    def __call__(self, wanted: WantedLogits | None = None) -> torch.Tensor:
        """Logits [ROWS, V]; `UNTOUCHED` where none were computed."""
        ids, places = np.arange(ROWS) * 7 % self.vocab, np.arange(ROWS)
        self.decoder._logits.fill_(UNTOUCHED)
        stretch = TokenSpan(0, ROWS, np.arange(words_for(ROWS * 32 // BLOCK)))
        return self.decoder.run(ids, places, places, places, [stretch], (), wanted).clone()


def masks_of(vocab: int, allowed: list[list[int]]) -> np.ndarray[Any, np.dtype[np.int32]]:
    made = np.zeros((len(allowed), words_for(vocab)), np.int32)
    for row, tokens in zip(made, allowed, strict=True):
        for token in tokens:
            row.view(np.uint32)[token // 32] |= np.uint32(1 << token % 32)
    return made


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("weights", ["full", "int8", "int4"])
@pytest.mark.parametrize("sparse", [[0], [1, 2, 5, 12], list(range(ROWS))])
def test_what_masks_allow_keeps_its_bits_and_the_rest_is_not_computed(
    sparse: list[int], weights: Any, threads: int, tmp_path: Path
) -> None:
    model = load_model(save_tiny(tmp_path), weights=weights)
    compute = Pass(model, threads)
    compute()
    expected = compute()
    random = np.random.default_rng(len(sparse))
    ends = [[0], [31, 32], [23, 24, 25], [compute.vocab - 1], list(range(40, 60)), []]
    allowed = [ends[i] if i < len(ends) else random.choice(compute.vocab, 20).tolist() for i in range(len(sparse))]
    wanted = WantedLogits(ROWS)
    wanted.mark_refused(masks_of(compute.vocab, allowed), sparse)
    found = compute(wanted)
    for row in range(ROWS):
        if row not in sparse:
            assert torch.equal(found[row], expected[row])
            continue
        kept = torch.zeros(compute.vocab, dtype=torch.bool)
        kept[allowed[sparse.index(row)]] = True
        assert torch.equal(found[row, kept], expected[row, kept])
        assert (found[row, ~kept] == UNTOUCHED).all()


def test_rows_that_are_looked_at_otherwise_or_allow_much_are_computed_whole(tiny: MakeModel) -> None:
    compute = Pass(tiny("llama"))
    compute()
    expected = compute()
    wanted = WantedLogits(ROWS)
    wanted.mark_refused(masks_of(compute.vocab, [[5], list(range(compute.vocab // 4)), [6]]), [-1, 3, 4])
    found = compute(wanted)
    assert [row for row in range(ROWS) if not torch.equal(found[row], expected[row])] == [4]


def test_what_is_told_too_late_is_computed_and_the_next_step_does_not_hear_of_it(tiny: MakeModel) -> None:
    compute = Pass(tiny("llama"))
    compute()
    late = WantedLogits(ROWS)
    expected = compute(late)
    assert not (expected == UNTOUCHED).any()
    late.mark_refused(masks_of(compute.vocab, [[5]]), [0])
    assert torch.equal(compute(WantedLogits(ROWS)), expected)
    assert torch.equal(compute(), expected)


@pytest.mark.parametrize("hostile", [float("nan"), 1e30])
async def test_nobody_looks_at_logits_that_were_left_out(
    hostile: float, tiny: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers of rows of all kinds, with guesses and without, beside answers for which everything is computed; the
    memory that logits are written to is full of what would change them."""
    model = tiny("llama")
    script = [{5}, {6, 7}, set(range(40)), {20, 21, 22}, {7, 8}, set(range(200)), {12, 13}, {9, 10, 11}, {14}]
    wishes: list[dict[str, Any]] = [
        {},
        {"temperature": 1.0},
        {"temperature": 1.0, "top_p": 0.8},
        {"logprobs": 3},
        {"logit_bias": {6: -5.0, 21: 3.0}, "temperature": 1.0},
        {"repetition_penalty": 1.3, "temperature": 1.0},
        {"typical_p": 0.5, "temperature": 1.0},
        {"bad_words": ("ab",), "temperature": 1.0},
        {"min_tokens": 5},
        {"use_beam_search": True, "best_of": 2},
    ]

    def jobs() -> list[Any]:
        free = [a_job(model, prompt, temperature=1.0, seed=1) for prompt in prompts([5, 9])]
        bound = [a_job(model, "the", grammar=ScriptedGrammar(script, EOS), seed=3, **wish) for wish in wishes]
        return free + bound

    with monkeypatch.context() as patch:
        patch.setattr(ModelRunner, "can_leave_out", False)
        async with serving(model, max_batch_size=16, draft_tokens=0) as engine:
            expected = await run(engine, *jobs())
    told = []
    compute, mark_refused = Decoder.run, WantedLogits.mark_refused

    def poisoned(self: Decoder, *given: Any) -> torch.Tensor:
        self._logits.fill_(hostile)
        return compute(self, *given)

    def noted(self: WantedLogits, bitmask: Any, rows: Any) -> None:
        told.append(rows)
        mark_refused(self, bitmask, rows)

    monkeypatch.setattr(Decoder, "run", poisoned)
    monkeypatch.setattr(WantedLogits, "mark_refused", noted)
    for draft in (0, 4):
        async with serving(model, max_batch_size=16, draft_tokens=draft, drafts_per_step=64) as engine:
            searching = await run(engine, *jobs())
            drawing = await run(engine, *jobs()[:-1])
        assert [(r.tokens, r.text) for r in searching] == [(r.tokens, r.text) for r in expected]
        assert [(r.tokens, r.logprobs) for r in drawing] == [(r.tokens, r.logprobs) for r in expected[:-1]]
    assert any(row >= 0 for rows in told for row in rows)
    assert any(row < 0 for rows in told for row in rows)
