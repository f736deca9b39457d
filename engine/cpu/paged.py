"""Attention over KV blocks in place, for chunks of any length: a few queries at a time share every key they read.

The twins are `engine.kernels.attend_in_place` (one query at a time) and `engine.kv.attend` (gathered blocks).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from engine.cpu.products import blend, multiply_panel
from engine.cpu.rows import FLOATS, floats, integers, widen
from engine.kernels import FASTMATH, softmax, squeeze

ROWS = 8
"""Queries attended to together: heads that share a key head, times tokens."""


@njit(nogil=True, cache=True)
def attend_block(  # type: ignore[no-untyped-def]
    query, ldq, tokens, group, start, keys, values, key_scales, value_scales, form,
    table, block_size, kv_head, kv_heads, dim, value_dim, window, scaling, softcap, out, ldo, scratch,
):  # fmt: skip
    """`tokens` consecutive tokens from position `start`, the `group` query heads of one key head.

    `query`, `out`: addresses of the first token's first head of the group; `table`: the sequence's block table.
    `scratch`: 3 * ROWS' worth of rows and a tile, see `scratch_floats`; belongs to the calling thread.
    """
    rows = tokens * group
    end = start + tokens
    first = max(0, start - window + 1) // block_size if window > 0 else 0
    base, last = first * block_size, (end + block_size - 1) // block_size
    lds = last * block_size - base + 16
    queries = scratch
    sums = queries + 4 * rows * dim
    tile = sums + 4 * rows * value_dim
    scores = tile + 4 * block_size * max(dim, value_dim)
    for row in range(rows):
        here = query + (row // group) * ldq + 4 * (row % group) * dim
        floats(queries + 4 * row * dim, dim)[:] = floats(here, dim)
    floats(sums, rows * value_dim)[:] = np.float32(0)
    blocks = integers(table, last)
    for index in range(first, last):
        count = min(block_size, end - index * block_size)
        at = blocks[index] * block_size * kv_heads + kv_head
        if form == FLOATS:
            address, stride = keys + 4 * at * dim, 4 * kv_heads * dim
        else:
            _widen_block(keys, key_scales, at, kv_heads, count, dim, tile)
            address, stride = tile, 4 * dim
        place = scores + 4 * (index * block_size - base)
        following = blocks[min(index + 1, last - 1)] * block_size * kv_heads + kv_head
        ahead = 4 * (following - at) * dim if form == FLOATS else 0
        multiply_panel(queries, 4 * dim, rows, address, stride, dim, count, ahead, place, 4 * lds, 0)
    for row in range(rows):
        stop = start + row // group + 1
        begin = max(0, stop - window) if window > 0 else 0
        _weights(floats(scores + 4 * row * lds, end - base), begin - base, stop - base, scaling, softcap)
    for index in range(first, last):
        count = min(block_size, end - index * block_size)
        at = blocks[index] * block_size * kv_heads + kv_head
        if form == FLOATS:
            address, stride = values + 4 * at * value_dim, 4 * kv_heads * value_dim
        else:
            _widen_block(values, value_scales, at, kv_heads, count, value_dim, tile)
            address, stride = tile, 4 * value_dim
        place = scores + 4 * (index * block_size - base)
        blend(place, 4 * lds, rows, address, stride, count, value_dim, sums, 4 * value_dim)
    for row in range(rows):
        here = out + (row // group) * ldo + 4 * (row % group) * value_dim
        floats(here, value_dim)[:] = floats(sums + 4 * row * value_dim, value_dim)


def scratch_floats(group: int, longest: int, block_size: int, dim: int) -> int:
    """Room that one thread needs for sequences of up to `longest` positions."""
    rows = max(ROWS, group)
    return rows * (2 * dim + longest + 2 * block_size + 16) + block_size * dim


@njit(nogil=True, cache=True)
def _widen_block(numbers, scales, at, kv_heads, count, width, tile):  # type: ignore[no-untyped-def]
    for row in range(count):
        place = at + row * kv_heads
        widen(numbers + place * width, scales + 4 * place, width, floats(tile + 4 * row * width, width))


@njit(nogil=True, cache=True, fastmath=FASTMATH)
def _weights(scores, begin, stop, scaling, softcap):  # type: ignore[no-untyped-def]
    """Softmax of `scores[begin:stop]`, in place; 0 elsewhere."""
    scores[:begin] = np.float32(0)
    scores[stop:] = np.float32(0)
    seen = scores[begin:stop]
    for i in range(len(seen)):
        seen[i] *= np.float32(scaling)
    if softcap > 0:
        squeeze(seen, np.float32(softcap))
    softmax(seen)
