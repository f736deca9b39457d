"""Triton kernels of paged attention. `engine.cuda.attend` checks and launches; `engine.memory.kv.attend` is the slow
twin.

A *tile* is a few consecutive tokens of one sequence: `tiles` [n, 4] int64 holds (place of its first token in the step,
tokens, position of the first, where its block table begins in `tables`). The query heads that share a key head are rows
of one matrix beside the tokens, so that a key is read once for all of them.

Keys are taken `KEYS` at a time at absolute positions, and where they are split, the borders follow from the row's own
length: what else is in the batch changes no bit of a row. The algorithm is FlashAttention's (Dao, 2023) with the keys
split as in FlashDecoding (Dao, Haziza, Massa, Sizov, 2023).
"""

from __future__ import annotations

import triton
import triton.language as tl

_TO_BASE_2 = tl.constexpr(1.4426950408889634)
_TO_NEAREST = tl.constexpr(12582912.0)  # 1.5 * 2 ** 23: what is added to it and taken away again is a whole number


@triton.jit
def attend_tiles(  # type: ignore[no-untyped-def]
    query, keys, values, key_scales, value_scales, tables, tiles, out, sums, norms,
    query_head_stride, query_token_stride, heads, kv_heads, window, scaling, softcap,
    GROUP: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, PAGE: tl.constexpr,
    DIM: tl.constexpr, WIDE: tl.constexpr, VALUE_DIM: tl.constexpr, VALUE_WIDE: tl.constexpr,
    SPLITS: tl.constexpr, SPAN: tl.constexpr, SMALL: tl.constexpr, CAPPED: tl.constexpr, WIDEN: tl.constexpr,
):  # fmt: skip
    """Attend by tiles of queries, over splits of the keys. Grid (tiles, kv_heads, SPLITS). `query` [H, T, D] by
    strides; `out` [T, H, D_v].

    With one split the result goes to `out`; else `sums` [T, H, SPLITS, D_v] float32 gets the weighted values of this
    split, `norms` [T, H, SPLITS, 2] the largest score (base 2) and the sum of weights, for `merge_splits`.
    `WIDE`, `VALUE_WIDE`: dimensions rounded up to a power of two. `SPAN`: least keys of a split, a multiple of `KEYS`.
    `WIDEN`: products in float32.
    """
    tile, kv_head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    token = tl.load(tiles + 4 * tile)
    count = tl.load(tiles + 4 * tile + 1)
    position = tl.load(tiles + 4 * tile + 2)
    table = tables + tl.load(tiles + 4 * tile + 3)
    end = position + count
    first = tl.where(window > 0, tl.maximum(position - window + 1, 0) // KEYS * KEYS, 0)
    span = tl.maximum(tl.cdiv(tl.cdiv(end - first, SPLITS), KEYS) * KEYS, SPAN)
    begin = first + split * span
    stop = tl.minimum(begin + span, end)
    if begin < stop:
        row = tl.arange(0, ROWS)
        own_position = position + row // GROUP
        head = kv_head * GROUP + row % GROUP
        is_row = row // GROUP < count
        dims, value_dims = tl.arange(0, WIDE), tl.arange(0, VALUE_WIDE)
        place = head * query_head_stride + (token + row // GROUP) * query_token_stride
        asked = tl.load(
            query + place[:, None] + dims[None, :], mask=is_row[:, None] & (dims < DIM)[None, :], other=0.0
        )  # [ROWS, WIDE]
        if WIDEN:
            asked = asked.to(tl.float32)
        largest = tl.full([ROWS], float("-inf"), tl.float32)
        total = tl.zeros([ROWS], tl.float32)
        blended = tl.zeros([ROWS, VALUE_WIDE], tl.float32)
        for at in range(begin, stop, KEYS):
            seen = at + tl.arange(0, KEYS)
            there = seen < stop
            page = tl.load(table + seen // PAGE, mask=there, other=0)
            slot = (page * PAGE + seen % PAGE) * kv_heads + kv_head  # [KEYS] int64
            key = tl.load(
                keys + slot[:, None] * DIM + dims[None, :], mask=there[:, None] & (dims < DIM)[None, :], other=0.0
            )
            scores = tl.dot(asked, tl.trans(key.to(asked.dtype)), input_precision="ieee")  # [ROWS, KEYS]
            if SMALL:
                scores *= tl.load(key_scales + slot, mask=there, other=0.0)[None, :]
            scores *= scaling
            if CAPPED:
                scores = softcap * (1 - 2 / (tl.exp2(scores * _TO_BASE_2 * 2 / softcap) + 1))  # tanh
            distance = own_position[:, None] - seen[None, :]
            visible = there[None, :] & (distance >= 0) & ((window <= 0) | (distance < window))
            scores = tl.where(visible, scores * _TO_BASE_2, float("-inf"))
            above = tl.maximum(largest, tl.max(scores, 1))
            anchor = tl.where(above == float("-inf"), 0.0, above)  # a row that has seen no key yet
            weights = tl.exp2(scores - anchor[:, None])
            fade = tl.exp2(largest - anchor)
            total = total * fade + tl.sum(weights, 1)
            largest = above
            value = tl.load(
                values + slot[:, None] * VALUE_DIM + value_dims[None, :],
                mask=there[:, None] & (value_dims < VALUE_DIM)[None, :],
                other=0.0,
            )
            if SMALL:
                weights *= tl.load(value_scales + slot, mask=there, other=0.0)[None, :]
            blended = blended * fade[:, None] + tl.dot(
                weights.to(asked.dtype), value.to(asked.dtype), input_precision="ieee"
            )
        target = (token + row // GROUP) * heads + head
        kept = is_row[:, None] & (value_dims < VALUE_DIM)[None, :]
        if SPLITS == 1:
            result = (blended / tl.where(is_row, total, 1.0)[:, None]).to(out.dtype.element_ty)
            tl.store(out + target[:, None] * VALUE_DIM + value_dims[None, :], result, mask=kept)
        else:
            target = target * SPLITS + split
            tl.store(sums + target[:, None] * VALUE_DIM + value_dims[None, :], blended, mask=kept)
            tl.store(norms + 2 * target, largest, mask=is_row)
            tl.store(norms + 2 * target + 1, total, mask=is_row)


@triton.jit
def merge_splits(  # type: ignore[no-untyped-def]
    tiles, out, sums, norms, heads, window,
    KEYS: tl.constexpr, VALUE_DIM: tl.constexpr, VALUE_WIDE: tl.constexpr,
    SPLITS: tl.constexpr, SPAN: tl.constexpr,
):  # fmt: skip
    """Add up the splits that have a key, always in the same order. Grid (tiles of one token, heads). A tile without a
    token (its row is padding) gives zeros."""
    tile, head = tl.program_id(0), tl.program_id(1)
    token = tl.load(tiles + 4 * tile)
    count = tl.load(tiles + 4 * tile + 1)
    position = tl.load(tiles + 4 * tile + 2)
    end = position + count
    first = tl.where(window > 0, tl.maximum(position - window + 1, 0) // KEYS * KEYS, 0)
    span = tl.maximum(tl.cdiv(tl.cdiv(end - first, SPLITS), KEYS) * KEYS, SPAN)
    splits = tl.arange(0, SPLITS)
    used = first + splits * span < end
    row = (token * heads + head) * SPLITS + splits
    dims = tl.arange(0, VALUE_WIDE)
    largest = tl.load(norms + 2 * row, mask=used, other=float("-inf"))
    total = tl.load(norms + 2 * row + 1, mask=used, other=0.0)
    blended = tl.load(
        sums + row[:, None] * VALUE_DIM + dims[None, :], mask=used[:, None] & (dims < VALUE_DIM)[None, :], other=0.0
    )  # [SPLITS, VALUE_WIDE]
    anchor = tl.max(largest, 0)
    anchor = tl.where(anchor == float("-inf"), 0.0, anchor)
    fade = tl.exp2(largest - anchor)
    norm = tl.sum(total * fade, 0)
    result = tl.sum(blended * fade[:, None], 0) / tl.where(end > 0, norm, 1.0)
    tl.store(out + (token * heads + head) * VALUE_DIM + dims, result.to(out.dtype.element_ty), mask=dims < VALUE_DIM)


@triton.jit
def _to_e4m3(numbers):  # type: ignore[no-untyped-def]
    """Round float32 of at most 448 to the nearest that fp8 can say, ties to even: what follows is then exact wherever
    it is computed."""
    bits = numbers.to(tl.int32, bitcast=True)
    normal = ((bits + 0x7FFFF + ((bits >> 20) & 1)) & -0x100000).to(tl.float32, bitcast=True)
    tiny = (numbers * 512 + _TO_NEAREST - _TO_NEAREST) / 512
    return tl.where(tl.abs(numbers) < 0.015625, tiny, normal)


@triton.jit
def to_bytes(numbers, unit, LARGEST: tl.constexpr):  # type: ignore[no-untyped-def]
    """Round float32, in multiples of `unit`, to 8 bits: int8 where LARGEST is 127, else fp8."""
    numbers = numbers / tl.maximum(unit, 1e-30)
    if LARGEST == 127:
        numbers = numbers + _TO_NEAREST - _TO_NEAREST
    else:
        numbers = _to_e4m3(numbers)
    return numbers


@triton.jit
def store_tokens(  # type: ignore[no-untyped-def]
    new, kept, scales, slots, new_head_stride, new_token_stride, heads,
    DIM: tl.constexpr, WIDE: tl.constexpr, LARGEST: tl.constexpr,
):  # fmt: skip
    """Store `new` [H, T, D] by strides into `kept` [slots, H, D]. Grid (tokens, heads). A slot below 0 keeps nothing.
    In 8 bits with one scale for each head of each position, as `KVPool.write` does it: the largest number becomes
    LARGEST, 127 in int8 and 448 in fp8; 0 = kept as it is."""
    token, head = tl.program_id(0), tl.program_id(1)
    slot = tl.load(slots + token)
    if slot >= 0:
        dims = tl.arange(0, WIDE)
        numbers = tl.load(new + head * new_head_stride + token * new_token_stride + dims, mask=dims < DIM, other=0.0)
        place = slot * heads + head
        if LARGEST > 0:
            numbers = numbers.to(tl.float32)
            unit = tl.max(tl.abs(numbers), 0) / LARGEST
            tl.store(scales + place, unit)
            numbers = to_bytes(numbers, unit, LARGEST)
        tl.store(kept + place * DIM + dims, numbers.to(kept.dtype.element_ty), mask=dims < DIM)
