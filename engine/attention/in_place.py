"""Attend over KV blocks in place, on CPUs: no gather, no padding, one pass over keys and one over values.

The slow reference is `engine.memory.kv.attend` over gathered blocks; tests compare the two.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sluicegate.plugins.compiled.kernels import kernel

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

# Sums may be reordered and products fused, so that loops become vector code. NaN and infinity keep their meaning:
# a broken model must still be found by its NaN logits.
_SIGNATURE = (
    "void(float32[:, :, ::1], float32[:, :, :, ::1], float32[:, :, :, ::1], int64[::1], int64[::1], int64[::1], "
    "float64, float64, int64, float32[:, ::1], float32[:, :, ::1])"
)
FASTMATH = {"reassoc", "contract", "nsz", "arcp"}


def attend_in_place(
    query: F32,
    keys: F32,
    values: F32,
    tables: I64,
    starts: I64,
    positions: I64,
    scaling: float,
    softcap: float,
    window: int,
) -> F32:
    """Attend with each query to its own sequence's positions [max(0, p - window + 1), p], where p is its position.

        query      [R, H, D_k]                               one token a row
        keys       [num_blocks, block_size, H_kv, D_k]       not modified
        values     [num_blocks, block_size, H_kv, D_v]       not modified
        tables     [sum of widths]                           block tables, one after another
        starts     [R]                                       where a row's block table begins in `tables`
        positions  [R]
        softcap, window: 0 = none.

    Returns [R, H, D_v]. All arrays are C-contiguous; indices are not checked against bounds. The first call for a pair
    of widths compiles for a second or two, unless the compiled code is found on disk.
    """
    rows, heads, dim = query.shape
    value_dim = values.shape[3]
    out = np.zeros((rows, heads, value_dim), np.float32)
    longest = (int(positions.max()) // keys.shape[1] + 1) * keys.shape[1]
    scratch = np.empty((heads, longest), np.float32)
    attend = kernel_for(dim, value_dim, heads // keys.shape[2])
    attend(query, keys, values, tables, starts, positions, scaling, softcap, window, scratch, out)
    return out


def kernel_for(dim: int, value_dim: int, group: int) -> Any:
    """Return the kernel for these key and value widths and `group` query heads per key head."""
    return compiled_for(_known(dim), _known(value_dim), group)


def _known(width: int) -> int:
    """Return `width` if the kernel is compiled for exactly that width, else 0 (read from the arrays). Measured: a
    constant width halves the time at 128 and doubles it at 32, because LLVM unrolls the short loop before it
    vectorises."""
    return width if width >= 64 else 0


@cache
def compiled_for(dim: int, value_dim: int, group: int) -> Any:
    """Compile the kernel for these key and value widths (0 = read from the arrays) and `group` query heads per key
    head."""

    @kernel(_SIGNATURE, fastmath=FASTMATH, name="compiled_for", made_by=(dim, value_dim, group))
    def attend(  # type: ignore[no-untyped-def]
        query, keys, values, tables, starts, positions, scaling, softcap, window, scores, out
    ):
        block_size, kv_heads = keys.shape[1], keys.shape[2]
        key_width = dim if dim > 0 else query.shape[2]
        value_width = value_dim if value_dim > 0 else out.shape[2]
        for row in range(query.shape[0]):
            end = positions[row] + 1
            first = max(0, end - window) if window > 0 else 0
            for index in range(first // block_size, (end + block_size - 1) // block_size):
                block = keys[tables[starts[row] + index]]
                for at in range(max(first, index * block_size), min(end, (index + 1) * block_size)):
                    for kv in range(kv_heads):
                        k = block[at - index * block_size, kv]
                        for head in range(kv * group, (kv + 1) * group):
                            q = query[row, head]
                            dot = np.float32(0)
                            for d in range(key_width):
                                dot += q[d] * k[d]
                            scores[head, at] = dot * np.float32(scaling)
            for head in range(kv_heads * group):
                if softcap > 0:
                    squeeze(scores[head, first:end], np.float32(softcap))
                softmax(scores[head, first:end])
            for index in range(first // block_size, (end + block_size - 1) // block_size):
                block = values[tables[starts[row] + index]]
                for at in range(max(first, index * block_size), min(end, (index + 1) * block_size)):
                    for kv in range(kv_heads):
                        v = block[at - index * block_size, kv]
                        for head in range(kv * group, (kv + 1) * group):
                            o = out[row, head]
                            weight = scores[head, at]
                            for d in range(value_width):
                                o[d] += weight * v[d]

    return attend


@kernel(fastmath=FASTMATH)
def squeeze(scores, cap):  # type: ignore[no-untyped-def]
    """Cap `scores` [n] softly, in place."""
    for at in range(len(scores)):
        scores[at] = cap * np.tanh(scores[at] / cap)


@kernel(fastmath=FASTMATH)
def softmax(scores):  # type: ignore[no-untyped-def]
    """Normalise `scores` [n], in place."""
    largest = scores[0]
    for at in range(len(scores)):
        largest = max(largest, scores[at])
    for at in range(len(scores)):
        scores[at] -= largest
    exponentiate(scores)
    total = np.float32(0)
    for at in range(len(scores)):
        total += scores[at]
    for at in range(len(scores)):
        scores[at] /= total


@kernel(fastmath=FASTMATH)
def exponentiate(values):  # type: ignore[no-untyped-def]
    """Replace float32 `values` [n], all <= 0 (below -87 as -87), by their exponentials, in place.

    Computes 2^n times a polynomial on +-ln(2)/2, with the coefficients of Cephes' expf: relative error below 2e-7. A
    call of exp() per value would keep the loop from being vectorised.
    """
    power = np.empty(len(values), np.int32)
    for at in range(len(values)):
        x = max(values[at], np.float32(-87.0))
        n = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
        r = x - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
        p = np.float32(1.9875691500e-4)
        p = p * r + np.float32(1.3981999507e-3)
        p = p * r + np.float32(8.3334519073e-3)
        p = p * r + np.float32(4.1665795894e-2)
        p = p * r + np.float32(1.6666665459e-1)
        p = p * r + np.float32(5.0000001201e-1)
        values[at] = p * r * r + r + np.float32(1)
        power[at] = (np.int32(n) + 127) << 23
    factor = power.view(np.float32)
    for at in range(len(values)):
        values[at] *= factor[at]
