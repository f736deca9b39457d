"""Products with weights of 8 bits: activations are rounded to int8 in groups, sums are made in integers.

    x[m, k] ~ xq[m, k] * sx[m, group of k]          int8, groups of GROUP8
    w[n, k] ~ (wq[n, k] - 128) * sw[n]              a scale for each output

Weights are kept unsigned because the instruction multiplies unsigned by signed bytes; what the offset adds to a sum
depends on x alone and is taken off again. k is padded to a multiple of 128 (`padded`). As in
`engine.cpu.kernels.products`, a row's sums are made in the same order whatever else is computed.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sluicegate.engine.attention.in_place import FASTMATH
from sluicegate.engine.cpu.kernels.group_rounding import largest_of, round_run
from sluicegate.engine.cpu.kernels.machine import (
    F32,
    HAS_VNNI,
    I32,
    LANES,
    bits_of_float,
    float_of_bits,
    foreign,
    load,
    number,
    store,
)
from sluicegate.engine.cpu.kernels.products import (
    PANEL,
    Loop,
    fused_multiply_add,
    prefetch,
    row_addresses,
    spread,
    sums_of,
)
from sluicegate.engine.cpu.kernels.rows import bytes_at, floats, words
from sluicegate.plugins.compiled.kernels import kernel

GROUP8 = 128
EIGHT = 8
"""Form of a weight in 8 bits."""
Q8_0, Q4_0, Q4_K, Q6_K = 18, 14, 24, 26
"""Forms of a weight in blocks, as GGUF files store it and as it is rounded to 4 and 6 bits; see
`engine.cpu.kernels.block_products`."""

_INTS = ir.VectorType(I32, LANES)
_FLOATS = ir.VectorType(F32, LANES)
_NO_INTS = ir.Constant(_INTS, [0] * LANES)
_NO_FLOATS = ir.Constant(_FLOATS, [0.0] * LANES)
_STEP = 4 * LANES
"""Bytes per vector register."""


def padded(k: int) -> int:
    return -(-k // 128) * 128


def multiply_bytes(builder: Any, sums: Any, weights: Any, values: Any) -> Any:
    """Add the products of each four unsigned bytes of `weights` with four signed ones of `values` to `sums` (int32)."""
    if HAS_VNNI:
        multiply_add = foreign(builder, "llvm.x86.avx512.vpdpbusd.512", _INTS, [_INTS] * 3)
        return builder.call(multiply_add, [sums, weights, values])
    lanes = sums.type.count
    for byte in range(4):
        weight = builder.and_(builder.lshr(weights, in_all(8 * byte, lanes)), in_all(255, lanes))
        value = builder.ashr(builder.shl(values, in_all(24 - 8 * byte, lanes)), in_all(24, lanes))
        sums = builder.add(sums, builder.mul(weight, value))
    return sums


def in_all(value: int, lanes: int) -> Any:
    return ir.Constant(ir.VectorType(I32, lanes), [value] * lanes)


@cache
def _tile8(rows: int, columns: int) -> Any:
    """Make `tile(x, ldx, sx, ldsx, groups, w, ldw, sw, out, ldo, onto)`; `sx` rows hold `groups` scales, and after two
    times as many numbers what the offset of the weights adds to the row's sums."""

    @intrinsic
    def tile(typing_context, x, ldx, sx, ldsx, groups, w, ldw, sw, out, ldo, onto):  # type: ignore[no-untyped-def]
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            x, ldx, sx, ldsx, groups, w, ldw, sw, out, ldo, onto = arguments
            lefts, rights = row_addresses(builder, x, ldx, rows), row_addresses(builder, w, ldw, columns)
            scales = row_addresses(builder, sx, ldsx, rows)
            loop = Loop(builder, groups, 1, [_NO_FLOATS] * (rows * columns))
            begin = builder.mul(loop.index, number(GROUP8))
            whole = [_NO_INTS] * (rows * columns)
            for part in range(0, GROUP8, _STEP):
                offset = builder.add(begin, number(part))
                places = [builder.add(right, offset) for right in rights]
                for place in places:
                    prefetch(builder, builder.add(place, builder.mul(ldw, number(PANEL))))
                weights = [load(builder, place, _INTS) for place in places]
                for row, left in enumerate(lefts):
                    values = load(builder, builder.add(left, offset), _INTS)
                    for column, weight in enumerate(weights):
                        at = row * columns + column
                        whole[at] = multiply_bytes(builder, whole[at], weight, values)
            sums = []
            for row, scale in enumerate(scales):
                unit = spread(builder, load(builder, builder.add(scale, builder.mul(loop.index, number(4))), F32))
                for column in range(columns):
                    at = row * columns + column
                    found = builder.sitofp(whole[at], _FLOATS)
                    sums.append(builder.call(fused_multiply_add(builder), [found, unit, loop.carried[at]]))
            loop.close(sums)
            for row in range(rows):
                offset = builder.add(scales[row], builder.mul(groups, number(8)))
                shift = load(builder, offset, F32)
                place = builder.add(out, builder.mul(ldo, number(row)))
                _store_scaled(builder, sums[row * columns : (row + 1) * columns], shift, sw, place, onto)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 11), code

    return tile


def _store_scaled(builder: Any, vectors: list[Any], shift: Any, scales: Any, out: Any, onto: Any) -> None:
    """Store one row of a tile, or add it: (sum - shift) * scale."""
    adds = builder.icmp_signed("!=", onto, number(0))
    for first in range(0, len(vectors), 4):
        few = vectors[first : first + 4]
        found = sums_of(builder, few + few[-1:] * (len(few) == 3))
        for lane in range(len(few)):
            value = builder.extract_element(found, ir.Constant(I32, lane))
            scale = load(builder, builder.add(scales, number(4 * (first + lane))), F32)
            value = builder.fmul(builder.fsub(value, shift), scale)
            place = builder.add(out, number(4 * (first + lane)))
            before = builder.select(adds, load(builder, place, F32), ir.Constant(F32, 0.0))
            store(builder, builder.fadd(before, value), place)


_tile8_4_3, _tile8_2_6 = _tile8(4, 3), _tile8(2, 6)
_tile8_4_1, _tile8_2_1, _tile8_1_1 = _tile8(4, 1), _tile8(2, 1), _tile8(1, 1)


@kernel()
def multiply8(x, ldx, sx, ldsx, rows, w, ldw, sw, k, columns, out, ldo, onto):  # type: ignore[no-untyped-def]
    """Compute `out[m, n] (+)= x[m] . w[n]`, weights in 8 bits; `k` is padded, strides are bytes."""
    groups = k // GROUP8
    for first in range(0, columns, PANEL):
        last, row = min(columns, first + PANEL), 0
        while row < rows:
            left, scale, here, n = x + row * ldx, sx + row * ldsx, out + row * ldo, first
            if row + 4 <= rows:
                while n + 3 <= last:
                    _tile8_4_3(left, ldx, scale, ldsx, groups, w + n * ldw, ldw, sw + 4 * n, here + 4 * n, ldo, onto)
                    n += 3
                while n < last:
                    _tile8_4_1(left, ldx, scale, ldsx, groups, w + n * ldw, ldw, sw + 4 * n, here + 4 * n, ldo, onto)
                    n += 1
                row += 4
            elif row + 2 <= rows:
                while n + 6 <= last:
                    _tile8_2_6(left, ldx, scale, ldsx, groups, w + n * ldw, ldw, sw + 4 * n, here + 4 * n, ldo, onto)
                    n += 6
                while n < last:
                    _tile8_2_1(left, ldx, scale, ldsx, groups, w + n * ldw, ldw, sw + 4 * n, here + 4 * n, ldo, onto)
                    n += 1
                row += 2
            else:
                while n < last:  # one column after another: one stream is fetched faster than several
                    _tile8_1_1(left, ldx, scale, ldsx, groups, w + n * ldw, ldw, sw + 4 * n, here + 4 * n, ldo, onto)
                    n += 1
                row += 1


@kernel(fastmath=FASTMATH)
def shrink_groups(x, k, group, out, scales):  # type: ignore[no-untyped-def]
    """Round one row [k] to int8 in groups; `scales` gets (address) the groups' scales, what their offsets under
    weights in blocks are made of (-8 times the sum, int32), and the row's offset under weights of 8 bits."""
    groups = (k + 127) // 128 * 128 // group
    small, units, sums = bytes_at(out, groups * group), floats(scales, groups), words(scales + 4 * groups, groups)
    source, shift = floats(x, k), np.float32(0)
    for index in range(groups):
        begin, end = index * group, min(k, (index + 1) * group)
        whole = end - begin == group
        if whole:
            bits = largest_of(x + 4 * begin, group)
        else:
            bits = np.int32(0)
            for i in range(begin, end):
                bits = max(bits, bits_of_float(source[i]) & np.int32(0x7FFFFFFF))
        largest = float_of_bits(np.int32(bits))
        unit = largest / np.float32(127)
        inverse = np.float32(1) / unit if unit > 0 else np.float32(0)
        if whole:
            total = round_run(x + 4 * begin, group, inverse, out + begin)
        else:
            total = np.int32(0)
            for i in range(begin, end):
                value = np.int32(np.rint(source[i] * inverse))
                small[i] = np.int8(value)
                total += value
            for i in range(max(begin, end), (index + 1) * group):
                small[i] = np.int8(0)
        units[index] = unit
        sums[index] = np.int32(-8) * np.int32(total)
        shift += np.float32(128) * units[index] * np.float32(total)
    floats(scales + 8 * groups, 1)[0] = shift


def scale_bytes(k: int, group: int) -> int:
    """Return the stride of the scales' rows that `shrink_groups` writes."""
    return 8 * (padded(k) // group) + 64
