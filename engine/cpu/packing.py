"""Round weights to 8 and 4 bits, and widen them again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from sluicegate.engine.cpu.kernels.small_products import EIGHT, FOUR, GROUP4, padded


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A weight [n, k]. `data` is uint8 [n, padded k] (8 bits) or [n, padded k / 2] (4 bits); `scales` float32 [n] or
    [n, padded k / GROUP4]."""

    form: int
    n: int
    k: int
    data: Tensor
    scales: Tensor

    @property
    def nbytes(self) -> int:
        return self.data.nbytes + self.scales.nbytes


def pack(weight: Tensor, form: int) -> Packed:
    """Round `weight` [n, k] float32 to `form` (EIGHT or FOUR)."""
    made = _pack8(weight) if form == EIGHT else _pack4(weight)
    return Packed(form, weight.shape[0], weight.shape[1], *made)


def pack_runs(runs: Iterable[tuple[int, Tensor]], n: int, k: int, form: int) -> Packed:
    """Round a weight [n, k] that comes in runs of rows, as (first row, rows): a row is rounded by itself."""
    wide, groups = (padded(k), ()) if form == EIGHT else (padded(k) // 2, (padded(k) // GROUP4,))
    data, scales = torch.empty(n, wide, dtype=torch.uint8), torch.empty(n, *groups)
    for first, rows in runs:
        some = pack(rows, form)
        data[first : first + len(rows)], scales[first : first + len(rows)] = some.data, some.scales
    return Packed(form, n, k, data, scales)


def unpack(packed: Packed, rows: slice | Tensor = slice(None)) -> Tensor:
    """Return the weight [n, k] float32 of the rows of a packed weight."""
    data, scales = packed.data[rows], packed.scales[rows]
    if packed.form == EIGHT:
        numbers: Tensor = data[..., : packed.k].float() - 128
        return numbers * scales[..., None]
    runs = data.unflatten(-1, (-1, 64))
    numbers = torch.stack([runs & 15, runs >> 4], -2).flatten(-3).float() - 8
    groups: Tensor = numbers.unflatten(-1, (-1, GROUP4)) * scales[..., None]
    return groups.flatten(-2)[..., : packed.k]


def fits_four(group: int) -> bool:
    """Whether scales for so many inputs each can be kept in 4 bits: as several of ours with the same scale."""
    return group > 0 and group % GROUP4 == 0


def pack_codes(codes: Tensor, scales: Tensor, group: int) -> Packed:
    """Pack a weight that is rounded already: (`codes` - 8) * scale, codes uint8 [n, k] below 16, `scales` float32 [n, k
    / group]; `fits_four(group)`. Nothing is rounded again."""
    n, k = codes.shape
    numbers = torch.nn.functional.pad(codes, (0, padded(k) - k), value=8)
    kept = torch.zeros(n, padded(k) // GROUP4)
    kept[:, : k // GROUP4] = scales.repeat_interleave(group // GROUP4, 1)
    return Packed(FOUR, n, k, _by_halves(numbers), kept)


def _by_halves(numbers: Tensor) -> Tensor:
    """Pack codes [n, padded k] below 16, two in a byte."""
    runs = numbers.view(len(numbers), -1, 2, 64)
    return (runs[:, :, 0] | runs[:, :, 1] << 4).flatten(1).contiguous()


def _pack8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Pack `weight` [n, k] with a scale for each output; the largest weight becomes 127."""
    scales = (weight.abs().amax(1) / 127).clamp_min(1e-30)
    data = torch.full((len(weight), padded(weight.shape[1])), 128, dtype=torch.uint8)
    data[:, : weight.shape[1]] = (weight / scales[:, None]).round_().add_(128).to(torch.uint8)
    return data, scales.contiguous()


def _pack4(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Pack `weight` [n, k] with a scale for each group of inputs, of those tried the one with the least squared error:
    the end of the range need not be the largest weight."""
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
    return _by_halves(_rounded(groups, scales).to(torch.uint8).view(n, -1)), scales.contiguous()


def _rounded(groups: Tensor, scales: Tensor) -> Tensor:
    numbers: Tensor = (groups / scales[..., None]).round_().add_(8).clamp_(0, 15)
    return numbers


__all__ = ["EIGHT", "FOUR", "Packed", "fits_four", "pack", "pack_codes", "pack_runs", "unpack"]
