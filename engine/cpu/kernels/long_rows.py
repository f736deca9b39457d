"""Passes over a row as long as a vocabulary, a register at a time: what a mask refuses, the largest number, softmax
weights, sums between two thresholds. Addresses are int64, counts those of float32."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sluicegate.engine.cpu.kernels.machine import F32, I32, I64, LANES, foreign, load, number, store
from sluicegate.engine.cpu.kernels.machine import at as pointer
from sluicegate.engine.cpu.kernels.products import Loop, spread, sums_of
from sluicegate.engine.cpu.kernels.rows import floats, small_exp, words
from sluicegate.engine.cpu.kernels.softmax_weights import VECTOR, exponential, in_all_lanes, largest_lane
from sluicegate.plugins.compiled.kernels import kernel

_BITS = ir.VectorType(ir.IntType(1), LANES)
_COUNTS = ir.VectorType(I32, LANES)
_STEP = 4 * LANES
CHUNK = 512
"""Numbers between two checks of the result so far."""
_FLUSH = 4096
"""Numbers summed in float32 before the sum is added to one in float64."""
SMALLEST = np.float32(1.8e-35)
"""Weights below this count as 0."""


@cache
def _peak(vectors: int) -> Any:
    """Make `peak(x, count)`: the largest of `count` numbers, NaN if one of them is; count > 0 is a multiple of
    `vectors` registers."""

    @intrinsic
    def peak(typing_context, x, count):  # type: ignore[no-untyped-def]
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            x, count = arguments
            none = ir.Constant(_BITS, [0] * LANES)
            loop = Loop(builder, count, LANES * vectors, [in_all_lanes(float("-inf"))] * vectors + [none])
            bests, broken = loop.carried[:vectors], loop.carried[vectors]
            place = builder.add(x, builder.mul(loop.index, number(4)))
            found = []
            for index, best in enumerate(bests):
                value = load(builder, builder.add(place, number(4 * LANES * index)), VECTOR)
                found.append(builder.select(builder.fcmp_ordered(">", value, best), value, best))
                broken = builder.or_(broken, builder.fcmp_unordered("uno", value, value))
            loop.close([*found, broken])
            whole = found[0]
            for other in found[1:]:
                whole = builder.select(builder.fcmp_ordered(">", other, whole), other, whole)
            word = builder.bitcast(broken, ir.IntType(LANES))
            is_broken = builder.icmp_unsigned("!=", word, ir.Constant(ir.IntType(LANES), 0))
            return builder.select(is_broken, ir.Constant(F32, float("nan")), largest_lane(builder, whole))

        return types.float32(types.int64, types.int64), code

    return peak


@intrinsic
def _weigh(typing_context, x, count, best, factor, out):  # type: ignore[no-untyped-def]
    """Write `out = e^((x - best) * factor)`, 0 where that is below `SMALLEST`; return their sum. count > 0 is a
    multiple of LANES."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, count, best, factor, out = arguments
        subtrahend, multiplier = spread(builder, best), spread(builder, factor)
        loop = Loop(builder, count, LANES, [in_all_lanes(0.0)])
        at = builder.mul(loop.index, number(4))
        value = builder.fsub(load(builder, builder.add(x, at), VECTOR), subtrahend)
        weight = exponential(builder, builder.fmul(value, multiplier))
        weight = builder.select(
            builder.fcmp_ordered("<", weight, in_all_lanes(float(SMALLEST))), in_all_lanes(0.0), weight
        )
        store(builder, weight, builder.add(out, at))
        loop.close([total := builder.fadd(loop.carried[0], weight)])
        return builder.extract_element(sums_of(builder, [total]), ir.Constant(I32, 0))

    return types.float32(types.int64, types.int64, types.float32, types.float32, types.int64), code


@intrinsic
def _above(typing_context, x, count, low, out):  # type: ignore[no-untyped-def]
    """Write two float32 to `out`: the sum of the numbers >= low, and how many there are. count > 0 is a multiple of
    `_STEP`."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, count, low, out = arguments
        _sums_from(builder, x, count, [low], out)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float32, types.int64), code


@intrinsic
def _above_both(typing_context, x, count, low, high, out):  # type: ignore[no-untyped-def]
    """Do as `_above` for `low`, and behind it in `out` for `high`, in one pass."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, count, low, high, out = arguments
        _sums_from(builder, x, count, [low, high], out)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float32, types.float32, types.int64), code


def _sums_from(builder: Any, x: Any, count: Any, lows: list[Any], out: Any) -> None:
    """Write two float32 for each of `lows` to `out`: the sum of the numbers from there on, and how many there are."""
    borders, size = [spread(builder, low) for low in lows], 4 * len(lows)
    zeros, ones = (ir.Constant(_COUNTS, [value] * LANES) for value in (0, 1))
    loop = Loop(builder, count, _STEP, [in_all_lanes(0.0)] * size + [zeros] * size)
    place = builder.add(x, builder.mul(loop.index, number(4)))
    totals, counts = list(loop.carried[:size]), list(loop.carried[size:])
    for index in range(4):
        value = load(builder, builder.add(place, number(4 * LANES * index)), VECTOR)
        for at, border in zip(range(index, size, 4), borders, strict=True):
            inside = builder.fcmp_ordered(">=", value, border)
            totals[at] = builder.select(inside, builder.fadd(totals[at], value), totals[at])
            counts[at] = builder.select(inside, builder.add(counts[at], ones), counts[at])
    loop.close([*totals, *counts])
    for first in range(0, size, 4):
        _store_sums(builder, totals[first : first + 4], counts[first : first + 4], builder.add(out, number(2 * first)))


def _store_sums(builder: Any, totals: list[Any], counts: list[Any], out: Any) -> None:
    """Store the sums over four vectors of numbers and of four of counts, as float32."""
    total = builder.fadd(builder.fadd(totals[0], totals[1]), builder.fadd(totals[2], totals[3]))
    many = builder.add(builder.add(counts[0], counts[1]), builder.add(counts[2], counts[3]))
    for at, vector in enumerate((total, builder.sitofp(many, VECTOR))):
        value = builder.extract_element(sums_of(builder, [vector]), ir.Constant(I32, 0))
        store(builder, value, builder.add(out, number(4 * at)))


@intrinsic
def _gather(typing_context, x, count, low, high, out):  # type: ignore[no-untyped-def]
    """Write the places (int32) of the numbers in [low, high) to `out`, in order; returns how many. count > 0 is a
    multiple of LANES; of a register with one such number, a whole one is written."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, count, low, high, out = arguments
        first, last = spread(builder, low), spread(builder, high)
        lanes = ir.Constant(_COUNTS, list(range(LANES)))
        more = ir.Constant(_COUNTS, [LANES] * LANES)
        compress = foreign(
            builder, f"llvm.masked.compressstore.v{LANES}i32", ir.VoidType(), [_COUNTS, I32.as_pointer(), _BITS]
        )
        loop = Loop(builder, count, LANES, [out, lanes])
        end, places = loop.carried
        value = load(builder, builder.add(x, builder.mul(loop.index, number(4))), VECTOR)
        inside = builder.and_(builder.fcmp_ordered(">=", value, first), builder.fcmp_ordered("<", value, last))
        builder.call(compress, [places, pointer(builder, end, I32), inside])
        word = builder.zext(builder.bitcast(inside, ir.IntType(LANES)), I64)
        found = builder.mul(builder.ctpop(word), number(4))
        loop.close([written := builder.add(end, found), builder.add(places, more)])
        return builder.udiv(builder.sub(written, out), number(4))

    return types.int64(types.int64, types.int64, types.float32, types.float32, types.int64), code


@intrinsic
def _strike(typing_context, x, bits, count):  # type: ignore[no-untyped-def]
    """Write -inf in place of the numbers whose bit is not set; count > 0 is a multiple of 32."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, bits, count = arguments
        loop = Loop(builder, count, 32, [])
        word = load(builder, builder.add(bits, builder.lshr(loop.index, number(3))), I32)
        allowed = builder.bitcast(word, ir.VectorType(ir.IntType(1), 32))
        place = builder.add(x, builder.mul(loop.index, number(4)))
        for first in range(0, 32, LANES):
            lanes = ir.Constant(_COUNTS, list(range(first, first + LANES)))
            mine, here = builder.shuffle_vector(allowed, allowed, lanes), builder.add(place, number(4 * first))
            store(builder, builder.select(mine, load(builder, here, VECTOR), in_all_lanes(float("-inf"))), here)
        loop.close([])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), code


_peak_4, _peak_1 = _peak(4), _peak(1)


@kernel()
def strike(x, count, bits):  # type: ignore[no-untyped-def]
    """Write -inf in place of those of `count` numbers that a mask refuses: bits in words of 32 at address `bits`,
    lowest first."""
    whole = count // 32 * 32
    if whole:
        _strike(x, bits, whole)
    row = floats(x, count)
    for at in range(whole, count):
        if not (words(bits + 4 * (at // 32), 1)[0] >> np.int32(at % 32)) & np.int32(1):
            row[at] = -np.inf


@kernel()
def padded(count):  # type: ignore[no-untyped-def]
    """Return the room that a row of `count` weights takes; the last ones are 0."""
    return (count + _STEP - 1) // _STEP * _STEP


@kernel()
def _peak_of(x, count):  # type: ignore[no-untyped-def]
    best, done = np.float32(-np.inf), 0
    if count >= _STEP:
        done = count // _STEP * _STEP
        best = _peak_4(x, done)
    if count - done >= LANES and best == best:
        more = (count - done) // LANES * LANES
        found = _peak_1(x + 4 * done, more)
        best = best if found <= best else found
        done += more
    rest = floats(x + 4 * done, count - done)
    for value in rest:
        best = best if value <= best or best != best else value
    return best


@kernel()
def largest(x, count):  # type: ignore[no-untyped-def]
    """Return (value, first index) of the largest of `count` numbers; (NaN, some index) if one is NaN."""
    best, where = np.float32(-np.inf), 0
    for begin in range(0, count, CHUNK):
        found = _peak_of(x + 4 * begin, min(CHUNK, count - begin))
        if found != found:
            return found, begin
        if found > best:
            best, where = found, begin
    row = floats(x, count)
    while row[where] < best:
        where += 1
    return best, where


@kernel()
def weigh(x, count, best, factor, weights, sums):  # type: ignore[no-untyped-def]
    """Write the softmax weights of `count` logits, the largest 1, to address `weights` (room for `padded(count)`);
    `sums[i]`: their sum in the i-th chunk. Return the total."""
    total = 0.0
    floats(weights, padded(count))[count:] = np.float32(0)
    for index in range(len(sums)):
        begin = index * CHUNK
        size = min(CHUNK, count - begin)
        whole = size // LANES * LANES
        found = np.float64(0)
        if whole:
            found += _weigh(x + 4 * begin, whole, best, factor, weights + 4 * begin)
        for at in range(begin + whole, begin + size):
            weight = small_exp((floats(x, count)[at] - best) * factor)
            weight = np.float32(0) if weight < SMALLEST else weight
            floats(weights, count)[at] = weight
            found += weight
        sums[index] = found
        total += found
    return total


@kernel()
def above(weights, count, low):  # type: ignore[no-untyped-def]
    """Return (sum, how many) of the weights from `low` on; `count` is a multiple of what `padded` gives."""
    found, total, many = np.empty(2, np.float32), 0.0, 0
    for begin in range(0, count, _FLUSH):
        _above(weights + 4 * begin, min(_FLUSH, count - begin), low, found.ctypes.data)
        total += found[0]
        many += int(found[1])
    return total, many


@kernel()
def above_both(weights, count, low, high):  # type: ignore[no-untyped-def]
    """Do as `above` for `low` and for `high`, in one pass."""
    found, total, many, more, more_of_them = np.empty(4, np.float32), 0.0, 0, 0.0, 0
    for begin in range(0, count, _FLUSH):
        _above_both(weights + 4 * begin, min(_FLUSH, count - begin), low, high, found.ctypes.data)
        total += found[0]
        many += int(found[1])
        more += found[2]
        more_of_them += int(found[3])
    return total, many, more, more_of_them


@kernel()
def places_within(weights, count, low, high, room):  # type: ignore[no-untyped-def]
    """Return the places of the weights in [low, high), of which there are at most `room`, in order."""
    places = np.empty(room + LANES, np.int32)
    return places[: _gather(weights, count, low, high, places.ctypes.data)]
