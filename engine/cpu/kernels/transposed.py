"""Products of many queries with a tile of keys that was turned on its side, so that lanes are keys.

`engine.cpu.kernels.products` keeps one product in all lanes of a register and adds them up at its end; for many
queries over
short heads that end costs more than the product. Here lanes are different keys and nothing is left to add up. Additions
are made in the order in which `products.sums_of` makes them, so both ways give the same bits.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sluicegate.engine.cpu.kernels.machine import F32, I32, LANES, load, number, store
from sluicegate.engine.cpu.kernels.products import Loop, fused_multiply_add, row_addresses, spread
from sluicegate.engine.cpu.kernels.rows import floats
from sluicegate.plugins.compiled.kernels import kernel

_VECTOR = ir.VectorType(F32, LANES)
_ZERO = ir.Constant(_VECTOR, [0.0] * LANES)
WIDE = 2 * LANES
"""Keys multiplied at once."""


@cache
def _dots(rows: int, vectors: int) -> Any:
    """Make `dots(q, ldq, t, ldt, k, out, ldo)`: `out[m, j] = sum over d < k of q[m, d] * t[d, j]` for `vectors`
    registers of columns; strides in bytes, k a multiple of `LANES`."""

    @intrinsic
    def dots(typing_context, q, ldq, t, ldt, k, out, ldo):  # type: ignore[no-untyped-def]
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            q, ldq, t, ldt, k, out, ldo = arguments
            queries, outs = row_addresses(builder, q, ldq, rows), row_addresses(builder, out, ldo, rows)
            multiply_add = fused_multiply_add(builder)

            def lane(first: int) -> list[Any]:
                """Sum over d = first, first + LANES, ...: what that lane of a register of `products` holds."""
                loop = Loop(builder, k, LANES, [_ZERO] * (rows * vectors))
                d = builder.add(loop.index, number(first))
                column = builder.add(t, builder.mul(d, ldt))
                keys = [load(builder, builder.add(column, number(4 * LANES * i)), _VECTOR) for i in range(vectors)]
                sums = []
                for row, query in enumerate(queries):
                    value = spread(builder, load(builder, builder.add(query, builder.mul(d, number(4))), F32))
                    for index, key in enumerate(keys):
                        held = loop.carried[row * vectors + index]
                        sums.append(builder.call(multiply_add, [value, key, held]))
                loop.close(sums)
                return sums

            def tree(lanes: int, first: int) -> list[Any]:
                """Add halves to halves, as `sums_of` does it."""
                if lanes == LANES:
                    return lane(first)
                left = tree(2 * lanes, first)
                right = tree(2 * lanes, first + lanes)
                return [builder.fadd(a, b) for a, b in zip(left, right, strict=True)]

            for at, total in enumerate(tree(1, 0)):
                place = builder.add(outs[at // vectors], number(4 * LANES * (at % vectors)))
                store(builder, total, place)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 7), code

    return dots


@cache
def _turn() -> Any:
    """Make `turn(x, ldx, out, ldo)`: LANES rows of LANES floats become columns."""

    @intrinsic
    def turn(typing_context, x, ldx, out, ldo):  # type: ignore[no-untyped-def]
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            x, ldx, out, ldo = arguments
            rows = [load(builder, place, _VECTOR) for place in row_addresses(builder, x, ldx, LANES)]
            distance = LANES // 2
            while distance:
                rows = _exchange(builder, rows, distance)
                distance //= 2
            for place, row in zip(row_addresses(builder, out, ldo, LANES), rows, strict=True):
                store(builder, row, place)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 4), code

    return turn


def _exchange(builder: Any, rows: list[Any], distance: int) -> list[Any]:
    """Swap the off-diagonal squares of `distance` lanes in every square of twice that."""
    upper = [lane if not lane & distance else lane - distance + LANES for lane in range(LANES)]
    lower = [lane + distance if not lane & distance else lane + LANES for lane in range(LANES)]
    made = list(rows)
    index = ir.VectorType(I32, LANES)
    for at in range(LANES):
        if not at & distance:
            pair = rows[at], rows[at + distance]
            made[at] = builder.shuffle_vector(*pair, ir.Constant(index, upper))
            made[at + distance] = builder.shuffle_vector(*pair, ir.Constant(index, lower))
    return made


_dots_4_2, _dots_1_2, _turn_square = _dots(4, 2), _dots(1, 2), _turn()


@kernel()
def turn_rows(x, ldx, rows, width, out, ldo):  # type: ignore[no-untyped-def]
    """Write `out[d, j] = x[j, d]` for `rows` rows of `width` floats, a multiple of LANES; strides in bytes."""
    row = 0
    while row + LANES <= rows:
        for d in range(0, width, LANES):
            _turn_square(x + row * ldx + 4 * d, ldx, out + d * ldo + 4 * row, ldo)
        row += LANES
    while row < rows:
        source = floats(x + row * ldx, width)
        for d in range(width):
            floats(out + d * ldo + 4 * row, 1)[0] = source[d]
        row += 1


@kernel()
def multiply_turned(x, ldx, rows, turned, ldt, k, columns, out, ldo):  # type: ignore[no-untyped-def]
    """Compute `out[m, j] = x[m] . turned[:, j]`, to the last bit what `products.multiply_panel` gives for keys as they
    were. Columns are computed `WIDE` at a time: `turned` and `out` have room for the last ones."""
    for column in range(0, columns, WIDE):
        row = 0
        while row + 4 <= rows:
            _dots_4_2(x + row * ldx, ldx, turned + 4 * column, ldt, k, out + row * ldo + 4 * column, ldo)
            row += 4
        while row < rows:
            _dots_1_2(x + row * ldx, ldx, turned + 4 * column, ldt, k, out + row * ldo + 4 * column, ldo)
            row += 1
