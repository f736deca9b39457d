"""The Triton kernels against gather and SDPA, and each row against itself alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor

from sluicegate.engine.attention.paged import Scoring, StepLayout, TokenSpan
from sluicegate.engine.memory.kv import KVPool, LayerShape
from sluicegate.engine.settings import KVKind

pytest.importorskip("triton", reason="pip install 'sluicegate[cuda]' brings triton")

from sluicegate.engine.cuda.attend import LEAST_SPAN, Tiles, store
from sluicegate.engine.cuda.layout import FixedLayout, TritonLayout, tile

BLOCKS = 96
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]  # to shrink an example takes minutes in the interpreter
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SHAPES = [(4, 2, 64, 64), (3, 3, 16, 32), (8, 1, 96, 96), (6, 2, 128, 128), (5, 1, 66, 64)]
"""Query heads, key heads, and the widths of a key and of a value."""


@dataclass
class Case:
    """A step's inputs, and the pool as it is before the step: everything earlier is already in it."""

    pool: KVPool
    stretches: list[TokenSpan]
    slots: Tensor
    query: Tensor
    key: Tensor
    value: Tensor

    @classmethod
    def of(
        cls,
        stretches: Sequence[tuple[int, int]],
        shape: tuple[int, int, int, int],
        seed: int,
        *,
        block: int = 4,
        dtype: torch.dtype = torch.float32,
        kv: KVKind = "full",
    ) -> Case:
        heads, kv_heads, dim, value_dim = shape
        random = torch.Generator().manual_seed(seed)
        layer = LayerShape(kv_heads, dim, value_dim, heads)
        pool = KVPool([layer], BLOCKS, block, dtype, DEVICE, kv=kv)
        free = torch.randperm(BLOCKS, generator=random).numpy()
        asked, slots, keys, values = [], [], [], []
        for start, count in sorted(stretches, key=lambda s: s[1]):
            needed = -(-(start + count) // block)
            table, free = free[:needed].copy(), free[needed:]
            positions = np.arange(start + count)
            where = torch.from_numpy(table[positions // block] * block + positions % block).to(DEVICE)
            key = torch.randn(kv_heads, start + count, dim, generator=random).to(DEVICE, dtype)
            value = torch.randn(kv_heads, start + count, value_dim, generator=random).to(DEVICE, dtype)
            pool.write(0, where[:start], key[None, :, :start], value[None, :, :start])
            asked.append(TokenSpan(start, count, table))
            slots.append(where[start:])
            keys.append(key[:, start:])
            values.append(value[:, start:])
        query = torch.randn(1, sum(map(len, slots)), heads, dim, generator=random).to(DEVICE, dtype).transpose(1, 2)
        return cls(pool, asked, torch.cat(slots), query, torch.cat(keys, 1)[None], torch.cat(values, 1)[None])

    def by(self, kind: type[StepLayout] | type[TritonLayout], window: int | None, cap: float | None) -> Tensor:
        layout = kind(self.pool, self.stretches, self.slots)
        return layout.attend(0, self.query, self.key, self.value, Scoring(window=window, softcap=cap))

    def alone(self, at: int) -> Case:
        """Return the stretch `at` by itself, in the same blocks."""
        begin = sum(stretch.count for stretch in self.stretches[:at])
        here = slice(begin, begin + self.stretches[at].count)
        tensors = [tensor[:, :, here] for tensor in (self.query, self.key, self.value)]
        return Case(self.pool, [self.stretches[at]], self.slots[here], *tensors)


@settings(max_examples=12, deadline=None, phases=PHASES)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 14)), min_size=1, max_size=4),
    st.sampled_from(SHAPES),
    st.sampled_from([None, 1, 3, 7]),
    st.sampled_from([None, 2.0]),
    st.integers(0, 99),
)
def test_kernels_compute_what_gather_and_sdpa_compute(
    stretches: list[tuple[int, int]], shape: tuple[int, int, int, int], window: int | None, cap: float | None, seed: int
) -> None:
    """Single tokens, drafts and chunks in one step; grouped heads, windows, soft caps, scattered blocks."""
    case = Case.of(stretches, shape, seed)
    found = case.by(TritonLayout, window, cap)
    assert torch.allclose(found, case.by(StepLayout, window, cap), atol=2e-5)


@pytest.mark.parametrize("window", [None, 100, 300])
def test_keys_in_many_splits_give_what_they_give_at_once(window: int | None) -> None:
    """Lengths around the borders of splits and tiles, in blocks of 16."""
    lengths = [LEAST_SPAN - 1, LEAST_SPAN, LEAST_SPAN + 1, 3 * LEAST_SPAN + 17]
    case = Case.of([(length - 1, 1) for length in lengths], (4, 2, 64, 64), 3, block=16)
    assert torch.allclose(case.by(TritonLayout, window, None), case.by(StepLayout, window, None), atol=2e-5)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 2e-2), (torch.float16, 4e-3)])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype, tolerance: float) -> None:
    case = Case.of([(40, 1), (3, 5), (20, 12)], (4, 2, 64, 64), 5, dtype=dtype)
    found = case.by(TritonLayout, None, None)
    assert found.dtype == dtype
    assert torch.allclose(found.float(), case.by(StepLayout, None, None).float(), atol=tolerance)


@pytest.mark.parametrize("kv", ["int8", "fp8"])
def test_keys_and_values_in_8_bits_are_read_with_their_scales(kv: KVKind) -> None:
    """The chunk is not the beginning of its sequence, so that both ways read everything from the pool."""
    case = Case.of([(40, 1), (3, 5), (20, 12)], (4, 2, 64, 64), 7, kv=kv)
    assert torch.allclose(case.by(TritonLayout, None, None), case.by(StepLayout, None, None), atol=2e-5)


@pytest.mark.parametrize("kv", ["full", "int8", "fp8"])
def test_storing_is_what_the_pool_does_and_slots_below_zero_keep_nothing(kv: KVKind) -> None:
    random = torch.Generator().manual_seed(1)
    ours, theirs = (KVPool([LayerShape(2, 24, 16, 2)], 4, 4, torch.float32, DEVICE, kv=kv) for _ in range(2))
    key = torch.randn(1, 5, 2, 24, generator=random).to(DEVICE).transpose(1, 2)
    value = torch.randn(1, 5, 2, 16, generator=random).to(DEVICE).transpose(1, 2)
    slots = torch.tensor([3, -1, 9, -1, 0], device=DEVICE)
    store(ours, 0, slots, key, value)
    kept = slots >= 0
    theirs.write(0, slots[kept], key[:, :, kept], value[:, :, kept])
    for name in ("keys", "values", "key_scales", "value_scales"):
        for left, right in zip(getattr(ours, name), getattr(theirs, name), strict=True):
            assert torch.equal(left, right), name


@settings(max_examples=4, deadline=None, phases=PHASES)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12)), min_size=2, max_size=5),
    st.sampled_from([None, 5]),
    st.integers(0, 99),
)
def test_a_row_is_the_same_bits_alone_and_in_a_batch(
    stretches: list[tuple[int, int]], window: int | None, seed: int
) -> None:
    case = Case.of(stretches, (4, 2, 64, 64), seed)
    together, at = case.by(TritonLayout, window, None), 0
    for index, stretch in enumerate(case.stretches):
        assert torch.equal(case.alone(index).by(TritonLayout, window, None), together[at : at + stretch.count])
        at += stretch.count


def test_a_guess_changes_no_bit_of_the_token_before_it() -> None:
    """A draft's tokens are computed as single tokens are."""
    case = Case.of([(200, 4)], (4, 2, 64, 64), 9, block=16)
    one = Case(case.pool, [TokenSpan(200, 1, case.stretches[0].table)], case.slots[:1], *(
        tensor[:, :, :1] for tensor in (case.query, case.key, case.value)
    ))  # fmt: skip
    assert torch.equal(one.by(TritonLayout, None, None), case.by(TritonLayout, None, None)[:1])


def test_padding_changes_nothing_and_gives_zeros() -> None:
    """What a captured step computes for places without a token."""
    case = Case.of([(40, 1), (7, 1)], (4, 2, 64, 64), 11)
    expected = case.by(TritonLayout, None, None)
    numbers = torch.from_numpy(tile(case.stretches, 8, 1)[0])
    numbers = torch.cat([numbers, torch.zeros(2, 4, dtype=torch.int64)]).to(DEVICE)
    numbers[2:, 0] = torch.tensor([2, 3])
    tables = torch.from_numpy(np.concatenate([stretch.table for stretch in case.stretches])).to(DEVICE)
    slots = torch.cat([case.slots, torch.tensor([-1, -1], device=DEVICE)])
    before = case.pool.keys[0].clone()
    query, key, value = (torch.cat([t, torch.randn_like(t)], 2) for t in (case.query, case.key, case.value))
    layout = FixedLayout(case.pool, Tiles(numbers, tables), slots)
    found = layout.attend(0, query, key, value, Scoring())
    assert torch.equal(found[:2], expected)
    assert not found[2:].any()
    assert torch.equal(case.pool.keys[0], before)


def test_a_nan_in_a_key_is_not_lost() -> None:
    """A broken model must be found by its NaN logits."""
    case = Case.of([(20, 1)], (4, 2, 64, 64), 13)
    case.pool.keys[0][int(case.stretches[0].table[1]), 1, 0, 3] = float("nan")
    assert case.by(TritonLayout, None, None)[:, :2].isnan().all()
