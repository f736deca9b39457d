"""The Triton kernel of products of few rows with whole weights. A decode step waits for weights to come from memory;
here a program reads `COLUMNS` rows of the weights from end to end, several stages ahead of the tensor cores."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def multiply_few(  # type: ignore[no-untyped-def]
    x, weight, bias, out, rows, columns, width, x_stride,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr, STAGES: tl.constexpr,
    GATED: tl.constexpr, BIASED: tl.constexpr, WIDEN: tl.constexpr,
):  # fmt: skip
    """Multiply at most ROWS rows. Grid (columns / COLUMNS,): `out` [rows, columns] = `x` [rows, width] by stride times
    the transpose of `weight` [columns, width], plus `bias` [columns] if BIASED.

    If GATED, `weight` is [2 columns, width], gates before the others, and `out` is silu(gate) * up, rounded to the
    dtype where `engine.cuda.kernels.fused.gate_rows` rounds. COLUMNS divides `columns`, STEP `width`. WIDEN: products
    in float32.
    """
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    row, place = tl.arange(0, ROWS), tl.arange(0, STEP)
    is_row = (row < rows)[None, :]
    total = tl.zeros([COLUMNS, ROWS], tl.float32)
    others = tl.zeros([COLUMNS, ROWS], tl.float32)
    kept = weight + column.to(tl.int64)[:, None] * width + place[None, :]
    given = x + row[None, :] * x_stride + place[:, None]
    beside = columns.to(tl.int64) * width
    for at in tl.range(0, width, STEP, num_stages=STAGES):
        numbers = tl.load(given + at, mask=is_row, other=0.0)  # [STEP, ROWS]
        weights = tl.load(kept + at)
        if WIDEN:
            numbers, weights = numbers.to(tl.float32), weights.to(tl.float32)
        total = tl.dot(weights, numbers, total, input_precision="ieee")
        if GATED:
            weights = tl.load(kept + beside + at)
            if WIDEN:
                weights = weights.to(tl.float32)
            others = tl.dot(weights, numbers, others, input_precision="ieee")
    kind: tl.constexpr = out.dtype.element_ty
    if BIASED:
        total += tl.load(bias + column).to(tl.float32)[:, None]
    if GATED:
        gate = total.to(kind).to(tl.float32)
        fallen = tl.exp(-tl.abs(gate))  # never above 1
        opened = (gate * tl.where(gate < 0, fallen, 1.0) / (1 + fallen)).to(kind).to(tl.float32)
        total = opened * others.to(kind).to(tl.float32)
    tl.store(out + row[None, :] * columns + column[:, None], total.to(kind), mask=is_row)
