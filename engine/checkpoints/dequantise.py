"""Dequantise the weights of quantised checkpoints to float32.

FP8 and INT8: number times scale, one for a tensor, a row, a group of inputs or a block. NF4 and FP4 (Dettmers et al.,
"QLoRA", 2023): a table of 16 numbers times the largest of 64 weights, itself in 8 bits perhaps. MXFP4 (OCP Microscaling
Formats, 2023): e2m1 numbers times a power of two for each 32.
"""

from __future__ import annotations

import torch
from torch import Tensor

_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def spread(scale: Tensor, shape: tuple[int, ...], block: tuple[int, int] | None) -> Tensor:
    """Expand `scale` so that it multiplies with numbers of `shape`. Raises `ValueError` if it does not fit.

    `block`: rows and columns that share a scale; None = derived from both shapes, where these divide evenly.
    """
    if scale.numel() == 1:
        return scale.reshape(())
    if scale.dim() == 1 and len(shape) > 1 and len(scale) == shape[-2]:
        scale = scale[:, None]
    if scale.dim() != len(shape) or scale.shape[:-2] != shape[:-2]:
        raise ValueError(f"scales of shape {list(scale.shape)} do not belong to {list(shape)} numbers")
    if scale.shape[-2] == 1 < shape[-2] and scale.shape[-1] == shape[-1]:
        raise ValueError(f"scales of shape {list(scale.shape)} are one for each input of {list(shape)} numbers")
    for dim, side in ((-2, 0), (-1, 1)):
        size, count = shape[dim], scale.shape[dim]
        each = block[side] if block is not None and count not in (1, size) else -(-size // count)
        if -(-size // each) != count or (block is None and size % count):  # how many share one is known, or even
            raise ValueError(f"scales of shape {list(scale.shape)} do not belong to {list(shape)} numbers")
        scale = scale.repeat_interleave(each, dim).narrow(dim, 0, size) if count > 1 else scale
    return scale


def unpack_words(words: Tensor, bits: int, dim: int, size: int) -> Tensor:
    """Unpack int32 to int16 numbers of so many bits below 2 ** bits, the first in the lowest, along `dim` (0 or 1), the
    first `size` of them."""
    shifts = torch.arange(0, 32 // bits * bits, bits, dtype=torch.int32)
    shape = (1, -1, 1) if dim == 0 else (1, 1, -1)
    numbers = (words.unsqueeze(dim + 1) >> shifts.view(shape)) & (1 << bits) - 1
    return numbers.to(torch.int16).flatten(dim, dim + 1).narrow(dim, 0, size)


def by_table(codes: Tensor, table: Tensor, scales: Tensor, each: int, shape: tuple[int, ...]) -> Tensor:
    """Return numbers of `shape`: `table` [16] at two codes a byte, the first in the upper half, times the scale of each
    run of `each`."""
    flat = codes.flatten()
    numbers = table.float()[torch.stack([flat >> 4, flat & 15], 1).flatten().long()]
    whole = numbers * scales.float().repeat_interleave(each)[: len(numbers)]
    return whole[: torch.Size(shape).numel()].view(shape)


def mxfp4(blocks: Tensor, scales: Tensor) -> Tensor:
    """Dequantise `blocks` uint8 [..., groups, 16] to float32 [..., 32 * groups]. The first number is in a byte's lower
    half; `scales` uint8 [..., groups] are exponents plus 127."""
    table = torch.tensor([*_E2M1, *(-x for x in _E2M1)])
    numbers = table[torch.stack([blocks & 15, blocks >> 4], -1).flatten(-2).long()]  # [..., groups, 32]
    powers = torch.ldexp(torch.ones(scales.shape), scales.to(torch.int32) - 127)
    return (numbers * powers[..., None]).flatten(-2)
