"""Products with weights in the blocks of GGUF files, kept in panels of 16 outputs. Nothing is rounded again:

    Q8_0, Q4_0   w[n, k] = (wq[n, k] - offset) * d[n, group of k]                     groups of 32 inputs
    Q4_K         w[n, k] = wq[n, k] * d[n, s] * sc[n, g] - dmin[n, s] * m[n, g]       groups of 32, s of 256 inputs
    Q6_K         w[n, k] = (wq[n, k] - 32) * d[n, s] * sc[n, g]                       groups of 16, s of 256 inputs

    x[m, k] ~ xq[m, k] * sx[m, group of k]      int8, in the same groups, see `engine.cpu.kernels.small_products`

A lane of a vector register holds four inputs of an output, so that four inputs of a row are spread over 16 outputs at
once, and what a group's scales cost is paid once for 16 outputs. A group of a panel is so many registers of 64 bytes:

    Q8_0   8: register r holds inputs 4 r to 4 r + 3 of each output, as unsigned bytes
    Q4_*   4: inputs 8 r to 8 r + 3 in the low halves of bytes, 8 r + 4 to 8 r + 7 in the high ones
    Q6_K   3: two as Q4's, for the low four bits; then the upper two bits, of inputs 4 j to 4 j + 3 at bit 2 j

Scales: of Q8_0 and Q4_0 16 float16 a group. Of a run of 256 inputs of Q4_K 16 float16 d and 16 dmin, then for each
group 16 bytes sc, then as many m; of Q6_K 16 float16 d, then for each group 16 signed bytes sc. That is what the file
takes, and under Q4_K a 36th more.

An output's sums are made in the same order whatever else is computed.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sluicegate.engine.cpu.kernels.machine import F32, I8, I32, at, foreign, half_as_float, load, number
from sluicegate.engine.cpu.kernels.products import Loop, prefetch, row_addresses
from sluicegate.engine.cpu.kernels.small_products import Q4_0, Q4_K, Q6_K, Q8_0, in_all, multiply_bytes
from sluicegate.plugins.compiled.kernels import Kernel, kernel

BLOCK_OUTPUTS = 16
"""Outputs per panel."""
BLOCK_PANEL = 2 * BLOCK_OUTPUTS
"""Columns per unit of work when products are divided among threads."""
_INTS, _FLOATS = ir.VectorType(I32, BLOCK_OUTPUTS), ir.VectorType(F32, BLOCK_OUTPUTS)
_BYTES, _HALVES = ir.VectorType(I8, BLOCK_OUTPUTS), ir.VectorType(ir.HalfType(), BLOCK_OUTPUTS)
_REGISTER = 64
_SIGNATURE = f"void({', '.join(['int64'] * 13)})"


class BlockForm(NamedTuple):
    """How a form of blocks is kept in panels."""

    group: int
    """Inputs that share one scale."""
    registers: int
    """Registers (64 bytes each) per group."""
    offset: int
    """Subtracted from each number; 0 = the form stores minima instead."""
    run: int
    """Inputs whose scales are stored together."""
    scale_bytes: int
    """Bytes of scales per run, for all outputs of a panel."""

    @property
    def group_bytes(self) -> int:
        return _REGISTER * self.registers


BLOCK_FORMS = {
    Q8_0: BlockForm(32, 8, 128, 32, 32),
    Q4_0: BlockForm(32, 4, 8, 32, 32),
    Q4_K: BlockForm(32, 4, 0, 256, 64 + 8 * 32),
    Q6_K: BlockForm(16, 3, 32, 256, 32 + 16 * 16),
}


@cache
def _tile(form: int, rows: int, panels: int) -> Any:
    """Make `tile(x, ldx, sx, ldsx, groups, w, sw, first, last, out, ldo, onto)`: some rows by some panels, of which
    outputs [first, last) are wanted. `sx` rows hold `groups` scales, then -8 times the groups' sums as int32."""
    kind = BLOCK_FORMS[form]

    @intrinsic
    def tile(typing_context, x, ldx, sx, ldsx, groups, w, sw, first, last, out, ldo, onto):  # type: ignore[no-untyped-def]
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            x, ldx, sx, ldsx, groups, w, sw, first, last, out, ldo, onto = arguments
            lefts, scales = row_addresses(builder, x, ldx, rows), row_addresses(builder, sx, ldsx, rows)
            panel_bytes = builder.mul(groups, number(kind.group_bytes))
            runs = builder.sdiv(builder.mul(groups, number(kind.group)), number(kind.run))
            rights = row_addresses(builder, w, panel_bytes, panels)
            units = row_addresses(builder, sw, builder.mul(runs, number(kind.scale_bytes)), panels)
            loop = Loop(builder, groups, 1, [ir.Constant(_FLOATS, [0.0] * BLOCK_OUTPUTS)] * (rows * panels))
            place = builder.mul(loop.index, number(4))
            sums = [load(builder, builder.add(_behind(builder, scale, groups), place), I32) for scale in scales]
            begin = builder.mul(loop.index, number(kind.group_bytes))
            here = [builder.add(right, begin) for right in rights]
            for panel in here:
                for register in range(kind.registers):
                    ahead = builder.add(builder.mul(panel_bytes, number(2)), number(_REGISTER * register))
                    prefetch(builder, builder.add(panel, ahead))
            inputs = builder.mul(loop.index, number(kind.group))
            starts = [builder.add(left, inputs) for left in lefts]
            whole = _dots(builder, form, here, starts, [_offset(builder, kind, total) for total in sums])
            weight_scales = [_scales(builder, form, unit, loop.index) for unit in units]
            carried = list(loop.carried)
            for row, scale in enumerate(scales):
                mine = load(builder, builder.add(scale, place), F32)
                shift = builder.fmul(builder.fmul(mine, builder.sitofp(sums[row], F32)), ir.Constant(F32, 0.125))
                for panel, (unit, least) in enumerate(weight_scales):
                    spot = row * panels + panel
                    worth = builder.fmul(unit, _spread(builder, mine, _FLOATS))
                    found = builder.sitofp(whole[spot], _FLOATS)
                    carried[spot] = _fused(builder, found, worth, carried[spot])
                    if least is not None:
                        carried[spot] = _fused(builder, least, _spread(builder, shift, _FLOATS), carried[spot])
            loop.close(carried)
            for row, address in enumerate(row_addresses(builder, out, ldo, rows)):
                for panel in range(panels):
                    columns = number(BLOCK_OUTPUTS * panel)
                    wanted = (builder.sub(first, columns), builder.sub(last, columns))
                    spot = builder.add(address, builder.mul(columns, number(4)))
                    _store(builder, carried[row * panels + panel], wanted, spot, onto)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 12), code

    return tile


def _behind(builder: Any, scales: Any, groups: Any) -> Any:
    return builder.add(scales, builder.mul(groups, number(4)))


def _offset(builder: Any, kind: BlockForm, total: Any) -> Any:
    """Return what the offset of the weights adds to a group's sums; `total`: -8 times the sum of its inputs."""
    if not kind.offset:
        return ir.Constant(_INTS, [0] * BLOCK_OUTPUTS)
    return _spread(builder, builder.mul(total, ir.Constant(I32, kind.offset // 8)), _INTS)


def _dots(builder: Any, form: int, panels: list[Any], rows: list[Any], begin: list[Any]) -> list[Any]:
    """Sum a group's products in integers, for all rows and panels; row after row."""
    whole = [value for value in begin for _ in panels]
    kept: list[list[Any]] = [[] for _ in panels]
    for four in range(BLOCK_FORMS[form].group // 4):
        weights = [_numbers(builder, form, panel, four, kept[index]) for index, panel in enumerate(panels)]
        for row, left in enumerate(rows):
            some = load(builder, builder.add(left, number(4 * four)), I32, 1)
            values = _spread(builder, some, _INTS)
            for panel, weight in enumerate(weights):
                spot = row * len(panels) + panel
                whole[spot] = multiply_bytes(builder, whole[spot], weight, values)
    return whole


def _numbers(builder: Any, form: int, panel: Any, four: int, kept: list[Any]) -> Any:
    """Return inputs 4 `four` to 4 `four` + 3 of each output, as unsigned bytes; `kept`: registers of this group that
    were loaded before."""
    if form == Q8_0:
        return _register(builder, panel, four)
    if four % 2 == 0:
        kept[0:1] = [_register(builder, panel, four // 2)]
    shifted = builder.lshr(kept[0], in_all(4, BLOCK_OUTPUTS)) if four % 2 else kept[0]
    low = builder.and_(shifted, in_all(0x0F0F0F0F, BLOCK_OUTPUTS))
    if form != Q6_K:
        return low
    if four == 0:
        kept.append(_register(builder, panel, 2))
    by = in_all(abs(4 - 2 * four), BLOCK_OUTPUTS)
    turned = builder.shl(kept[1], by) if four < 2 else builder.lshr(kept[1], by)
    return builder.or_(low, builder.and_(turned, in_all(0x30303030, BLOCK_OUTPUTS)))


def _register(builder: Any, panel: Any, index: int) -> Any:
    return load(builder, builder.add(panel, number(_REGISTER * index)), _INTS)


def _scales(builder: Any, form: int, units: Any, group: Any) -> tuple[Any, Any]:
    """Return a group's scale of each output, and what is taken off its weights; None = nothing."""
    kind = BLOCK_FORMS[form]
    if kind.run == kind.group:
        return _halves(builder, builder.add(units, builder.mul(group, number(kind.scale_bytes)))), None
    groups = kind.run // kind.group
    run, inside = builder.sdiv(group, number(groups)), builder.mul(builder.srem(group, number(groups)), number(16))
    begin = builder.add(units, builder.mul(run, number(kind.scale_bytes)))
    unit = _halves(builder, begin)
    if form == Q6_K:
        signed = load(builder, builder.add(builder.add(begin, number(32)), inside), _BYTES, 1)
        return builder.fmul(unit, builder.sitofp(builder.sext(signed, _INTS), _FLOATS)), None
    least = _halves(builder, builder.add(begin, number(32)))
    found = []
    for whole, start in ((unit, 64), (least, 64 + 16 * groups)):
        small = load(builder, builder.add(builder.add(begin, number(start)), inside), _BYTES, 1)
        found.append(builder.fmul(whole, builder.sitofp(builder.zext(small, _INTS), _FLOATS)))
    return found[0], found[1]


def _halves(builder: Any, address: Any) -> Any:
    return half_as_float(builder, load(builder, address, _HALVES, 2))


def _fused(builder: Any, left: Any, right: Any, onto: Any) -> Any:
    name = f"llvm.fma.v{BLOCK_OUTPUTS}f32"
    return builder.call(foreign(builder, name, _FLOATS, [_FLOATS] * 3), [left, right, onto])


def _spread(builder: Any, value: Any, kind: Any) -> Any:
    nothing = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(nothing, value, ir.Constant(I32, 0))
    return builder.shuffle_vector(one, nothing, in_all(0, kind.count))


def _store(builder: Any, found: Any, wanted: tuple[Any, Any], out: Any, onto: Any) -> None:
    """Store those of 16 outputs whose places are `wanted` (first, last), added to what is there if `onto` is not 0."""
    order = ir.Constant(_INTS, list(range(BLOCK_OUTPUTS)))
    first, last = (_spread(builder, builder.trunc(border, I32), _INTS) for border in wanted)
    mask = builder.and_(builder.icmp_signed(">=", order, first), builder.icmp_signed("<", order, last))
    zeros, place, align = ir.Constant(_FLOATS, [0.0] * BLOCK_OUTPUTS), at(builder, out, _FLOATS), ir.Constant(I32, 4)
    size = f"v{BLOCK_OUTPUTS}f32.p0"
    read = foreign(builder, f"llvm.masked.load.{size}", _FLOATS, [place.type, I32, mask.type, _FLOATS])
    write = foreign(builder, f"llvm.masked.store.{size}", ir.VoidType(), [_FLOATS, place.type, I32, mask.type])
    adds = _spread(builder, builder.icmp_signed("!=", onto, number(0)), mask.type)
    before = builder.call(read, [place, align, builder.and_(mask, adds), zeros])
    builder.call(write, [builder.fadd(before, found), place, align, mask])


@cache
def block_product(form: int) -> Kernel:
    """Return the product with weights of this form, called as all products are (`products_by_form`). `first` may be
    anywhere in a panel: what is computed of others is not stored. One row alone waits for memory: it reads panel after
    panel, since one stream is fetched faster than two."""
    kind = BLOCK_FORMS[form]
    group, group_bytes, run, scale_bytes = kind.group, kind.group_bytes, kind.run, kind.scale_bytes
    tile_4_2, tile_2_2 = _tile(form, 4, 2), _tile(form, 2, 2)
    tile_4_1, tile_2_1, tile_1_1 = _tile(form, 4, 1), _tile(form, 2, 1), _tile(form, 1, 1)

    @kernel(_SIGNATURE, name="block_product", made_by=(form,))
    def product(x, ldx, xs, ldxs, rows, w, scales, k, first, count, out, ldo, onto):  # type: ignore[no-untyped-def]
        groups = k // group
        panel, last = first // BLOCK_OUTPUTS, (first + count + BLOCK_OUTPUTS - 1) // BLOCK_OUTPUTS
        while panel < last:
            wide = 2 if rows > 1 and panel + 2 <= last else 1
            begin = BLOCK_OUTPUTS * panel
            low, high = first - begin, first + count - begin
            weights, units = w + panel * groups * group_bytes, scales + panel * (k // run) * scale_bytes
            row = 0
            while row < rows:
                left, scale = x + row * ldx, xs + row * ldxs
                here = out + row * ldo + 4 * (begin - first)
                if row + 4 <= rows:
                    if wide == 2:
                        tile_4_2(left, ldx, scale, ldxs, groups, weights, units, low, high, here, ldo, onto)
                    else:
                        tile_4_1(left, ldx, scale, ldxs, groups, weights, units, low, high, here, ldo, onto)
                    row += 4
                elif row + 2 <= rows:
                    if wide == 2:
                        tile_2_2(left, ldx, scale, ldxs, groups, weights, units, low, high, here, ldo, onto)
                    else:
                        tile_2_1(left, ldx, scale, ldxs, groups, weights, units, low, high, here, ldo, onto)
                    row += 2
                else:
                    for at in range(wide):
                        more, next_units = at * groups * group_bytes, at * (k // run) * scale_bytes
                        begun, place = BLOCK_OUTPUTS * at, here + 4 * BLOCK_OUTPUTS * at
                        tile_1_1(
                            left, ldx, scale, ldxs, groups, weights + more, units + next_units, low - begun,
                            high - begun, place, ldo, onto,
                        )  # fmt: skip
                    row += 1
            panel += wide

    made: Kernel = product
    return made


BLOCK_PRODUCTS = {form: block_product(form) for form in BLOCK_FORMS}
