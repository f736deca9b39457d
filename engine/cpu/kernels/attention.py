"""Attention over KV blocks in place, for chunks of any length: many queries share every key they read.

Keys are taken a tile at a time, with a running maximum and sum for each query (Milakov and Gimelshein, "Online
normalizer calculation for softmax", 2018; Dao et al., FlashAttention, 2022): room and memory traffic do not grow with
the length of the sequence. Tiles begin at fixed positions, and a query's row is computed alike whoever shares its tile,
so that its result is the same bits alone, in a batch and in chunks of any size.

The twins are `engine.attention.in_place.attend_in_place` (one query at a time) and `engine.memory.kv.attend`
(gathered blocks).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sluicegate.engine.attention.in_place import FASTMATH, squeeze
from sluicegate.engine.cpu.kernels.blends import blend
from sluicegate.engine.cpu.kernels.products import multiply_panel
from sluicegate.engine.cpu.kernels.rows import FLOATS, floats, integers, small_exp, widen
from sluicegate.engine.cpu.kernels.softmax_weights import LOWEST, peak_of, weigh, whole
from sluicegate.engine.cpu.kernels.transposed import WIDE, multiply_turned, turn_rows
from sluicegate.plugins.compiled.kernels import kernel

ROWS = 128
"""Queries (heads that share a key head, times tokens) attended to together."""
TILE = 128
"""Positions per tile, unless blocks are longer."""
_MANY = 16
"""With at least this many queries, transposing a tile of keys pays."""


@kernel()
def attend_block(  # type: ignore[no-untyped-def]
    query, ldq, tokens, group, start, keys, values, key_scales, value_scales, form,
    table, block_size, kv_head, kv_heads, dim, value_dim, window, scaling, softcap, out, ldo, scratch,
):  # fmt: skip
    """Attend with `tokens` consecutive tokens from position `start`, for the `group` query heads of one key head.

    `query`, `out`: addresses of the first token's first head of the group; `table`: the sequence's block table.
    `scratch`: see `scratch_floats`; belongs to the calling thread.
    """
    rows = tokens * group
    end = start + tokens
    tile = tile_positions(block_size)
    lds = 4 * (tile + WIDE)
    queries = scratch
    sums = queries + 4 * rows * dim
    peaks = sums + 4 * rows * value_dim
    totals = peaks + 4 * rows
    wide = totals + 4 * rows
    turned = wide + 4 * block_size * max(dim, value_dim)
    scores = turned + lds * dim
    for row in range(rows):
        here = query + (row // group) * ldq + 4 * (row % group) * dim
        floats(queries + 4 * row * dim, dim)[:] = floats(here, dim)
    floats(sums, rows * value_dim)[:] = np.float32(0)
    floats(peaks, rows)[:] = np.float32(LOWEST)
    floats(totals, rows)[:] = np.float32(0)
    first = max(0, start - window + 1) // tile * tile if window > 0 else 0
    for base in range(first, end, tile):
        count = min(tile, end - base)
        blocks = table + 8 * (base // block_size)
        _score(
            queries, rows, keys, key_scales, form, blocks, count, block_size, kv_head, kv_heads, dim,
            wide, turned, scores, lds,
        )  # fmt: skip
        for row in range(rows):
            stop = min(max(start + row // group + 1 - base, 0), count)
            begin = min(max(start + row // group + 1 - window - base, 0), stop) if window > 0 else 0
            _weigh(
                scores + row * lds, count, begin, stop, np.float32(scaling), softcap,
                floats(peaks + 4 * row, 1), floats(totals + 4 * row, 1), floats(sums + 4 * row * value_dim, value_dim),
            )  # fmt: skip
        _sum_up(
            scores, lds, rows, values, value_scales, form, blocks, count, block_size, kv_head, kv_heads, value_dim,
            wide, sums,
        )  # fmt: skip
    for row in range(rows):
        here = out + (row // group) * ldo + 4 * (row % group) * value_dim
        _share_out(
            floats(sums + 4 * row * value_dim, value_dim), floats(totals + 4 * row, 1)[0], floats(here, value_dim)
        )


@kernel()
def _score(  # type: ignore[no-untyped-def]
    queries, rows, keys, scales, form, table, count, block_size, kv_head, kv_heads, dim, wide, turned, scores, lds,
):  # fmt: skip
    """Multiply all queries with the `count` keys of a tile, whose blocks begin at `table`."""
    blocks = integers(table, (count + block_size - 1) // block_size)
    for index in range(len(blocks)):
        few, at = min(block_size, count - index * block_size), index * block_size
        place = blocks[index] * block_size * kv_heads + kv_head
        if form == FLOATS:
            address, stride = keys + 4 * place * dim, 4 * kv_heads * dim
        else:
            _widen_block(keys, scales, form, place, kv_heads, few, dim, wide)
            address, stride = wide, 4 * dim
        if rows >= _MANY:
            turn_rows(address, stride, few, dim, turned + 4 * at, lds)
        else:
            following = blocks[min(index + 1, len(blocks) - 1)] * block_size * kv_heads + kv_head
            ahead = 4 * (following - place) * dim if form == FLOATS else 0
            multiply_panel(queries, 4 * dim, rows, address, stride, dim, few, ahead, scores + 4 * at, lds, 0)
    if rows >= _MANY:
        multiply_turned(queries, 4 * dim, rows, turned, lds, dim, count, scores, lds)


@kernel()
def _sum_up(  # type: ignore[no-untyped-def]
    weights, ldw, rows, values, scales, form, table, count, block_size, kv_head, kv_heads, width, wide, sums,
):  # fmt: skip
    """Add the `count` values of a tile to every query's sum, by its weights."""
    blocks = integers(table, (count + block_size - 1) // block_size)
    for index in range(len(blocks)):
        few, at = min(block_size, count - index * block_size), index * block_size
        place = blocks[index] * block_size * kv_heads + kv_head
        if form == FLOATS:
            address, stride = values + 4 * place * width, 4 * kv_heads * width
        else:
            _widen_block(values, scales, form, place, kv_heads, few, width, wide)
            address, stride = wide, 4 * width
        blend(weights + 4 * at, ldw, rows, address, stride, few, width, sums, 4 * width)


@njit(nogil=True, inline="always")
def tile_positions(block_size):  # type: ignore[no-untyped-def]
    """Return the positions in a tile: whole blocks, at least one."""
    return max(TILE // block_size, 1) * block_size


def scratch_floats(group: int, block_size: int, dim: int) -> int:
    """Return the room that one thread needs for sequences of any length."""
    rows = max(ROWS, group)
    tile = max(TILE // block_size, 1) * block_size + WIDE
    return rows * (2 * dim + 2 + tile) + (block_size + tile) * dim


@kernel()
def _widen_block(numbers, scales, form, at, kv_heads, count, width, tile):  # type: ignore[no-untyped-def]
    for row in range(count):
        place = at + row * kv_heads
        widen(numbers + place * width, scales + 4 * place, width, form, floats(tile + 4 * row * width, width))


@kernel(fastmath=FASTMATH)
def _weigh(scores, count, begin, stop, scaling, softcap, highest, total, sums):  # type: ignore[no-untyped-def]
    """Turn the scores [begin, stop) of a tile of `count` into weights, relative to the largest score so far; 0 outside.
    Where the largest has changed, what was summed up before is brought to the new scale. `scores`: an address."""
    if begin == stop:
        floats(scores, count)[:] = np.float32(0)
        return
    if softcap > 0:
        seen = floats(scores + 4 * begin, stop - begin)
        for i in range(len(seen)):
            seen[i] *= scaling
        squeeze(seen, np.float32(softcap))
        scaling = np.float32(1)
    largest = peak_of(scores, whole(count), begin, stop, scaling)
    if largest > highest[0]:
        factor = small_exp(highest[0] - largest)
        total[0] *= factor
        for i in range(len(sums)):
            sums[i] *= factor
        highest[0] = largest
    total[0] += weigh(scores, whole(count), begin, stop, highest[0])


@kernel(fastmath=FASTMATH)
def _share_out(sums, total, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        out[i] = sums[i] / total
