"""Products of few rows with a weight matrix, read once: `out[m, n] = sum over k of x[m, k] * w[n, k]`.

Weights stay as checkpoints have them ([N, K], a row an output), so nothing is packed or held twice. A tile of rows x
columns is kept in vector registers while k runs; what comes later is fetched into the cache meanwhile. Libraries made
for large products reach a quarter of this with 8 rows. The order of additions is the same whatever the number of rows:
a row's result does not depend, to the last bit, on what else is computed with it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sluicegate.engine.cpu.kernels.machine import F32, I8, I32, LANES, at, foreign, load, number, store
from sluicegate.plugins.compiled.kernels import kernel

PANEL = 24
"""Columns computed for all rows before the next: they stay in the second-level cache."""
DEPTH = 1024
"""Longest run of k summed in registers: rows of x that long stay in the first-level cache."""

_VECTOR = ir.VectorType(F32, LANES)
_ZERO = ir.Constant(_VECTOR, [0.0] * LANES)


def fused_multiply_add(builder: Any) -> Any:
    return foreign(builder, f"llvm.fma.v{LANES}f32", _VECTOR, [_VECTOR] * 3)


def prefetch(builder: Any, address: Any) -> None:
    """Fetch memory into the second-level cache."""
    hint = foreign(builder, "llvm.prefetch.p0", ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
    builder.call(hint, [at(builder, address, I8), *(ir.Constant(I32, value) for value in (0, 2, 1))])


def sums_of(builder: Any, vectors: list[Any]) -> Any:
    """Sum the lanes of each of `vectors` (a power of two of them, at most LANES), as one short vector.

    Halves are added to halves, for all vectors in the same few instructions, and always in the same order.
    """
    lanes, segments = LANES, 1
    while len(vectors) > 1:
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [_add_halves(builder, left, right, 2 * lanes, 2 * segments) for left, right in pairs]
        segments *= 2
    vector = vectors[0]
    while lanes > segments:
        vector = _add_halves(builder, vector, vector, lanes, segments)
        lanes //= 2
    return vector


def _add_halves(builder: Any, left: Any, right: Any, lanes: int, segments: int) -> Any:
    """Add the second half of each segment to its first: `left` and `right` in a row have `lanes` lanes in `segments`
    segments. (Of one vector alone, `right` is not looked at.)"""
    width = lanes // segments
    first = [segment * width + lane for segment in range(segments) for lane in range(width // 2)]
    masks = [[lane + shift for lane in first] for shift in (0, width // 2)]
    index = ir.VectorType(I32, len(first))
    halves = [builder.shuffle_vector(left, right, ir.Constant(index, mask)) for mask in masks]
    return builder.fadd(*halves)


def row_addresses(builder: Any, base: Any, stride: Any, count: int) -> list[Any]:
    return [builder.add(base, builder.mul(stride, number(row))) for row in range(count)]


class Loop:
    """`for i in range(0, end, step)` in LLVM, with values carried from turn to turn."""

    def __init__(self, builder: Any, end: Any, step: int, initial: list[Any]) -> None:
        self._builder, self._end, self._step = builder, end, step
        before = builder.block
        self._body = builder.append_basic_block("turn")
        builder.branch(self._body)
        builder.position_at_end(self._body)
        self.index = self._phi(number(0), before)
        self.carried = [self._phi(value, before) for value in initial]

    def _phi(self, value: Any, block: Any) -> Any:
        made = self._builder.phi(value.type)
        made.add_incoming(value, block)
        return made

    def close(self, values: list[Any]) -> None:
        builder, last = self._builder, self._builder.block
        following = builder.add(self.index, number(self._step))
        for phi, value in zip([self.index, *self.carried], [following, *values], strict=True):
            phi.add_incoming(value, last)
        after = builder.append_basic_block("after")
        builder.cbranch(builder.icmp_signed("<", following, self._end), self._body, after)
        builder.position_at_end(after)


@cache
def _tile(rows: int, columns: int) -> Any:
    """Make `tile(x, ldx, w, ldw, k, ahead, out, ldo, onto)`: one tile of float32; strides and `ahead` in bytes.

    k is a multiple of `LANES`. `onto`: 1 = add to what `out` holds. `ahead`: how much further on memory is prefetched.
    """

    @intrinsic
    def tile(typing_context, x, ldx, w, ldw, k, ahead, out, ldo, onto):  # type: ignore[no-untyped-def]
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            x, ldx, w, ldw, k, ahead, out, ldo, onto = arguments
            lefts, rights = row_addresses(builder, x, ldx, rows), row_addresses(builder, w, ldw, columns)
            end = builder.mul(k, number(4))
            loop = Loop(builder, end, 4 * LANES, [_ZERO] * (rows * columns))
            multiply_add = fused_multiply_add(builder)
            places = [builder.add(right, loop.index) for right in rights]
            for place in places:
                prefetch(builder, builder.add(place, ahead))
            weights = [load(builder, place, _VECTOR) for place in places]
            sums = []
            for row, left in enumerate(lefts):
                values = load(builder, builder.add(left, loop.index), _VECTOR)
                for column, weight in enumerate(weights):
                    held = loop.carried[row * columns + column]
                    sums.append(builder.call(multiply_add, [values, weight, held]))
            loop.close(sums)
            _store_sums(builder, sums, columns, out, ldo, onto)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 9), code

    return tile


def _store_sums(builder: Any, sums: list[Any], columns: int, out: Any, ldo: Any, onto: Any) -> None:
    adds = builder.icmp_signed("!=", onto, number(0))
    for row, address in enumerate(row_addresses(builder, out, ldo, len(sums) // columns)):
        mine = sums[row * columns : (row + 1) * columns]
        for first in range(0, columns, 4):
            _store_few(builder, mine[first : first + 4], builder.add(address, number(4 * first)), adds)


def _store_few(builder: Any, vectors: list[Any], address: Any, adds: Any) -> None:
    """Store the sums of up to four vectors; of three, one is summed twice and stored once."""
    count = len(vectors)
    found = sums_of(builder, vectors + vectors[-1:] * (count == 3))
    if count in (2, 4):
        zero = ir.Constant(found.type, [0.0] * count)
        before = builder.select(adds, load(builder, address, found.type), zero)
        store(builder, builder.fadd(before, found), address)
        return
    for lane in range(count):
        place = builder.add(address, number(4 * lane))
        before = builder.select(adds, load(builder, place, F32), ir.Constant(F32, 0.0))
        value = builder.extract_element(found, ir.Constant(I32, lane))
        store(builder, builder.fadd(before, value), place)


_tile_8_3, _tile_8_1, _tile_4_6, _tile_4_1 = _tile(8, 3), _tile(8, 1), _tile(4, 6), _tile(4, 1)
_tile_2_8, _tile_2_1, _tile_1_8, _tile_1_1 = _tile(2, 8), _tile(2, 1), _tile(1, 8), _tile(1, 1)


@kernel()
def multiply(x, ldx, rows, w, ldw, k, columns, out, ldo, onto):  # type: ignore[no-untyped-def]
    """Compute `out[m, n] (+)= x[m] . w[n]` for all rows and columns; addresses, and strides in bytes; k a multiple of
    LANES."""
    for first in range(0, columns, PANEL):
        width = min(PANEL, columns - first)
        for begin in range(0, k, DEPTH):
            depth = min(DEPTH, k - begin)
            panel = w + first * ldw + 4 * begin
            ahead = 4 * depth if begin + depth < k else PANEL * ldw - 4 * begin
            adds = onto if begin == 0 else 1
            multiply_panel(x + 4 * begin, ldx, rows, panel, ldw, depth, width, ahead, out + 4 * first, ldo, adds)


@kernel()
def multiply_alone(x, w, ldw, k, columns, out):  # type: ignore[no-untyped-def]
    """Do as `multiply` for one row and few columns, without fetching ahead: the columns that follow may be far away."""
    for begin in range(0, k, DEPTH):
        onto = 1 if begin > 0 else 0
        multiply_panel(x + 4 * begin, 0, 1, w + 4 * begin, ldw, min(DEPTH, k - begin), columns, 0, out, 0, onto)


@kernel()
def multiply_panel(x, ldx, rows, w, ldw, k, columns, ahead, out, ldo, onto):  # type: ignore[no-untyped-def]
    """Do as `multiply`, for k up to DEPTH; what lies `ahead` bytes after each weight is fetched for whoever is next."""
    row = 0
    while row + 8 <= rows:
        left, here, column = x + row * ldx, out + row * ldo, 0
        while column + 3 <= columns:
            _tile_8_3(left, ldx, w + column * ldw, ldw, k, ahead, here + 4 * column, ldo, onto)
            column += 3
        while column < columns:
            _tile_8_1(left, ldx, w + column * ldw, ldw, k, ahead, here + 4 * column, ldo, onto)
            column += 1
        row += 8
        ahead = 0
    if row + 4 <= rows:
        left, here, column = x + row * ldx, out + row * ldo, 0
        while column + 6 <= columns:
            _tile_4_6(left, ldx, w + column * ldw, ldw, k, ahead, here + 4 * column, ldo, onto)
            column += 6
        while column < columns:
            _tile_4_1(left, ldx, w + column * ldw, ldw, k, ahead, here + 4 * column, ldo, onto)
            column += 1
        row += 4
        ahead = 0
    if row + 2 <= rows:
        left, here, column = x + row * ldx, out + row * ldo, 0
        while column + 8 <= columns:
            _tile_2_8(left, ldx, w + column * ldw, ldw, k, ahead, here + 4 * column, ldo, onto)
            column += 8
        while column < columns:
            _tile_2_1(left, ldx, w + column * ldw, ldw, k, ahead, here + 4 * column, ldo, onto)
            column += 1
        row += 2
        ahead = 0
    if row < rows:
        left, here, column = x + row * ldx, out + row * ldo, 0
        while column + 8 <= columns:
            _tile_1_8(left, ldx, w + column * ldw, ldw, k, ahead, here + 4 * column, ldo, onto)
            column += 8
        while column < columns:
            _tile_1_1(left, ldx, w + column * ldw, ldw, k, ahead, here + 4 * column, ldo, onto)
            column += 1


@cache
def _blend(rows: int, vectors: int) -> Any:
    """Make `blend(p, ldp, v, ldv, count, out, ldo)`: `out[m, :] += sum over j of p[m, j] * v[j, :]`, `vectors`
    registers wide; strides in bytes."""

    @intrinsic
    def blend(typing_context, p, ldp, v, ldv, count, out, ldo):  # type: ignore[no-untyped-def]
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            p, ldp, v, ldv, count, out, ldo = arguments
            shares, outs = row_addresses(builder, p, ldp, rows), row_addresses(builder, out, ldo, rows)
            places = [builder.add(o, number(4 * LANES * i)) for o in outs for i in range(vectors)]
            loop = Loop(builder, count, 1, [load(builder, place, _VECTOR) for place in places])
            multiply_add = fused_multiply_add(builder)
            row = builder.add(v, builder.mul(loop.index, ldv))
            values = [load(builder, builder.add(row, number(4 * LANES * i)), _VECTOR) for i in range(vectors)]
            sums = []
            for at_row, share in enumerate(shares):
                weight = load(builder, builder.add(share, builder.mul(loop.index, number(4))), F32)
                shared = spread(builder, weight)
                for index, value in enumerate(values):
                    sums.append(builder.call(multiply_add, [shared, value, loop.carried[at_row * vectors + index]]))
            loop.close(sums)
            for place, value in zip(places, sums, strict=True):
                store(builder, value, place)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 7), code

    return blend


def spread(builder: Any, value: Any) -> Any:
    """Put a scalar into every lane."""
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, ir.Constant(I32, 0))
    return builder.shuffle_vector(
        one, ir.Constant(_VECTOR, ir.Undefined), ir.Constant(ir.VectorType(I32, LANES), [0] * LANES)
    )


_blend_4_4, _blend_2_4, _blend_1_4 = _blend(4, 4), _blend(2, 4), _blend(1, 4)
_blend_4_1, _blend_2_1, _blend_1_1 = _blend(4, 1), _blend(2, 1), _blend(1, 1)


@kernel()
def blend(p, ldp, rows, v, ldv, count, width, out, ldo):  # type: ignore[no-untyped-def]
    """Add `sum over j < count of p[m, j] * v[j, d]` to `out[m, d]`; `width` is a multiple of LANES, count > 0."""
    row = 0
    while row < rows:
        taken, column = 4 if row + 4 <= rows else (2 if row + 2 <= rows else 1), 0
        share, here = p + row * ldp, out + row * ldo
        while column < width:
            value, place = v + 4 * column, here + 4 * column
            if column + 4 * LANES <= width:
                if taken == 4:
                    _blend_4_4(share, ldp, value, ldv, count, place, ldo)
                elif taken == 2:
                    _blend_2_4(share, ldp, value, ldv, count, place, ldo)
                else:
                    _blend_1_4(share, ldp, value, ldv, count, place, ldo)
                column += 4 * LANES
            else:
                if taken == 4:
                    _blend_4_1(share, ldp, value, ldv, count, place, ldo)
                elif taken == 2:
                    _blend_2_1(share, ldp, value, ldv, count, place, ldo)
                else:
                    _blend_1_1(share, ldp, value, ldv, count, place, ldo)
                column += LANES
        row += taken
