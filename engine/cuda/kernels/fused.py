"""Triton kernels of what lies between a layer's products: norms, positions, and the gate of its MLP.

Numbers are rounded to the model's dtype where the code of `transformers` rounds them: after a norm and before its
weight, after each product with a cosine or a sine, after the activation.
"""

from __future__ import annotations

import triton
import triton.language as tl

from sluicegate.engine.cuda.kernels.attention import to_bytes


@triton.jit
def add_and_normalise(  # type: ignore[no-untyped-def]
    x, added, weight, out, width, epsilon, WIDE: tl.constexpr, ADDS: tl.constexpr
):  # fmt: skip
    """Add and normalise. Grid (rows,). `x` [T, width] becomes x + `added`, if ADDS; `out` is its root-mean-square norm
    times `weight`."""
    row = tl.program_id(0).to(tl.int64) * width
    place = tl.arange(0, WIDE)
    inside = place < width
    numbers = tl.load(x + row + place, mask=inside, other=0.0)
    kind = numbers.dtype
    if ADDS:
        more = tl.load(added + row + place, mask=inside, other=0.0)
        numbers = (numbers.to(tl.float32) + more.to(tl.float32)).to(kind)
        tl.store(x + row + place, numbers, mask=inside)
    whole = numbers.to(tl.float32)
    scale = 1 / tl.sqrt_rn(tl.sum(whole * whole, 0) / width + epsilon)
    normed = (whole * scale).to(kind).to(tl.float32)
    factor = tl.load(weight + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row + place, (normed * factor).to(kind), mask=inside)


@triton.jit
def turn_and_store(  # type: ignore[no-untyped-def]
    qkv, cosines, sines, query_norm, key_norm, slots, keys, values, key_scales, value_scales, heads, kv_heads, epsilon,
    DIM: tl.constexpr, WIDE: tl.constexpr, LARGEST: tl.constexpr, NORMED: tl.constexpr,
):  # fmt: skip
    """Normalise and turn queries and keys, and store keys and values. Grid (tokens, heads + 2 kv_heads). Rows of `qkv`
    [T, (heads + 2 kv_heads) DIM] hold queries, then keys, then values.

    Queries, and keys, get their norms [DIM], if NORMED, and their positions, by halves of a head, from `cosines` and
    `sines` [T, DIM]; queries in place. Keys and values go to `keys` and `values` [slots, kv_heads, DIM] as
    `store_tokens` puts them there: in 8 bits with a scale each where LARGEST is not 0; a slot below 0 keeps nothing.
    `WIDE`: half a head rounded up to a power of two.
    """
    token, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    half: tl.constexpr = DIM // 2
    dims = tl.arange(0, WIDE)
    inside = dims < half
    place = qkv + (token * (heads + 2 * kv_heads) + head) * DIM + dims
    first = tl.load(place, mask=inside, other=0.0)
    second = tl.load(place + half, mask=inside, other=0.0)
    kind = first.dtype
    first, second = first.to(tl.float32), second.to(tl.float32)
    is_query = head < heads
    if head < heads + kv_heads:
        if NORMED:
            norm = query_norm if is_query else key_norm
            scale = 1 / tl.sqrt_rn((tl.sum(first * first, 0) + tl.sum(second * second, 0)) / DIM + epsilon)
            first = weigh(first * scale, norm + dims, inside, kind)
            second = weigh(second * scale, norm + half + dims, inside, kind)
        turn = token * DIM + dims
        # Both halves have the same angles.
        cosine = tl.load(cosines + turn, mask=inside, other=0.0).to(tl.float32)
        sine = tl.load(sines + turn, mask=inside, other=0.0).to(tl.float32)
        turned = (first * cosine).to(kind).to(tl.float32) - (second * sine).to(kind).to(tl.float32)
        second = (second * cosine).to(kind).to(tl.float32) + (first * sine).to(kind).to(tl.float32)
        first, second = turned.to(kind).to(tl.float32), second.to(kind).to(tl.float32)
    if is_query:
        tl.store(place, first.to(kind), mask=inside)
        tl.store(place + half, second.to(kind), mask=inside)
    else:
        slot = tl.load(slots + token)
        if slot >= 0:
            if head < heads + kv_heads:
                row = slot * kv_heads + head - heads
                keep(first, second, keys, key_scales, row, dims, inside, DIM, LARGEST)
            else:
                row = slot * kv_heads + head - heads - kv_heads
                keep(first, second, values, value_scales, row, dims, inside, DIM, LARGEST)


@triton.jit
def weigh(numbers, weight, inside, kind: tl.constexpr):  # type: ignore[no-untyped-def]
    """Round `numbers` float32 to `kind`, multiply with the weights at `weight`, and round again; in float32."""
    factor = tl.load(weight, mask=inside, other=0.0).to(tl.float32)
    return (numbers.to(kind).to(tl.float32) * factor).to(kind).to(tl.float32)


@triton.jit
def keep(  # type: ignore[no-untyped-def]
    first, second, kept, scales, row, dims, inside, DIM: tl.constexpr, LARGEST: tl.constexpr
):  # fmt: skip
    """Store both halves of a head in `kept` [rows, DIM]."""
    if LARGEST > 0:
        unit = tl.maximum(tl.max(tl.abs(first), 0), tl.max(tl.abs(second), 0)) / LARGEST
        tl.store(scales + row, unit)
        first, second = to_bytes(first, unit, LARGEST), to_bytes(second, unit, LARGEST)
    target = kept + row * DIM + dims
    tl.store(target, first.to(kept.dtype.element_ty), mask=inside)
    tl.store(target + DIM // 2, second.to(kept.dtype.element_ty), mask=inside)


@triton.jit
def gate_rows(both, out, width, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Write `out` [T, width] = silu(gate) * up, of rows [gate, up] of `both` [T, 2 width]. Grid (rows, ceil(width /
    COLUMNS))."""
    row = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = place < width
    gate = tl.load(both + 2 * row * width + place, mask=inside, other=0.0)
    up = tl.load(both + (2 * row + 1) * width + place, mask=inside, other=0.0).to(tl.float32)
    whole = gate.to(tl.float32)
    fallen = tl.exp(-tl.abs(whole))  # never above 1
    opened = (whole * tl.where(whole < 0, fallen, 1.0) / (1 + fallen)).to(gate.dtype).to(tl.float32)
    tl.store(out + row * width + place, (opened * up).to(gate.dtype), mask=inside)
