"""Sum the rows of a matrix, each times a share: what attention makes of values."""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import types
from numba.extending import intrinsic

from sluicegate.engine.cpu.kernels.machine import F32, LANES, load, number, store
from sluicegate.engine.cpu.kernels.products import VECTOR, Loop, fused_multiply_add, row_addresses, spread
from sluicegate.plugins.compiled.kernels import kernel


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
            loop = Loop(builder, count, 1, [load(builder, place, VECTOR) for place in places])
            multiply_add = fused_multiply_add(builder)
            row = builder.add(v, builder.mul(loop.index, ldv))
            values = [load(builder, builder.add(row, number(4 * LANES * i)), VECTOR) for i in range(vectors)]
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
