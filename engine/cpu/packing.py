"""Pack weights for the CPU kernels: rounded to 8 or 4 bits, or as stored in GGUF blocks or half precision; and unpack
them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from sluicegate.engine.cpu.block_packing import BLOCK_NAMES, empty_blocks, fill_blocks, half_scales, widen_blocks
from sluicegate.engine.cpu.kernels.block_products import BLOCK_FORMS, BLOCK_OUTPUTS
from sluicegate.engine.cpu.kernels.machine import LANES
from sluicegate.engine.cpu.kernels.panel_products import OUTPUTS
from sluicegate.engine.cpu.kernels.products import BF16, F16
from sluicegate.engine.cpu.kernels.small_products import EIGHT, FOUR, GROUP4, padded


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A weight [n, k]. In 8 bits, `data` is uint8 [n, padded k] and `scales` float32 [n]. In 4 bits they are in panels
    of OUTPUTS rows: uint8 [panels, padded k / 16, OUTPUTS, 8] as `kernels.panel_products` reads them, and float32
    [panels, padded k / GROUP4, OUTPUTS]; what is missing of the last panel is 0. In blocks they are as
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


def pack(weight: Tensor, form: int) -> Packed:
    """Round `weight` [n, k] float32 to `form` (EIGHT or FOUR)."""
    made = _pack8(weight) if form == EIGHT else _in_panels(*_round4(weight))
    return Packed(form, weight.shape[0], weight.shape[1], *made)


def pack_runs(runs: Iterable[tuple[int, Tensor]], n: int, k: int, form: int) -> Packed:
    """Round a weight [n, k] given as (first row, rows) in order. Rows are rounded independently."""
    if form == EIGHT:
        data, scales, each = torch.empty(n, padded(k), dtype=torch.uint8), torch.empty(n), 1
    else:
        panels, each = -(-n // OUTPUTS), OUTPUTS
        data = torch.empty(panels, padded(k) // 16, OUTPUTS, 8, dtype=torch.uint8)
        scales = torch.empty(panels, padded(k) // GROUP4, OUTPUTS)
    for first, rows in _whole_panels(runs, each):
        some, begin = pack(rows, form), first // each
        data[begin : begin + len(some.data)], scales[begin : begin + len(some.data)] = some.data, some.scales
    return Packed(form, n, k, data, scales)


def keep_blocks(runs: Iterable[tuple[int, Tensor]], n: int, k: int, form: int) -> Packed:
    """Pack a weight [n, k] given as GGUF blocks in order: (first row, uint8 [rows, bytes of a row])."""
    data, scales = empty_blocks(form, n, k)
    fill_blocks(form, k, data, scales, _whole_panels(runs, BLOCK_OUTPUTS))
    return Packed(form, n, k, data, scales)


def _whole_panels(runs: Iterable[tuple[int, Tensor]], each: int) -> Iterator[tuple[int, Tensor]]:
    """Regroup `runs` so that each but the last has a multiple of `each` rows."""
    first, kept = 0, None
    for _, some in runs:
        rows = some if kept is None else torch.cat([kept, some])
        whole = len(rows) // each * each
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
    if packed.form == EIGHT:
        numbers: Tensor = packed.data[rows][..., : packed.k].float() - 128
        return numbers * packed.scales[rows][..., None]
    halves = torch.stack([packed.data & 15, packed.data >> 4], 3)  # [panels, runs, outputs, 2, 8]
    codes = halves.transpose(1, 2).flatten(0, 1).flatten(1)[: packed.n][rows].float() - 8
    scales = packed.scales.transpose(1, 2).flatten(0, 1)[: packed.n][rows]
    groups: Tensor = codes.unflatten(-1, (-1, GROUP4)) * scales[..., None]
    return groups.flatten(-2)[..., : packed.k]


def fits_four(group: int) -> bool:
    """Return whether the 4-bit format can represent scales for groups of `group` inputs: if they divide into its own
    groups."""
    return group > 0 and group % GROUP4 == 0


def pack_codes(codes: Tensor, scales: Tensor, group: int) -> Packed:
    """Pack a weight that is rounded already: (`codes` - 8) * scale, codes uint8 [n, k] below 16, `scales` float32 [n, k
    / group]; `fits_four(group)`. Nothing is rounded again."""
    n, k = codes.shape
    numbers = torch.nn.functional.pad(codes, (0, padded(k) - k), value=8)
    kept = torch.zeros(n, padded(k) // GROUP4)
    kept[:, : k // GROUP4] = scales.repeat_interleave(group // GROUP4, 1)
    return Packed(FOUR, n, k, *_in_panels(numbers, kept))


def _in_panels(codes: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
    """Arrange codes [n, padded k] below 16 and scales [n, padded k / GROUP4] in panels, as `Packed` describes."""
    missing = -len(codes) % OUTPUTS
    rows = torch.nn.functional.pad(codes, (0, 0, 0, missing)).unflatten(0, (-1, OUTPUTS))
    runs = rows.unflatten(2, (-1, 2, 8)).transpose(1, 2)  # [panels, runs, outputs, 2, 8]
    data = runs[:, :, :, 0] | runs[:, :, :, 1] << 4
    units = torch.nn.functional.pad(scales, (0, 0, 0, missing)).unflatten(0, (-1, OUTPUTS)).transpose(1, 2)
    return data.contiguous(), units.contiguous()


def _pack8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Pack `weight` [n, k] with a scale for each output; the largest weight becomes 127."""
    scales = (weight.abs().amax(1) / 127).clamp_min(NOTHING)
    data = torch.full((len(weight), padded(weight.shape[1])), 128, dtype=torch.uint8)
    data[:, : weight.shape[1]] = (weight / scales[:, None]).round_().add_(128).to(torch.uint8)
    return data, scales.contiguous()


def _round4(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Round `weight` [n, k]; return codes uint8 [n, padded k] and scales [n, padded k / GROUP4]. For each group the
    scale with the least squared error of four is used: it may clip the largest weight."""
    n, k = weight.shape
    groups = torch.nn.functional.pad(weight, (0, padded(k) - k)).unflatten(1, (-1, GROUP4))
    largest = groups.gather(2, groups.abs().argmax(2, keepdim=True)).squeeze(2)
    largest = torch.where(largest == 0, torch.full_like(largest, 1e-30), largest)
    best, scales = torch.full_like(largest, torch.inf), torch.empty_like(largest)
    for share in (1.0, 0.93, 0.86, 0.79):
        scale = largest * (share / -8)
        error = (groups - _rounded(groups, scale).sub_(8).mul_(scale[..., None])).square_().sum(2)
        better = error < best
        best, scales = torch.where(better, error, best), torch.where(better, scale, scales)
    return _rounded(groups, scales).to(torch.uint8).view(n, -1), scales


def _rounded(groups: Tensor, scales: Tensor) -> Tensor:
    numbers: Tensor = (groups / scales[..., None]).round_().add_(8).clamp_(0, 15)
    return numbers


__all__ = [
    "EIGHT",
    "FOUR",
    "HALF_NAMES",
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
