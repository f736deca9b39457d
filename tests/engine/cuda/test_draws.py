"""The kernel that draws without sorting: what it keeps, how often it draws what, and what it says of broken rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

pytest.importorskip("triton", reason="pip install 'sluicegate[cuda]' brings triton")

from sluicegate.engine.batching.sample_rows import SampleRow
from sluicegate.engine.sampling.cuda_draws import CudaDraws
from sluicegate.engine.sampling.torch_draws import TorchDraws
from tests.engine.rows import a_row

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def kept_slowly(logits: list[float], temperature: float, top_k: int, top_p: float, min_p: float) -> dict[int, float]:
    """Token -> probability; tokens as likely as the last one kept are kept too."""
    largest = max(logits)
    weights = {token: math.exp((x - largest) / temperature) for token, x in enumerate(logits)}
    ranked = sorted(logits, reverse=True)
    if top_k:
        weights = {token: w for token, w in weights.items() if logits[token] >= ranked[top_k - 1]}
    total = sum(weights.values())
    above = {token: sum(w for other, w in weights.items() if logits[other] > logits[token]) for token in weights}
    weights = {token: w for token, w in weights.items() if above[token] < top_p * total and w >= min_p * 1.0}
    total = sum(weights.values())
    return {token: w / total for token, w in weights.items()}


def inverted(kept: dict[int, float], drawn: float) -> tuple[int, float]:
    """Return the token at `drawn` in the order of the vocabulary, and how far it is from the nearest border."""
    before = 0.0
    for token in sorted(kept):
        if drawn < before + kept[token]:
            return token, min(drawn - before, before + kept[token] - drawn)
        before += kept[token]
    return max(kept), 0.0


@settings(max_examples=10, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    st.sampled_from([40, 1024, 1500]),
    st.sampled_from([0.3, 1.0, 4.0]),
    st.sampled_from([0.5, 1.0, 1.7]),
    st.sampled_from([0, 1, 5, 60]),
    st.sampled_from([1.0, 0.95, 0.4]),
    st.sampled_from([0.0, 0.1]),
    st.integers(0, 999),
)
def test_the_kernel_draws_what_a_sort_would(
    vocab: int, spread: float, temperature: float, top_k: int, top_p: float, min_p: float, seed: int
) -> None:
    """A draw that falls next to a border may fall to either side of it."""
    random = np.random.default_rng(seed)
    values = (spread * random.standard_normal((3, vocab))).astype(np.float32)
    values[:, random.permutation(vocab)[: vocab // 3]] = -np.inf  # refused by a mask
    asked: dict[str, Any] = {"temperature": temperature, "top_k": min(top_k, vocab), "top_p": top_p, "min_p": min_p}
    rows = [a_row([1], vocab_size=vocab, seed=seed + i, **asked) for i in range(3)]
    largest, tokens = CudaDraws(DEVICE).choose(torch.from_numpy(values).to(DEVICE), rows)
    assert largest == values.max(1).tolist()
    for row, logits, token in zip(rows, values.tolist(), tokens, strict=True):
        kept = kept_slowly(logits, temperature, row.rule.top_k, top_p, min_p)
        expected, distance = inverted(kept, uniform_of(row))
        assert token == expected or (distance < 1e-5 and token in kept)


def uniform_of(row: SampleRow) -> float:
    from sluicegate.engine.sampling.rng import uniform

    return uniform(row.seed, row.position)


def test_it_draws_as_often_as_is_likely() -> None:
    """Sixty rows of one distribution, cut at half of its mass."""
    logits = torch.tensor([0.0, 2.0, 1.0, 1.9, -1.0, 0.5], device=DEVICE).repeat(60, 1)
    rows = [a_row([1], vocab_size=6, temperature=1.0, top_p=0.6, seed=i) for i in range(len(logits))]
    _, tokens = CudaDraws(DEVICE).choose(logits, rows)
    kept = kept_slowly(logits[0].tolist(), 1.0, 0, 0.6, 0.0)
    assert set(tokens) == set(kept)
    for token, p in kept.items():
        assert abs(tokens.count(token) / len(tokens) - p) < 4 * math.sqrt(p * (1 - p) / len(tokens))


def test_greedy_rows_take_the_first_of_the_largest_as_torch_does() -> None:
    logits = torch.randn(4, 70, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    logits[1, 3] = logits[1, 60] = 9.0
    rows = [a_row([1], vocab_size=70, temperature=t, seed=i) for i, t in enumerate((0.0, 0.0, 1.0, 0.0))]
    found, expected = (draws.choose(logits, rows) for draws in (CudaDraws(DEVICE), TorchDraws()))
    assert found == expected
    assert found[1][1] == 3


def test_equal_logits_are_kept_together() -> None:
    """All five of them, though one would be enough."""
    logits = torch.zeros(40, 5, device=DEVICE)
    rows = [a_row([1], vocab_size=5, temperature=1.0, top_k=1, seed=i) for i in range(40)]
    assert set(CudaDraws(DEVICE).choose(logits, rows)[1]) == {0, 1, 2, 3, 4}


def test_broken_rows_are_told_and_leave_the_others_alone() -> None:
    """A NaN, nothing allowed, infinity; beside them a row that is well."""
    logits = torch.zeros(4, 40, device=DEVICE)
    logits[0, 7] = float("nan")
    logits[1] = float("-inf")
    logits[2, 5] = float("inf")
    rows = [a_row([1], vocab_size=40, temperature=1.0, top_p=0.5, seed=i) for i in range(4)]
    largest, tokens = CudaDraws(DEVICE).choose(logits, rows)
    assert math.isnan(largest[0])
    assert largest[1:] == [float("-inf"), float("inf"), 0.0]
    assert all(0 <= token < 40 for token in tokens)
    alone = CudaDraws(DEVICE).choose(logits[3:], rows[3:])
    assert tokens[3] == alone[1][0]
