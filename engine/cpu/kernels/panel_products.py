"""Products with weights of 4 bits, kept in panels of 8 outputs.

    w[n, k] ~ (wq[n, k] - 8) * sw[n, group of k]    a scale for each GROUP4 inputs
    x[m, k] ~ xq[m, k] * sx[m, group of k]          int8, see `engine.cpu.kernels.small_products`

A panel is [padded k / 16] runs of 64 bytes: byte 8 c + b of run r holds inputs 16 r + b (low half) and 16 r + 8 + b
(high half) of output c of the panel. So a vector register holds 8 bytes of each of 8 outputs, eight inputs are spread
over it, and what comes after a group (to float, times the scales, added up) is done once for 8 outputs instead of once
for each: with outputs apart, that took longer than the products. (llama.cpp repacks for its kernels in this manner.)

An output's sums are made in the same order whatever else is computed.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sluicegate.engine.cpu.kernels.machine import F32, I32, I64, at, foreign, load, number
from sluicegate.engine.cpu.kernels.products import PANEL, Loop, prefetch, row_addresses
from sluicegate.engine.cpu.kernels.small_products import GROUP4, in_all, multiply_bytes
from sluicegate.plugins.compiled.kernels import kernel

OUTPUTS = 8
"""Outputs per panel of 4-bit weights. PANEL, the unit in which products are divided among threads, is a multiple of
it."""
_LANES = 2 * OUTPUTS
_INTS, _LONGS = ir.VectorType(I32, _LANES), ir.VectorType(I64, OUTPUTS)
_FLOATS, _RESULT = ir.VectorType(F32, _LANES), ir.VectorType(F32, OUTPUTS)
_GROUP_BYTES = OUTPUTS * GROUP4 // 2


@cache
def _tile4(rows: int, panels: int) -> Any:
    """Make `tile(x, ldx, sx, ldsx, groups, w, sw, count, out, ldo, onto)`: some rows by some panels, of which the last
    has `count` outputs that are wanted. `sx` rows hold `groups` scales and then the groups' offsets as int32."""

    @intrinsic
    def tile(typing_context, x, ldx, sx, ldsx, groups, w, sw, count, out, ldo, onto):  # type: ignore[no-untyped-def]
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            x, ldx, sx, ldsx, groups, w, sw, count, out, ldo, onto = arguments
            lefts, scales = row_addresses(builder, x, ldx, rows), row_addresses(builder, sx, ldsx, rows)
            rights = row_addresses(builder, w, builder.mul(groups, number(_GROUP_BYTES)), panels)
            units = row_addresses(builder, sw, builder.mul(groups, number(4 * OUTPUTS)), panels)
            loop = Loop(builder, groups, 1, [ir.Constant(_FLOATS, [0.0] * _LANES)] * (rows * panels))
            group = builder.mul(loop.index, number(4))
            whole = [value for row in range(rows) for value in [_offset(builder, scales[row], groups, group)] * panels]
            for part in range(_GROUP_BYTES // 64):
                offset = builder.add(builder.mul(loop.index, number(_GROUP_BYTES)), number(64 * part))
                places = [builder.add(right, offset) for right in rights]
                for place in places:
                    prefetch(builder, builder.add(place, builder.mul(groups, number(PANEL // OUTPUTS * _GROUP_BYTES))))
                packed = [load(builder, place, _INTS) for place in places]
                inputs = builder.add(builder.mul(loop.index, number(GROUP4)), number(16 * part))
                for half in range(2):
                    shifted = [builder.lshr(p, in_all(4 * half, _LANES)) if half else p for p in packed]
                    weights = [builder.and_(p, in_all(0x0F0F0F0F, _LANES)) for p in shifted]
                    for row, left in enumerate(lefts):
                        values = _eight(builder, builder.add(left, builder.add(inputs, number(8 * half))))
                        for panel, weight in enumerate(weights):
                            place = row * panels + panel
                            whole[place] = multiply_bytes(builder, whole[place], weight, values)
            unit_of = [_twice(builder, load(builder, builder.add(unit, builder.mul(group, number(OUTPUTS))), _RESULT))
                       for unit in units]  # fmt: skip
            sums = []
            for row, scale in enumerate(scales):
                mine = _spread(builder, load(builder, builder.add(scale, group), F32), _FLOATS)
                for panel, unit in enumerate(unit_of):
                    place = row * panels + panel
                    found, worth = builder.sitofp(whole[place], _FLOATS), builder.fmul(unit, mine)
                    fused = foreign(builder, f"llvm.fma.v{_LANES}f32", _FLOATS, [_FLOATS] * 3)
                    sums.append(builder.call(fused, [found, worth, loop.carried[place]]))
            loop.close(sums)
            for row, address in enumerate(row_addresses(builder, out, ldo, rows)):
                for panel in range(panels):
                    wanted = count if panel == panels - 1 else number(OUTPUTS)
                    place = builder.add(address, number(4 * OUTPUTS * panel))
                    _store(builder, sums[row * panels + panel], wanted, place, onto)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 11), code

    return tile


def _offset(builder: Any, scales: Any, groups: Any, group: Any) -> Any:
    """Return what the offset of the weights adds to a group's sums: half of it in each of an output's two lanes."""
    place = builder.add(builder.add(scales, builder.mul(groups, number(4))), group)
    return _spread(builder, builder.ashr(load(builder, place, I32), ir.Constant(I32, 1)), _INTS)


def _eight(builder: Any, address: Any) -> Any:
    """Load eight inputs of a row, beside each other for every output."""
    return builder.bitcast(_spread(builder, load(builder, address, I64, 8), _LONGS), _INTS)


def _spread(builder: Any, value: Any, kind: Any) -> Any:
    nothing = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(nothing, value, ir.Constant(I32, 0))
    return builder.shuffle_vector(one, nothing, in_all(0, kind.count))


def _twice(builder: Any, values: Any) -> Any:
    """Repeat each of 8 numbers two times."""
    index = ir.Constant(_INTS, [lane // 2 for lane in range(_LANES)])
    return builder.shuffle_vector(values, ir.Constant(_RESULT, ir.Undefined), index)


def _store(builder: Any, lanes: Any, wanted: Any, out: Any, onto: Any) -> None:
    """Add an output's two lanes, and store the first `wanted` outputs, added to what is there if `onto` is not 0."""
    index = ir.VectorType(I32, OUTPUTS)
    nothing = ir.Constant(_FLOATS, ir.Undefined)
    halves = [[2 * output + lane for output in range(OUTPUTS)] for lane in range(2)]
    found = builder.fadd(*[builder.shuffle_vector(lanes, nothing, ir.Constant(index, half)) for half in halves])
    order = ir.Constant(index, list(range(OUTPUTS)))
    mask = builder.icmp_signed("<", order, _spread(builder, builder.trunc(wanted, I32), index))
    zeros, place, align = ir.Constant(_RESULT, [0.0] * OUTPUTS), at(builder, out, _RESULT), ir.Constant(I32, 4)
    read = foreign(builder, "llvm.masked.load.v8f32.p0", _RESULT, [place.type, I32, mask.type, _RESULT])
    write = foreign(builder, "llvm.masked.store.v8f32.p0", ir.VoidType(), [_RESULT, place.type, I32, mask.type])
    adds = _spread(builder, builder.icmp_signed("!=", onto, number(0)), mask.type)
    before = builder.call(read, [place, align, builder.and_(mask, adds), zeros])
    builder.call(write, [builder.fadd(before, found), place, align, mask])


_tile4_4_3, _tile4_2_3, _tile4_1_3 = _tile4(4, 3), _tile4(2, 3), _tile4(1, 3)
_tile4_4_1, _tile4_2_1, _tile4_1_1 = _tile4(4, 1), _tile4(2, 1), _tile4(1, 1)


@kernel()
def multiply4(x, ldx, sx, ldsx, rows, w, sw, k, columns, out, ldo, onto):  # type: ignore[no-untyped-def]
    """Compute `out[m, n] (+)= x[m] . w[n]`; `k` is padded, strides are bytes, `w` and `sw` are those of a panel's
    beginning."""
    groups = k // GROUP4
    for first in range(0, columns, PANEL):
        last, row = min(columns, first + PANEL), 0
        while row < rows:
            left, scale, n = x + row * ldx, sx + row * ldsx, first
            some = 4 if row + 4 <= rows else 2 if row + 2 <= rows else 1
            while n < last:
                here, weights, units = out + row * ldo + 4 * n, w + n * k // 2, sw + 4 * n * groups
                wide = PANEL if n + PANEL <= last else OUTPUTS
                wanted = min(OUTPUTS, last - n)
                if wide == PANEL and some == 4:
                    _tile4_4_3(left, ldx, scale, ldsx, groups, weights, units, wanted, here, ldo, onto)
                elif wide == PANEL and some == 2:
                    _tile4_2_3(left, ldx, scale, ldsx, groups, weights, units, wanted, here, ldo, onto)
                elif wide == PANEL:
                    _tile4_1_3(left, ldx, scale, ldsx, groups, weights, units, wanted, here, ldo, onto)
                elif some == 4:
                    _tile4_4_1(left, ldx, scale, ldsx, groups, weights, units, wanted, here, ldo, onto)
                elif some == 2:
                    _tile4_2_1(left, ldx, scale, ldsx, groups, weights, units, wanted, here, ldo, onto)
                else:
                    _tile4_1_1(left, ldx, scale, ldsx, groups, weights, units, wanted, here, ldo, onto)
                n += wide
            row += some
