"""Pack weights for the CPU kernels: rounded to 8 bits or in blocks to 4 or 6, or as stored in GGUF blocks or half
precision; and unpack them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from sluicegate.engine.cpu.block_packing import (
    BLOCK_NAMES,
    empty_blocks,
    fill_blocks,
    fill_numbers,
    half_scales,
    widen_blocks,
)
from sluicegate.engine.cpu.block_rounding import ROUNDED, fits_six, numbers_of_four
from sluicegate.engine.cpu.kernels.block_products import BLOCK_FORMS, BLOCK_OUTPUTS
from sluicegate.engine.cpu.kernels.machine import LANES
from sluicegate.engine.cpu.kernels.products import BF16, F16
from sluicegate.engine.cpu.kernels.small_products import EIGHT, Q4_0, Q6_K, padded


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A weight [n, k]. In 8 bits, `data` is uint8 [n, padded k] and `scales` float32 [n]. In blocks they are as
    `block_packing.empty_blocks` says. Halves are [n, k] in bfloat16 or float16, without scales."""

    form: int
    n: int
    k: int
    data: Tensor
    scales: Tensor

    @property
    def nbytes(self) -> int:
        return self.data.nbytes + self.scales.nbytes


def is_zero(packed: Packed) -> bool:
    """Return whether a weight holds zeros alone. A scale is as large as its largest number; that of none is tiny."""
    if packed.form in _HALVES.values():
        return not bool(packed.data.any())
    scales = half_scales(packed.form, packed.scales) if packed.form in BLOCK_NAMES.values() else packed.scales
    return bool((scales.abs() <= NOTHING).all())


NOTHING = 1e-30
"""Scale of a row of zeros in 8 bits, by which they can be divided."""
_ROWS = 64 * BLOCK_OUTPUTS
"""Rows that are rounded to blocks at once: a few copies of them are in memory meanwhile."""
_HALVES = {torch.bfloat16: BF16, torch.float16: F16}
HALF_NAMES = {"BF16": BF16, "F16": F16}
"""Forms by ggml's names."""


def fits_halves(shape: tuple[int, ...], dtype: torch.dtype) -> bool:
    """Return whether the kernels can use a weight of this shape and dtype in half precision."""
    return dtype in _HALVES and len(shape) == 2 and shape[1] % LANES == 0


def keep_halves(weight: Tensor) -> Packed:
    """Pack a weight [n, k] in its half precision; it must satisfy `fits_halves`."""
    return Packed(_HALVES[weight.dtype], weight.shape[0], weight.shape[1], weight.contiguous(), torch.empty(0))


def narrow(weight: Tensor) -> Packed | None:
    """Pack a weight [n, k] float32 in half precision if that loses nothing; else return None."""
    for kind in _HALVES:
        if fits_halves(tuple(weight.shape), kind) and (made := _narrowed(weight, kind)) is not None:
            return keep_halves(made)
    return None


def _narrowed(weight: Tensor, kind: torch.dtype) -> Tensor | None:
    made = torch.empty(weight.shape, dtype=kind)
    for rows, room in zip(weight.split(4096), made.split(4096), strict=True):
        if not torch.equal(room.copy_(rows).float(), rows):
            return None
    return made


def head_form(form: int, k: int) -> int:
    """Return the form of a head with `k` inputs in a model that is rounded to `form`: it affects every token, so it
    keeps more bits than 4, and 6 take fewer bytes than 8."""
    return Q6_K if form == Q4_0 and fits_six(k) else EIGHT


def pack(weight: Tensor, form: int) -> Packed:
    """Round `weight` [n, k] float32 to `form` (EIGHT, Q4_0 or Q6_K)."""
    return pack_runs([(0, weight)], weight.shape[0], weight.shape[1], form)


def pack_runs(runs: Iterable[tuple[int, Tensor]], n: int, k: int, form: int) -> Packed:
    """Round a weight [n, k] given as (first row, rows) in order. Rows are rounded independently."""
    if form == EIGHT:
        data, scales = torch.empty(n, padded(k), dtype=torch.uint8), torch.empty(n)
        for first, rows in runs:
            data[first : first + len(rows)], scales[first : first + len(rows)] = _pack8(rows)
        return Packed(form, n, k, data, scales)
    data, scales = empty_blocks(form, n, k)
    for first, rows in _whole_panels(runs):
        for at, some in zip(range(first, n, _ROWS), rows.split(_ROWS), strict=False):
            fill_numbers(form, data, scales, at, ROUNDED[form](some))
    return Packed(form, n, k, data, scales)


def keep_blocks(runs: Iterable[tuple[int, Tensor]], n: int, k: int, form: int) -> Packed:
    """Pack a weight [n, k] given as GGUF blocks in order: (first row, uint8 [rows, bytes of a row])."""
    data, scales = empty_blocks(form, n, k)
    fill_blocks(form, k, data, scales, _whole_panels(runs))
    return Packed(form, n, k, data, scales)


def _whole_panels(runs: Iterable[tuple[int, Tensor]]) -> Iterator[tuple[int, Tensor]]:
    """Regroup `runs` so that each but the last has a multiple of BLOCK_OUTPUTS rows."""
    first, kept = 0, None
    for _, some in runs:
        rows = some if kept is None else torch.cat([kept, some])
        whole = len(rows) // BLOCK_OUTPUTS * BLOCK_OUTPUTS
        if whole:
            yield first, rows[:whole]
        first, kept = first + whole, rows[whole:] if whole < len(rows) else None
    if kept is not None:
        yield first, kept


def unpack(packed: Packed, rows: slice | Tensor = slice(None)) -> Tensor:
    """Return the given rows of a packed weight [n, k] in float32."""
    if packed.form in (BF16, F16):
        return packed.data[rows].float()
    if packed.form in BLOCK_FORMS:
        return widen_blocks(packed.form, packed.n, packed.k, packed.data, packed.scales, rows)
    numbers: Tensor = packed.data[rows][..., : packed.k].float() - 128
    return numbers * packed.scales[rows][..., None]


def fits_four(scales: Tensor, group: int) -> bool:
    """Return whether the 4-bit form can represent float32 `scales` for groups of `group` inputs: if they divide into
    its own groups, and are numbers of float16."""
    is_exact = torch.equal(scales.half().float(), scales)
    return group > 0 and group % BLOCK_FORMS[Q4_0].group == 0 and is_exact


def pack_codes(codes: Tensor, scales: Tensor, group: int) -> Packed:
    """Pack a weight that is rounded already: (`codes` - 8) * scale, codes uint8 [n, k] below 16, `scales` float32 [n, k
    / group]; `fits_four(scales, group)`. Nothing is rounded again."""
    n, k = codes.shape
    data, units = empty_blocks(Q4_0, n, k)
    each = scales.half().repeat_interleave(group // BLOCK_FORMS[Q4_0].group, 1)
    fill_numbers(Q4_0, data, units, 0, numbers_of_four(codes, each))
    return Packed(Q4_0, n, k, data, units)


def _pack8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Pack `weight` [n, k] with a scale for each output; the largest weight becomes 127."""
    scales = (weight.abs().amax(1) / 127).clamp_min(NOTHING)
    data = torch.full((len(weight), padded(weight.shape[1])), 128, dtype=torch.uint8)
    data[:, : weight.shape[1]] = (weight / scales[:, None]).round_().add_(128).to(torch.uint8)
    return data, scales.contiguous()


__all__ = [
    "EIGHT",
    "HALF_NAMES",
    "Q4_0",
    "Packed",
    "fits_four",
    "fits_halves",
    "keep_blocks",
    "keep_halves",
    "narrow",
    "pack",
    "pack_codes",
    "pack_runs",
    "unpack",
]
