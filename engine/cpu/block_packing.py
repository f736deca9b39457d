"""Arrange the blocks of GGUF files in the panels that the kernels read, and widen them again.

ggml's blocks, of one row of a weight each (little endian):

    Q8_0   32 inputs: float16 d, 32 signed bytes
    Q4_0   32 inputs: float16 d, 16 bytes; inputs 0 to 15 in their low halves, 16 to 31 in the high ones
    Q4_K  256 inputs: float16 d and dmin, 12 bytes with eight scales and eight minima of 6 bits, 128 bytes; each 32 of
          them hold 32 inputs in their low halves and the next 32 in the high ones
    Q6_K  256 inputs: 128 bytes with the low four bits, 64 with the upper two, 16 scales as signed bytes, float16 d
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from sluicegate.engine.cpu.kernels.block_products import BLOCK_FORMS, BLOCK_OUTPUTS
from sluicegate.engine.cpu.kernels.small_products import Q4_0, Q4_K, Q6_K, Q8_0, padded

BLOCK_NAMES = {"Q8_0": Q8_0, "Q4_0": Q4_0, "Q4_K": Q4_K, "Q6_K": Q6_K}
"""The stored forms, by ggml's names."""
_BLOCKS = {Q8_0: (32, 34), Q4_0: (32, 18), Q4_K: (256, 144), Q6_K: (256, 210)}
"""Form -> inputs per block, bytes per block."""


class BlockNumbers(NamedTuple):
    """The numbers of some rows of a weight [n, k] in blocks."""

    codes: Tensor
    """uint8 [n, padded k], without the form's offset."""
    scales: Tensor
    """uint8 [n, runs, bytes per output]: for each run d, then dmin, sc and m where the form has them."""


def inputs_of(form: int, row_bytes: int) -> int:
    """Return the number of inputs in a row of this many bytes."""
    each, size = _BLOCKS[form]
    return row_bytes // size * each


def empty_blocks(form: int, n: int, k: int) -> tuple[Tensor, Tensor]:
    """Return room for a weight [n, k]: data uint8 [panels, groups, registers, 16, 4], scales uint8 [panels, runs, bytes
    of an output, 16]. (Of two-byte numbers the two bytes of all outputs do not lie apart: see `_scale_panels`.)"""
    kind, panels = BLOCK_FORMS[form], -(-n // BLOCK_OUTPUTS)
    data = torch.empty(panels, padded(k) // kind.group, kind.registers, BLOCK_OUTPUTS, 4, dtype=torch.uint8)
    return data, torch.empty(panels, padded(k) // kind.run, kind.scale_bytes, dtype=torch.uint8)


def fill_blocks(form: int, k: int, data: Tensor, scales: Tensor, runs: Iterable[tuple[int, Tensor]]) -> None:
    """Arrange rows of blocks (first row, uint8 [rows, bytes of a row]) in the panels; all but the last run are whole
    panels."""
    for first, rows in runs:
        fill_numbers(form, data, scales, first, take_apart(form, rows, k))


def fill_numbers(form: int, data: Tensor, scales: Tensor, first: int, numbers: BlockNumbers) -> None:
    """Arrange some rows in the panels, from row `first` on, with which a panel begins."""
    begin, count = first // BLOCK_OUTPUTS, -(-len(numbers.codes) // BLOCK_OUTPUTS)
    data[begin : begin + count] = _code_panels(form, numbers.codes)
    scales[begin : begin + count] = _scale_panels(form, numbers.scales)


def take_apart(form: int, rows: Tensor, k: int) -> BlockNumbers:
    """Unpack `rows` uint8 [n, bytes of a row]."""
    each, size = _BLOCKS[form]
    blocks = rows.reshape(len(rows), k // each, size)
    codes, scales = _TAKEN[form](blocks)
    more = padded(k) - k
    if more:  # 32 inputs share a scale, which is 0 there
        codes = torch.nn.functional.pad(codes.flatten(1), (0, more))
        scales = torch.nn.functional.pad(scales, (0, 0, 0, more // each))
    return BlockNumbers(codes.flatten(1), scales)


def _take_8_0(blocks: Tensor) -> tuple[Tensor, Tensor]:
    return blocks[..., 2:] ^ 128, blocks[..., :2]


def _take_4_0(blocks: Tensor) -> tuple[Tensor, Tensor]:
    halves = blocks[..., 2:]
    return torch.cat([halves & 15, halves >> 4], -1), blocks[..., :2]


def _take_4_k(blocks: Tensor) -> tuple[Tensor, Tensor]:
    packed = blocks[..., 4:16]
    low, middle, high = packed[..., :4], packed[..., 4:8], packed[..., 8:]
    scales = torch.cat([low & 63, high & 15 | low >> 6 << 4], -1)
    minima = torch.cat([middle & 63, high >> 4 | middle >> 6 << 4], -1)
    halves = blocks[..., 16:].unflatten(-1, (4, 32))
    codes = torch.stack([halves & 15, halves >> 4], -2).flatten(-3)
    return codes, torch.cat([blocks[..., :4], scales, minima], -1)


def _take_6_k(blocks: Tensor) -> tuple[Tensor, Tensor]:
    low, high = blocks[..., :128].unflatten(-1, (2, 2, 32)), blocks[..., 128:192].unflatten(-1, (2, 1, 32))
    nibbles = torch.cat([low & 15, low >> 4], -2)  # [n, blocks, sides, quarters, 32]
    upper = torch.cat([high >> 2 * quarter & 3 for quarter in range(4)], -2)
    codes = (nibbles | upper << 4).flatten(-3)
    return codes, torch.cat([blocks[..., 208:], blocks[..., 192:208]], -1)


_TAKEN = {Q8_0: _take_8_0, Q4_0: _take_4_0, Q4_K: _take_4_k, Q6_K: _take_6_k}


def _whole_panels(numbers: Tensor) -> Tensor:
    """Reshape [n, ...] to [panels, 16, ...]; the last panel is padded with 0."""
    missing = -len(numbers) % BLOCK_OUTPUTS
    if missing:
        numbers = torch.cat([numbers, numbers.new_zeros(missing, *numbers.shape[1:])])
    made: Tensor = numbers.unflatten(0, (-1, BLOCK_OUTPUTS))
    return made


def _code_panels(form: int, codes: Tensor) -> Tensor:
    group = BLOCK_FORMS[form].group
    whole = _whole_panels(codes).unflatten(2, (-1, group // 4, 4))
    fours: Tensor = whole.permute(0, 2, 3, 1, 4)  # [panels, groups, fours, 16, 4]
    if form == Q8_0:
        return fours
    low = (fours & 15).unflatten(2, (-1, 2))
    made: Tensor = low[:, :, :, 0] | low[:, :, :, 1] << 4
    if form != Q6_K:
        return made
    upper = fours >> 4
    both = upper[:, :, 0] | upper[:, :, 1] << 2 | upper[:, :, 2] << 4 | upper[:, :, 3] << 6
    return torch.cat([made, both[:, :, None]], 2)


def _scale_panels(form: int, scales: Tensor) -> Tensor:
    """Reshape [n, runs, bytes of an output] to [panels, runs, bytes of a panel]: float16 numbers beside each other,
    then bytes."""
    whole = _whole_panels(scales).transpose(1, 2)  # [panels, runs, 16, bytes]
    wide = 4 if form == Q4_K else 2
    halves = whole[..., :wide].unflatten(-1, (-1, 2)).transpose(2, 3).flatten(2)
    return torch.cat([halves, whole[..., wide:].transpose(2, 3).flatten(2)], -1)


def half_scales(form: int, scales: Tensor) -> Tensor:
    """Return the float16 scales of a weight in blocks, as one tensor."""
    wide = 2 if form == Q4_K else 1
    return scales[..., : 32 * wide].contiguous().view(torch.float16)


def widen_blocks(form: int, n: int, k: int, data: Tensor, scales: Tensor, rows: slice | Tensor) -> Tensor:
    """Dequantise rows of a weight [n, k] to float32, bit for bit as ggml does."""
    numbers = torch.arange(n)[rows]
    panels, lanes = numbers // BLOCK_OUTPUTS, numbers % BLOCK_OUTPUTS
    codes = _codes_of(form, data[panels, :, :, lanes])  # [..., groups, group]
    unit, least = _scales_of(form, scales[panels], lanes)
    found = (codes.float() - BLOCK_FORMS[form].offset) * unit[..., None]
    if least is not None:
        found -= least[..., None]
    return found.flatten(-2)[..., :k]


def _codes_of(form: int, registers: Tensor) -> Tensor:
    """Unpack registers [..., groups, registers, 4] to codes [..., groups, group]."""
    if form == Q8_0:
        return registers.flatten(-2)
    low = registers[..., :2, :] if form == Q6_K else registers
    codes = torch.stack([low & 15, low >> 4], -2).flatten(-3)
    if form != Q6_K:
        return codes
    upper = registers[..., 2, :]
    return codes | torch.cat([upper >> 2 * four & 3 for four in range(4)], -1) << 4


def _scales_of(form: int, scales: Tensor, lanes: Tensor) -> tuple[Tensor, Tensor | None]:
    """Unpack scales and minima [..., groups] of rows whose panels have `scales` [..., runs, bytes]."""
    kind = BLOCK_FORMS[form]
    groups, wide = kind.run // kind.group, 2 if form == Q4_K else 1
    halves = half_scales(form, scales).unflatten(-1, (wide, BLOCK_OUTPUTS)).float()
    places = lanes.reshape(*lanes.shape, 1, 1, 1)
    whole = halves.take_along_dim(places, -1)[..., 0]  # [..., runs, wide]
    if groups == 1:
        return whole[..., 0], None
    small = scales[..., 32 * wide :].unflatten(-1, (wide, groups, BLOCK_OUTPUTS))
    small = small if form == Q4_K else small.view(torch.int8)
    each = small.float().take_along_dim(places[..., None], -1)[..., 0]  # [..., runs, wide, groups]
    found = (whole[..., None] * each).unbind(-2)
    return found[0].flatten(-2), found[1].flatten(-2) if form == Q4_K else None
