"""The in-place kernel against gather and SDPA, and both against attention written out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.engine import load_model
from sluicegate.engine.attention.paged import InPlaceLayout, Scoring, StepLayout, TokenSpan
from sluicegate.engine.memory.kv import KVPool, LayerShape
from tests.engine.conftest import MakeModel
from tests.engine.driving import a_job, prompts, run, serving

BLOCK = 4


def by_hand(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, at: int, window: int | None, cap: float | None
) -> list[float]:
    """Compute one head's output for the query at position `at`; q [D], k [S, D], v [S, D_v]."""
    first = max(0, at - window + 1) if window else 0
    scores = [float(q @ k[j]) / math.sqrt(len(q)) for j in range(first, at + 1)]
    scores = [cap * math.tanh(score / cap) for score in scores] if cap else scores
    weights = [math.exp(score - max(scores)) for score in scores]
    return [sum(w * float(v[first + j, d]) for j, w in enumerate(weights)) / sum(weights) for d in range(v.shape[1])]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 21), st.integers(1, 12)), min_size=1, max_size=5),
    st.sampled_from([(4, 2, 8, 8), (3, 3, 8, 16), (6, 1, 64, 64)]),
    st.sampled_from([None, 1, 3, 7]),
    st.sampled_from([None, 2.0]),
    st.integers(0, 99),
)
def test_both_layouts_compute_attention(
    stretches: list[tuple[int, int]], shape: tuple[int, int, int, int], window: int | None, cap: float | None, seed: int
) -> None:
    """Any mixture of single tokens and chunks, grouped heads, windows, soft caps, scattered blocks."""
    heads, kv_heads, dim, value_dim = shape
    random = torch.Generator().manual_seed(seed)
    layer = LayerShape(kv_heads, dim, value_dim, heads, window)
    pool = KVPool([layer], 64, BLOCK, torch.float32, torch.device("cpu"))
    free = torch.randperm(64, generator=random).numpy()
    histories, asked, slots = [], [], []
    for start, count in sorted(stretches, key=lambda s: s[1]):
        table, free = free[: -(-(start + count) // BLOCK)].copy(), free[-(-(start + count) // BLOCK) :]
        positions = np.arange(start + count)
        where = torch.from_numpy(table[positions // BLOCK] * BLOCK + positions % BLOCK)
        k = torch.randn(kv_heads, start + count, dim, generator=random)
        v = torch.randn(kv_heads, start + count, value_dim, generator=random)
        pool.write(0, where[:start], k[None, :, :start], v[None, :, :start])
        histories.append((k, v))
        asked.append(TokenSpan(start, count, table))
        slots.append(where[start:])
    new_k = torch.cat([k[:, s.start :] for (k, _), s in zip(histories, asked, strict=True)], 1)[None]
    new_v = torch.cat([v[:, s.start :] for (_, v), s in zip(histories, asked, strict=True)], 1)[None]
    query = torch.randn(1, heads, new_k.shape[2], dim, generator=random)
    expected = []
    token = 0
    for (k, v), stretch in zip(histories, asked, strict=True):
        for at in range(stretch.start, stretch.end):
            group = heads // kv_heads
            expected.append(
                [by_hand(query[0, h, token], k[h // group], v[h // group], at, window, cap) for h in range(heads)]
            )
            token += 1
    for kind in (StepLayout, InPlaceLayout):
        layout = kind(pool, asked, torch.cat(slots))
        out = layout.attend(0, query, new_k, new_v, Scoring(dim**-0.5, window, cap))
        assert torch.allclose(out, torch.tensor(expected), atol=1e-5), kind


def test_a_nan_in_a_key_is_not_lost_in_the_kernel() -> None:
    """A broken model must be found by its NaN logits."""
    pool = KVPool([LayerShape(1, 8, 8, 1)], 2, BLOCK, torch.float32, torch.device("cpu"))
    layout = InPlaceLayout(pool, [TokenSpan(2, 1, np.array([0]))], torch.tensor([2]))
    pool.keys[0][0, 1, 0, 3] = float("nan")
    one = torch.ones(1, 1, 1, 8)
    assert layout.attend(0, one, one, one, Scoring(1.0)).isnan().all()


@pytest.mark.parametrize("family", ["llama", "gemma2"])
async def test_answers_do_not_depend_on_the_kind_of_attention(family: str, tiny: MakeModel) -> None:
    model = tiny(family)
    jobs = [a_job(model, prompt, max_tokens=16, ignore_eos=True) for prompt in prompts([3, 25, 40])]
    answers = []
    for kind in ("auto", "reference"):
        async with serving(model, attention=kind, max_batch_tokens=13) as engine:
            answers.append([result.tokens for result in await run(engine, *jobs)])
    assert answers[0] == answers[1]


async def test_a_model_in_half_precision_is_served_over_gathered_blocks(tiny_folder: Callable[..., Path]) -> None:
    """No kernel reads bfloat16 in place."""
    model = load_model(tiny_folder("llama"), dtype="bfloat16")
    jobs = [a_job(model, prompt, max_tokens=8, ignore_eos=True, logprobs=1) for prompt in prompts([3, 25])]
    async with serving(model, max_batch_tokens=13) as engine:
        first, second = await run(engine, *jobs)
    assert (len(first.tokens[0]), len(second.tokens[0])) == (8, 8)
    assert all(entry.logprob <= 0 for result in (first, second) for entry in result.logprobs[0])
