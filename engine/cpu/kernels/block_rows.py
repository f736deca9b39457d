"""Read one row of a weight that is kept in half precision or in panels of blocks: what a table of embeddings is asked
for."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sluicegate.engine.cpu.kernels.block_products import BLOCK_FORMS, BLOCK_OUTPUTS
from sluicegate.engine.cpu.kernels.machine import float_of_bits, half_as_float, load
from sluicegate.engine.cpu.kernels.products import BF16
from sluicegate.engine.cpu.kernels.rows import bytes_at, floats, shorts, unsigned
from sluicegate.engine.cpu.kernels.small_products import Q4_0, Q4_K, Q6_K, Q8_0
from sluicegate.plugins.compiled.kernels import kernel

_LANE = 4
"""Bytes of one output in a register."""
_REGISTER = _LANE * BLOCK_OUTPUTS
_BYTES = {form: kind.group_bytes for form, kind in BLOCK_FORMS.items()}
_BYTES_8_0, _BYTES_4, _BYTES_6_K = _BYTES[Q8_0], _BYTES[Q4_0], _BYTES[Q6_K]
_RUN_4_K, _RUN_6_K = BLOCK_FORMS[Q4_K].scale_bytes, BLOCK_FORMS[Q6_K].scale_bytes


@intrinsic
def half_at(typing_context: Any, address: Any) -> Any:
    """Read the float16 at `address` as float32."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return half_as_float(builder, load(builder, arguments[0], ir.HalfType(), 2))

    return types.float32(types.int64), code


@kernel()
def read_half_row(form, data, row, width, factor, out):  # type: ignore[no-untyped-def]
    """Write `width` numbers of row `row` times `factor` to `out`; `data`: where a weight in BF16 or F16 begins."""
    begin = data + 2 * width * row
    made, found = floats(out, width), shorts(begin, width)
    for at in range(width):
        if form == BF16:
            made[at] = float_of_bits(np.int32(found[at]) << np.int32(16)) * factor
        else:
            made[at] = half_at(begin + 2 * at) * factor


@kernel()
def read_block_row(form, data, scales, k, row, width, factor, out):  # type: ignore[no-untyped-def]
    """Write `width` numbers of row `row` times `factor` to `out`; k is padded. `data`, `scales`: where the weight
    begins."""
    made = floats(out, width)
    panel, lane = row // BLOCK_OUTPUTS, row % BLOCK_OUTPUTS
    if form in (Q8_0, Q4_0):
        groups = k // 32
        units = scales + 2 * BLOCK_OUTPUTS * groups * panel + 2 * lane
        size = _BYTES_8_0 if form == Q8_0 else _BYTES_4
        for at in range(width):
            unit = half_at(units + 2 * BLOCK_OUTPUTS * (at // 32))
            group = data + (groups * panel + at // 32) * size + _LANE * lane
            if form == Q8_0:
                code = np.int32(unsigned(group + _REGISTER * (at % 32 // 4) + at % 4, 1)[0]) - 128
            else:
                code = _nibble(group, at % 32) - 8
            made[at] = np.float32(code) * unit * factor
        return
    run = _RUN_4_K if form == Q4_K else _RUN_6_K
    units = scales + k // 256 * run * panel
    for at in range(width):
        here, inside = units + at // 256 * run, at % 256
        unit = half_at(here + 2 * lane)
        if form == Q4_K:
            small = here + 4 * BLOCK_OUTPUTS + BLOCK_OUTPUTS * (inside // 32) + lane
            unit *= np.float32(unsigned(small, 1)[0])
            least = half_at(here + 2 * BLOCK_OUTPUTS + 2 * lane)
            least *= np.float32(unsigned(small + 8 * BLOCK_OUTPUTS, 1)[0])
            group = data + (k // 32 * panel + at // 32) * _BYTES_4 + _LANE * lane
            made[at] = (np.float32(_nibble(group, at % 32)) * unit - least) * factor
        else:
            unit *= np.float32(bytes_at(here + 2 * BLOCK_OUTPUTS + BLOCK_OUTPUTS * (inside // 16) + lane, 1)[0])
            group, four = data + (k // 16 * panel + at // 16) * _BYTES_6_K + _LANE * lane, at % 16 // 4
            upper = np.int32(unsigned(group + 2 * _REGISTER + at % 4, 1)[0]) >> (2 * four) & 3
            made[at] = np.float32((_nibble(group, at % 16) | upper << 4) - 32) * unit * factor


@kernel()
def _nibble(group, at):  # type: ignore[no-untyped-def]
    """Return the low four bits of input `at` of a group; `group`: where the output's lane begins in its first
    register."""
    found = np.int32(unsigned(group + _REGISTER * (at // 8) + at % 4, 1)[0])
    return found >> (4 * (at // 4 % 2)) & 15
