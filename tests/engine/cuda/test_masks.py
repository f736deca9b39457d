"""Masks filled in the memory that a device copies from, and applied by the kernel, against torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

pytest.importorskip("triton", reason="pip install 'sluicegate[cuda]' brings triton")

from sluicegate.engine.cuda.staging import Staging
from sluicegate.engine.sampling.bitmasks import apply_bitmask, words_for
from sluicegate.engine.sampling.cuda_draws import CudaDraws
from sluicegate.engine.sampling.outcomes import MaskRows
from sluicegate.engine.sampling.sampler import Sampler
from tests.engine.conftest import MakeModel
from tests.engine.driving import ScriptedGrammar, a_job, run, serving
from tests.engine.rows import a_row

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.sampled_from([1, 31, 32, 33, 1000, 1025, 2500]), st.integers(1, 4), st.integers(0, 99), st.data())
def test_the_kernel_refuses_exactly_the_zero_bits(vocab: int, rows: int, seed: int, data: st.DataObject) -> None:
    """Any rows of a batch, in order, filled in place; the fewer masks of what was made room for."""
    chosen = sorted(data.draw(st.sets(st.integers(0, rows - 1), min_size=1)))
    random = np.random.default_rng(seed)
    logits = torch.from_numpy(random.standard_normal((rows, vocab)).astype(np.float32)).to(DEVICE)
    expected, draws = logits.clone(), CudaDraws(DEVICE)
    room = draws.room(rows, words_for(vocab))
    assert not room.any()
    room[:] = random.integers(-(2**31), 2**31, room.shape, np.int32)
    apply_bitmask(expected, chosen, np.ascontiguousarray(room[: len(chosen)]))
    draws.refuse(logits, chosen, room[: len(chosen)])
    assert torch.equal(logits, expected)


def test_masks_that_lie_elsewhere_are_applied_too() -> None:
    """Two kinds of masks in one step: the first is on its way when room is made for the second."""
    logits = torch.zeros(2, 40, device=DEVICE)
    draws = CudaDraws(DEVICE)
    draws.room(1, 2)[:] = -1
    draws.refuse(logits, [1], np.array([[1, 0]], np.int32))
    assert logits[0].isfinite().all()
    assert logits[1].isfinite().nonzero().flatten().tolist() == [0]


def test_staging_grows_and_is_used_again() -> None:
    staging = Staging(torch.int64, DEVICE)
    for size in (3, 100, 2):
        staging.room(size)[:] = np.arange(size)
        assert staging.send(size).tolist() == list(range(size))
    staging.room(2)[:] = [7, 8]
    target = torch.zeros(5, dtype=torch.int64, device=DEVICE)
    assert staging.send(2, target).tolist() == [7, 8]
    assert target.tolist() == [7, 8, 0, 0, 0]


def test_a_sampler_draws_under_masks_of_the_device() -> None:
    """One constrained row of three, greedy and not."""
    sampler = Sampler(64)
    sampler._draws = CudaDraws(DEVICE)
    rows = [a_row([1], vocab_size=64, temperature=t, seed=i) for i, t in enumerate((0.0, 0.8, 0.8))]
    bitmask = sampler.room(2, 2)
    bitmask[:, 0], bitmask[0, 1] = 1 << 5, 0
    for _ in range(3):
        logits = torch.randn(3, 64, generator=torch.Generator().manual_seed(2)).to(DEVICE)
        drawn = sampler.draw(logits, rows, MaskRows([1, 2], bitmask))
        assert [getattr(outcome, "token_id", None) for outcome in drawn[1:]] == [5, 5]


async def test_a_whole_engine_with_the_kernels_answers_as_it_does_without(tiny: MakeModel) -> None:
    """Chunks, drafts, grammars and draws through the kernels of attention and masks."""
    model, answers = tiny("gemma2"), []
    for kind in ("reference", "triton"):
        async with serving(model, attention=kind, max_batch_tokens=24) as engine:
            if kind == "triton":
                engine._registry.cores[0]._sampler._draws = CudaDraws(DEVICE)
            grammar = ScriptedGrammar([{3, 4, 5}, {6, 7}, {8}], eos=model.eos_token_ids[0])
            jobs = [
                a_job(model, list(range(20, 34)), max_tokens=2, ignore_eos=True),
                a_job(model, [1, 2, 3, 1, 2, 3, 1, 2], max_tokens=2, ignore_eos=True, temperature=0.8, seed=3),
                a_job(model, [9, 8], grammar=grammar),
            ]
            answers.append([result.tokens for result in await run(engine, *jobs)])
    assert answers[0] == answers[1]
