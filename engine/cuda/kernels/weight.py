"""The Triton kernel of products with weights of 8 and 4 bits: weights are widened in registers, sums are float32.

A decode step waits for weights to come from memory: half the bytes, at best twice the speed. Activations stay as they
are, so nothing but the weights is rounded.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def multiply_small(  # type: ignore[no-untyped-def]
    x, data, scales, out, rows, columns, width, x_stride,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr, GROUP: tl.constexpr, WIDEN: tl.constexpr,
):  # fmt: skip
    """Multiply few rows by rounded weights. Grid (ceil(columns / COLUMNS), ceil(rows / ROWS)): `out` [rows, columns] =
    `x` [rows, width] by stride times the weights' transpose.

    With GROUP 0 `data` [columns, width] is int8 or float8 and `scales` [columns]. Else two weights of 4 bits, 8 more
    than they are, share a byte: of each GROUP weights of a row the first half lies in the low bits of GROUP / 2 bytes,
    the second half in the high bits; `scales` [columns, width / GROUP].
    """
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    is_row, is_column = (row < rows)[:, None], (column < columns)[:, None]
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    given = x + row.to(tl.int64)[:, None] * x_stride
    if GROUP == 0:
        kept = data + column.to(tl.int64)[:, None] * width
        for at in range(0, width, STEP):
            place = at + tl.arange(0, STEP)
            inside = (place < width)[None, :]
            numbers = tl.load(given + place[None, :], mask=is_row & inside, other=0.0)
            weights = tl.load(kept + place[None, :], mask=is_column & inside, other=0.0)
            if WIDEN:
                numbers = numbers.to(tl.float32)
            total = tl.dot(numbers, tl.trans(weights.to(numbers.dtype)), total, input_precision="ieee")
        total *= tl.load(scales + column, mask=column < columns, other=0.0)[None, :]
    else:
        half: tl.constexpr = GROUP // 2
        kept = data + column.to(tl.int64)[:, None] * (width // 2)
        for group in range(0, width // GROUP):
            byte = tl.arange(0, half)
            low = tl.load(given + (group * GROUP + byte)[None, :], mask=is_row, other=0.0)
            high = tl.load(given + (group * GROUP + half + byte)[None, :], mask=is_row, other=0.0)
            if WIDEN:
                low, high = low.to(tl.float32), high.to(tl.float32)
            both = tl.load(kept + (group * half + byte)[None, :], mask=is_column, other=0).to(tl.int32)
            first, second = (both & 15) - 8, (both >> 4) - 8
            part = tl.dot(low, tl.trans(first.to(low.dtype)), input_precision="ieee")
            part = tl.dot(high, tl.trans(second.to(low.dtype)), part, input_precision="ieee")
            place = column * (width // GROUP) + group
            total += part * tl.load(scales + place, mask=column < columns, other=0.0)[None, :]
    target = out + row.to(tl.int64)[:, None] * columns + column[None, :]
    tl.store(target, total.to(out.dtype.element_ty), mask=is_row & (column < columns)[None, :])
