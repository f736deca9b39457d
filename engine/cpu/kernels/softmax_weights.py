"""Scores of a tile to the weights of a softmax, in registers. What a compiler makes of the plain loops takes four times
as long: it must not reorder comparisons that might meet a NaN."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from sluicegate.engine.cpu.kernels.machine import F32, I32, LANES, foreign, load, number, store
from sluicegate.engine.cpu.kernels.products import Loop, fused_multiply_add, spread, sums_of

VECTOR = ir.VectorType(F32, LANES)
_INDEX = ir.VectorType(I32, LANES)
LOWEST = -3e38
"""Below every score; finite, so that differences are numbers."""


def in_all_lanes(value: float) -> Any:
    return ir.Constant(VECTOR, [value] * LANES)


def exponential(builder: Any, x: Any) -> Any:
    """Return e to the power of each lane, all <= 0; the numbers of `engine.cpu.kernels.rows.small_exp`. NaN stays
    NaN."""
    floor = foreign(builder, f"llvm.floor.v{LANES}f32", VECTOR, [VECTOR])
    multiply_add = fused_multiply_add(builder)

    def fma(a: Any, b: Any, c: Any) -> Any:
        return builder.call(multiply_add, [a, b, c])

    x = builder.select(builder.fcmp_ordered("<", x, in_all_lanes(-87.0)), in_all_lanes(-87.0), x)
    n = builder.call(floor, [fma(x, in_all_lanes(1.44269504), in_all_lanes(0.5))])
    r = fma(n, in_all_lanes(2.12194440e-4), fma(n, in_all_lanes(-0.693359375), x))
    p = in_all_lanes(1.9875691500e-4)
    for coefficient in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        p = fma(p, r, in_all_lanes(coefficient))
    p = builder.fadd(fma(builder.fmul(p, r), r, r), in_all_lanes(1.0))
    bias, shift = ir.Constant(_INDEX, [127] * LANES), ir.Constant(_INDEX, [23] * LANES)
    power = builder.shl(builder.add(builder.fptosi(n, _INDEX), bias), shift)
    return builder.fmul(p, builder.bitcast(power, VECTOR))


def _seen(builder: Any, at: Any, begin: Any, stop: Any) -> Any:
    """Return which of the lanes at places at, at + 1, ... lie in [begin, stop)."""

    def everywhere(value: Any) -> Any:
        one = builder.insert_element(ir.Constant(_INDEX, ir.Undefined), value, ir.Constant(I32, 0))
        return builder.shuffle_vector(one, one, ir.Constant(_INDEX, [0] * LANES))

    places = builder.add(everywhere(builder.trunc(at, I32)), ir.Constant(_INDEX, list(range(LANES))))
    first, last = (everywhere(builder.trunc(border, I32)) for border in (begin, stop))
    return builder.and_(builder.icmp_signed(">=", places, first), builder.icmp_signed("<", places, last))


def largest_lane(builder: Any, vector: Any) -> Any:
    width = LANES
    while width > 1:
        width //= 2
        mask = [lane + width if lane < width else lane for lane in range(LANES)]
        other = builder.shuffle_vector(vector, vector, ir.Constant(_INDEX, mask))
        vector = builder.select(builder.fcmp_ordered(">", other, vector), other, vector)
    return builder.extract_element(vector, ir.Constant(I32, 0))


@intrinsic
def peak_of(typing_context, scores, count, begin, stop, scaling):  # type: ignore[no-untyped-def]
    """Multiply the `count` float32 at address `scores` by `scaling`, in place, whole registers at a time; the largest
    of those in [begin, stop), which is not empty. NaN is never the largest."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        scores, count, begin, stop, scaling = arguments
        factor = spread(builder, scaling)
        loop = Loop(builder, count, LANES, [in_all_lanes(LOWEST)])
        place = builder.add(scores, builder.mul(loop.index, number(4)))
        value = builder.fmul(load(builder, place, VECTOR), factor)
        store(builder, value, place)
        larger = builder.and_(
            _seen(builder, loop.index, begin, stop), builder.fcmp_ordered(">", value, loop.carried[0])
        )
        loop.close([best := builder.select(larger, value, loop.carried[0])])
        return largest_lane(builder, best)

    return types.float32(*[types.int64] * 4, types.float32), code


@intrinsic
def weigh(typing_context, scores, count, begin, stop, largest):  # type: ignore[no-untyped-def]
    """Replace the `count` scores by e^(score - largest), and by 0 outside [begin, stop); returns their sum."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        scores, count, begin, stop, largest = arguments
        subtrahend = spread(builder, largest)
        loop = Loop(builder, count, LANES, [in_all_lanes(0.0)])
        place = builder.add(scores, builder.mul(loop.index, number(4)))
        weight = exponential(builder, builder.fsub(load(builder, place, VECTOR), subtrahend))
        weight = builder.select(_seen(builder, loop.index, begin, stop), weight, in_all_lanes(0.0))
        store(builder, weight, place)
        loop.close([total := builder.fadd(loop.carried[0], weight)])
        found = sums_of(builder, [total])
        return builder.extract_element(found, ir.Constant(I32, 0))

    return types.float32(*[types.int64] * 4, types.float32), code


@njit(nogil=True, inline="always")
def whole(count):  # type: ignore[no-untyped-def]
    """Round `count` up to whole registers."""
    return (count + LANES - 1) // LANES * LANES
