"""Launch the attention kernels, with the parameters of a layer, its pool and a step's tiles."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from sluicegate.engine.attention.paged import Scoring
from sluicegate.engine.cuda.kernels.attention import attend_tiles, merge_splits, store_tokens
from sluicegate.engine.memory.kv import E4M3, LARGEST, KVPool

SPLITS = 16
"""Parts of a single query's keys, computed in parallel. Fixed, so that the order of summation is fixed."""
LEAST_SPAN = 128
"""Fewest keys per part: shorter sequences have fewer parts."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """Tokens that are attended to together, on the device. `numbers` [n, 4] and `tables` are described in
    `engine.cuda.kernels.attention`; `tokens`: the most tokens of a tile."""

    numbers: Tensor
    tables: Tensor
    tokens: int = 1

    @property
    def count(self) -> int:
        return len(self.numbers)


def tokens_a_tile(query: Tensor, kv_heads: int) -> int:
    """Return the tokens of a chunk's tile: as many of `query` [1, H, T, D] as, times the heads that share a key head,
    fill a tile's rows without spilling registers (seen in what the compiler reports for compute capability 9.0)."""
    rows = 32 if query.dtype == torch.float32 else 64 if query.shape[-1] > 128 else 128
    return max(1, rows * kv_heads // query.shape[1])


def store(pool: KVPool, layer: int, slots: Tensor, key: Tensor, value: Tensor) -> None:
    """Write keys and values as `KVPool.write` does, in one launch each. Negative `slots` ([T] int64) store nothing."""
    small = pool.is_small
    _store(pool, key, pool.keys[layer], pool.key_scales[layer] if small else None, slots)
    _store(pool, value, pool.values[layer], pool.value_scales[layer] if small else None, slots)


def attend_paged(pool: KVPool, layer: int, query: Tensor, tiles: Tiles, out: Tensor, scoring: Scoring) -> None:
    """Attend with the tokens of `tiles` in `query` [1, H, T, D] over what the pool holds, into `out` [T, H, D_v].

    Tiles of single tokens split their keys and are merged; chunks do not need it: there are enough of them.
    """
    shape, dim = pool.layers[layer], query.shape[-1]
    scaling, window, softcap = scoring[:3]
    query = query if query.stride(-1) == 1 else query.contiguous()
    group = shape.query_heads // shape.kv_heads
    splits = SPLITS if tiles.tokens == 1 else 1
    rows = max(16, triton.next_power_of_2(group * tiles.tokens))
    heads, room = shape.query_heads, splits > 1
    narrow = max(dim, shape.value_dim) * query.element_size() <= 256
    # Measured on an H200: a single token's part is best read at once, a chunk's keys by three stages.
    keys, stages = (LEAST_SPAN if room else 64, 2 if room else 3) if narrow else (32, 3)
    sums = torch.empty(query.shape[2] * heads * splits if room else 1, shape.value_dim, device=query.device)
    norms = torch.empty(query.shape[2] * heads * splits if room else 1, 2, device=query.device)
    small = pool.is_small
    value_wide = max(16, triton.next_power_of_2(shape.value_dim))
    attend_tiles[(tiles.count, shape.kv_heads, splits)](
        query, _kept(pool, pool.keys[layer]), _kept(pool, pool.values[layer]),
        pool.key_scales[layer] if small else norms, pool.value_scales[layer] if small else norms,
        tiles.tables, tiles.numbers, out, sums, norms,
        query.stride(1), query.stride(2), heads, shape.kv_heads, window or 0,
        scaling if scaling is not None else dim**-0.5, softcap or 1.0,
        GROUP=group, ROWS=rows, KEYS=keys, PAGE=pool.block_size,
        DIM=dim, WIDE=max(16, triton.next_power_of_2(dim)), VALUE_DIM=shape.value_dim, VALUE_WIDE=value_wide,
        SPLITS=splits, SPAN=LEAST_SPAN, SMALL=small, CAPPED=bool(softcap), WIDEN=_widens(query),
        num_warps=4 if query.element_size() < 4 and rows * value_wide <= 64 * 128 else 8, num_stages=stages,
    )  # fmt: skip
    if room:
        merge_splits[(tiles.count, heads)](
            tiles.numbers, out, sums, norms, heads, window or 0,
            KEYS=keys, VALUE_DIM=shape.value_dim, VALUE_WIDE=value_wide, SPLITS=splits, SPAN=LEAST_SPAN,
            num_warps=4,
        )  # fmt: skip


def _kept(pool: KVPool, numbers: Tensor) -> Tensor:
    """View `numbers` as the kernels read them: `fp8` lies in the pool as bytes."""
    return numbers.view(E4M3) if pool.kv == "fp8" else numbers


def _store(pool: KVPool, new: Tensor, kept: Tensor, scales: Tensor | None, slots: Tensor) -> None:
    """Write `new` [1, H, T, D] into `kept` [num_blocks, block_size, H, D]."""
    new = new if new.stride(-1) == 1 else new.contiguous()
    heads, tokens, dim = new.shape[1:]
    store_tokens[(tokens, heads)](
        new, _kept(pool, kept), slots if scales is None else scales, slots, new.stride(1), new.stride(2), heads,
        DIM=dim, WIDE=triton.next_power_of_2(dim), LARGEST=LARGEST.get(pool.kv, 0.0), num_warps=1,
    )  # fmt: skip


def _widens(query: Tensor) -> bool:
    """Return whether products must be in float32: on a CPU, where the kernels are interpreted, there are none of
    bfloat16."""
    return query.dtype == torch.float32 or query.device.type == "cpu"
