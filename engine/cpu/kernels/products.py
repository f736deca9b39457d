"""Products of few rows with a weight matrix, read once: `out[m, n] = sum over k of x[m, k] * w[n, k]`.

Weights stay as checkpoints have them ([N, K], a row an output; float32, or bfloat16 or float16 that is widened in
registers), so nothing is packed or held twice. A tile of rows x columns is kept in vector registers while k runs; what
comes later is fetched into the cache meanwhile. Libraries made for large products reach a quarter of this with 8 rows.
The order of additions is the same whatever the number of rows: a row's result does not depend, to the last bit, on what
else is computed with it. Nor does it depend on the form of the weights, where they stand for the same numbers.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sluicegate.engine.cpu.kernels.machine import (
    F32,
    I8,
    I32,
    LANES,
    at,
    foreign,
    half_as_float,
    load,
    number,
    store,
)
from sluicegate.plugins.compiled.kernels import Kernel, kernel

WHOLE, BF16, F16 = 0, 16, 17
"""Forms of a weight that products read unconverted: float32, bfloat16, float16."""

PANEL = 24
"""Columns computed for all rows before the next ones: they stay in the second-level cache."""
DEPTH = 1024
"""Longest run of k summed in registers: rows of x of that length stay in the first-level cache."""
_SHORT = 256
"""Longest k of one row for which sums at the end of a tile cost more than the memory it reads."""

VECTOR = ir.VectorType(F32, LANES)
_ZERO = ir.Constant(VECTOR, [0.0] * LANES)


def fused_multiply_add(builder: Any) -> Any:
    return foreign(builder, f"llvm.fma.v{LANES}f32", VECTOR, [VECTOR] * 3)


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


def spread(builder: Any, value: Any) -> Any:
    """Put a scalar into every lane."""
    one = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), value, ir.Constant(I32, 0))
    return builder.shuffle_vector(
        one, ir.Constant(VECTOR, ir.Undefined), ir.Constant(ir.VectorType(I32, LANES), [0] * LANES)
    )


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


def number_bytes(form: int) -> int:
    """Return the bytes of a number of such a weight."""
    return 4 if form == WHOLE else 2


def _widened(builder: Any, address: Any, form: int) -> Any:
    """Load LANES numbers of a weight as float32."""
    if form == WHOLE:
        return load(builder, address, VECTOR)
    if form == F16:
        return half_as_float(builder, load(builder, address, ir.VectorType(ir.HalfType(), LANES), 2))
    words = ir.VectorType(I32, LANES)
    upper = builder.zext(load(builder, address, ir.VectorType(ir.IntType(16), LANES), 2), words)
    return builder.bitcast(builder.shl(upper, ir.Constant(words, [16] * LANES)), VECTOR)


@cache
def _tile(rows: int, columns: int, form: int) -> Any:
    """Make `tile(x, ldx, w, ldw, k, ahead, out, ldo, onto)`: one tile; strides and `ahead` in bytes.

    k is a multiple of `LANES`. `onto`: 1 = add to what `out` holds. `ahead`: how much further on memory is prefetched.
    """
    half = form != WHOLE

    @intrinsic
    def tile(typing_context, x, ldx, w, ldw, k, ahead, out, ldo, onto):  # type: ignore[no-untyped-def]
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            x, ldx, w, ldw, k, ahead, out, ldo, onto = arguments
            lefts, rights = row_addresses(builder, x, ldx, rows), row_addresses(builder, w, ldw, columns)
            end = builder.mul(k, number(4))
            loop = Loop(builder, end, 4 * LANES, [_ZERO] * (rows * columns))
            multiply_add = fused_multiply_add(builder)
            here = builder.lshr(loop.index, number(1)) if half else loop.index
            places = [builder.add(right, here) for right in rights]
            for place in places:
                prefetch(builder, builder.add(place, ahead))
            weights = [_widened(builder, place, form) for place in places]
            sums = []
            for row, left in enumerate(lefts):
                values = load(builder, builder.add(left, loop.index), VECTOR)
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


@cache
def product_with(form: int) -> Kernel:
    """Return `multiply(x, ldx, rows, w, ldw, k, columns, out, ldo, onto)`: `out[m, n] (+)= x[m] . w[n]` for all rows
    and columns; addresses, and strides in bytes; k a multiple of LANES."""
    size, panel_product = number_bytes(form), panel_product_with(form)

    @kernel(name="product_with", made_by=(form,))
    def multiply(x, ldx, rows, w, ldw, k, columns, out, ldo, onto):  # type: ignore[no-untyped-def]
        for first in range(0, columns, PANEL):
            width = min(PANEL, columns - first)
            for begin in range(0, k, DEPTH):
                depth = min(DEPTH, k - begin)
                panel = w + first * ldw + size * begin
                ahead = size * depth if begin + depth < k else PANEL * ldw - size * begin
                adds = onto if begin == 0 else 1
                panel_product(x + 4 * begin, ldx, rows, panel, ldw, depth, width, ahead, out + 4 * first, ldo, adds)

    made: Kernel = multiply
    return made


@cache
def product_alone_with(form: int) -> Kernel:
    """Return `multiply_alone(x, w, ldw, k, columns, out)`: as `product_with` for one row and few columns, after which
    others far away may follow: nothing is fetched ahead."""
    size, panel_product = number_bytes(form), panel_product_with(form)

    @kernel(name="product_alone_with", made_by=(form,))
    def multiply_alone(x, w, ldw, k, columns, out):  # type: ignore[no-untyped-def]
        for begin in range(0, k, DEPTH):
            onto = 1 if begin > 0 else 0
            depth = min(DEPTH, k - begin)
            panel_product(x + 4 * begin, 0, 1, w + size * begin, ldw, depth, columns, 0, out, 0, onto)

    made: Kernel = multiply_alone
    return made


@cache
def panel_product_with(form: int) -> Kernel:
    """Return `multiply_panel(x, ldx, rows, w, ldw, k, columns, ahead, out, ldo, onto)`: as `product_with`, for k up to
    DEPTH; what lies `ahead` bytes after each weight is fetched for whoever is next."""
    tile_8_3, tile_8_1, tile_4_6, tile_4_1 = (_tile(*size, form) for size in ((8, 3), (8, 1), (4, 6), (4, 1)))
    tile_2_8, tile_2_1, tile_1_8, tile_1_4 = (_tile(*size, form) for size in ((2, 8), (2, 1), (1, 8), (1, 4)))
    tile_1_1 = _tile(1, 1, form)

    @kernel(name="panel_product_with", made_by=(form,))
    def multiply_panel(x, ldx, rows, w, ldw, k, columns, ahead, out, ldo, onto):  # type: ignore[no-untyped-def]
        row = 0
        while row + 8 <= rows:
            left, here, column = x + row * ldx, out + row * ldo, 0
            while column + 3 <= columns:
                tile_8_3(left, ldx, w + column * ldw, ldw, k, ahead, here + 4 * column, ldo, onto)
                column += 3
            while column < columns:
                tile_8_1(left, ldx, w + column * ldw, ldw, k, ahead, here + 4 * column, ldo, onto)
                column += 1
            row += 8
            ahead = 0
        if row + 4 <= rows:
            left, here, column = x + row * ldx, out + row * ldo, 0
            while column + 6 <= columns:
                tile_4_6(left, ldx, w + column * ldw, ldw, k, ahead, here + 4 * column, ldo, onto)
                column += 6
            while column < columns:
                tile_4_1(left, ldx, w + column * ldw, ldw, k, ahead, here + 4 * column, ldo, onto)
                column += 1
            row += 4
            ahead = 0
        if row + 2 <= rows:
            left, here, column = x + row * ldx, out + row * ldo, 0
            while column + 8 <= columns:
                tile_2_8(left, ldx, w + column * ldw, ldw, k, ahead, here + 4 * column, ldo, onto)
                column += 8
            while column < columns:
                tile_2_1(left, ldx, w + column * ldw, ldw, k, ahead, here + 4 * column, ldo, onto)
                column += 1
            row += 2
            ahead = 0
        if row < rows:
            left, here, column = x + row * ldx, out + row * ldo, 0
            while k <= _SHORT and column + 8 <= columns:
                tile_1_8(left, ldx, w + column * ldw, ldw, k, ahead, here + 4 * column, ldo, onto)
                column += 8
            while column + 4 <= columns:  # long rows wait for memory, which fetches four streams faster than eight
                tile_1_4(left, ldx, w + column * ldw, ldw, k, ahead, here + 4 * column, ldo, onto)
                column += 4
            while column < columns:
                tile_1_1(left, ldx, w + column * ldw, ldw, k, ahead, here + 4 * column, ldo, onto)
                column += 1

    made: Kernel = multiply_panel
    return made


multiply, multiply_alone, multiply_panel = product_with(WHOLE), product_alone_with(WHOLE), panel_product_with(WHOLE)
