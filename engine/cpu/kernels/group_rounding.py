"""Round runs of float32 to int8 by vector instructions: what `small_products.shrink_groups` does to each whole group.

LLVM does not make vector code of the plain loops: comparisons of floats must keep NaN apart there, and sums of int32
become int64. Here the largest is found among the bits, where a NaN is larger than every number.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sluicegate.engine.cpu.kernels.machine import I8, I32, LANES, foreign, load, number, store
from sluicegate.engine.cpu.kernels.products import VECTOR, Loop, spread

_INTS = ir.VectorType(I32, LANES)
_NONE = ir.Constant(_INTS, [0] * LANES)
_SIGN_OFF = ir.Constant(_INTS, [0x7FFFFFFF] * LANES)


@intrinsic
def largest_of(typing_context: Any, x: Any, count: Any) -> Any:
    """Find the largest magnitude of `count` float32 at `x`, as bits of a float32: those of a NaN where one is. `count`
    is a multiple of LANES, and not 0."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, count = arguments
        loop = Loop(builder, builder.mul(count, number(4)), 4 * LANES, [_NONE])
        bits = builder.and_(load(builder, builder.add(x, loop.index), _INTS), _SIGN_OFF)
        held = loop.carried[0]
        most = builder.select(builder.icmp_unsigned(">", bits, held), bits, held)
        loop.close([most])
        return builder.call(foreign(builder, f"llvm.vector.reduce.umax.v{LANES}i32", I32, [_INTS]), [most])

    return types.int32(types.int64, types.int64), code


@intrinsic
def round_run(typing_context: Any, x: Any, count: Any, inverse: Any, out: Any) -> Any:
    """Store `count` float32 at `x` times `inverse`, each rounded to the nearest (half to even), as int8 at `out`;
    returns their sum. `count` is as in `largest_of`."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, count, inverse, out = arguments
        rounding = foreign(builder, f"llvm.rint.v{LANES}f32", VECTOR, [VECTOR])
        factor = spread(builder, inverse)
        loop = Loop(builder, count, LANES, [_NONE])
        values = load(builder, builder.add(x, builder.mul(loop.index, number(4))), VECTOR)
        found = builder.fptosi(builder.call(rounding, [builder.fmul(values, factor)]), _INTS)
        store(builder, builder.trunc(found, ir.VectorType(I8, LANES)), builder.add(out, loop.index), 1)
        total = builder.add(loop.carried[0], found)
        loop.close([total])
        return builder.call(foreign(builder, f"llvm.vector.reduce.add.v{LANES}i32", I32, [_INTS]), [total])

    return types.int32(types.int64, types.int64, types.float32, types.int64), code
