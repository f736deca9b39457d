"""Launch the kernels between a layer's products, with the strides and sizes of their tensors."""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from sluicegate.engine.cuda.kernels.fused import add_and_normalise, gate_rows, turn_and_store
from sluicegate.engine.memory.kv import E4M3, LARGEST, KVPool

_COLUMNS = 1024


def normalised(x: Tensor, added: Tensor | None, weight: Tensor, epsilon: float) -> Tensor:
    """Add `added` to `x` [T, d] in place, and return its root-mean-square norm times `weight` [d]."""
    out = torch.empty_like(x)
    wide = triton.next_power_of_2(x.shape[1])
    add_and_normalise[(len(x),)](
        x, x if added is None else added, weight, out, x.shape[1], epsilon,
        WIDE=wide, ADDS=added is not None, num_warps=min(16, max(1, wide // 512)),
    )  # fmt: skip
    return out


def placed(
    pool: KVPool,
    layer: int,
    slots: Tensor,
    qkv: Tensor,
    turns: tuple[Tensor, Tensor],
    norms: tuple[Tensor, Tensor] | None,
    epsilon: float,
) -> Tensor:
    """Give queries and keys of `qkv` [T, (H + 2 H_kv) D] their `norms` and positions, keep keys and values at `slots`
    [T], and return the queries [1, H, T, D], which lie in `qkv`. `turns`: cosines and sines [T, D]."""
    shape, tokens = pool.layers[layer], len(qkv)
    heads, dim = shape.query_heads, shape.key_dim
    keys, values = (_kept(pool, of[layer]) for of in (pool.keys, pool.values))
    scales = (pool.key_scales[layer], pool.value_scales[layer]) if pool.is_small else (slots, slots)
    turn_and_store[(tokens, heads + 2 * shape.kv_heads)](
        qkv, *turns, *(norms or (qkv, qkv)), slots, keys, values, *scales, heads, shape.kv_heads, epsilon,
        DIM=dim, WIDE=triton.next_power_of_2(dim // 2), LARGEST=LARGEST.get(pool.kv, 0.0), NORMED=norms is not None,
        num_warps=1,
    )  # fmt: skip
    return qkv.view(tokens, -1, dim)[:, :heads].transpose(0, 1)[None]


def gated(both: Tensor) -> Tensor:
    """Return silu(gate) * up [T, n] of `both` [T, 2 n]."""
    width = both.shape[1] // 2
    out = both.new_empty(len(both), width)
    gate_rows[(len(both), triton.cdiv(width, _COLUMNS))](both, out, width, COLUMNS=_COLUMNS, num_warps=4)
    return out


def _kept(pool: KVPool, numbers: Tensor) -> Tensor:
    return numbers.view(E4M3) if pool.kv == "fp8" else numbers
