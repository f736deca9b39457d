"""Rewrite blocks that no kernel reads as blocks of a wider form with the same numbers.

ggml's blocks (little endian), and what holds each of their numbers and scales bit for bit:

    Q5_0     32 inputs: float16 d, 32 fifth bits, 16 bytes of halves; d * (code - 16)        Q8_0
    IQ4_NL   32 inputs: float16 d, 16 bytes of halves; d * a table's whole number            Q8_0
    Q3_K    256 inputs: 32 bytes of third bits, 64 bytes of two bits, 16 scales of 6 bits,
            float16 d; d * (scale - 32) * (code - 4) for each 16 inputs                      Q6_K

llama.cpp writes Q5_0 and IQ4_NL in place of Q4_K where the width of a matrix is no multiple of 256.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

_NONLINEAR = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
"""The numbers of IQ4_NL by code."""
_SIZES = {"Q5_0": 22, "IQ4_NL": 18, "Q3_K": 110}
"""Bytes of a block."""


def equal_form(kind: str) -> str:
    """Return the form with kernels that holds the numbers of blocks of `kind`; `kind` where there is no other."""
    return _FORMS.get(kind, (kind,))[0]


def as_equal(kind: str, rows: Tensor) -> Tensor:
    """Rewrite `rows` uint8 [n, bytes of a row] of blocks of `kind` in the form that `equal_form` names."""
    if kind not in _FORMS:
        return rows
    blocks = rows.reshape(len(rows), -1, _SIZES[kind])
    return _FORMS[kind][1](blocks).flatten(1)


def _five_bits(blocks: Tensor) -> Tensor:
    fifth = blocks[..., 2:6, None] >> torch.arange(8, dtype=torch.uint8) & 1
    codes = _nibbles(blocks[..., 6:]) | fifth.flatten(-2) << 4
    return torch.cat([blocks[..., :2], codes - 16], -1)  # as a signed byte


def _nonlinear(blocks: Tensor) -> Tensor:
    table = torch.tensor(_NONLINEAR, dtype=torch.int8).view(torch.uint8)
    return torch.cat([blocks[..., :2], table[_nibbles(blocks[..., 2:]).int()]], -1)


def _nibbles(halves: Tensor) -> Tensor:
    return torch.cat([halves & 15, halves >> 4], -1)


def _three_bits(blocks: Tensor) -> Tensor:
    third, twos, packed = blocks[..., None, :32], blocks[..., 32:96].unflatten(-1, (2, 1, 32)), blocks[..., 96:108]
    eighths = torch.arange(8, dtype=torch.uint8)[:, None]
    low = (twos >> 2 * eighths[:4] & 3).flatten(-3, -2)  # [n, blocks, eighths of 32 inputs, 32]
    codes = (low | (third >> eighths & 1) << 2) + 28  # less 32 what less 4 they were
    return torch.cat([_six_bits(codes), _small_scales(packed), blocks[..., 108:]], -1)


def _six_bits(codes: Tensor) -> Tensor:
    """Pack codes [n, blocks, 8, 32] of 6 bits as Q6_K has them: low halves, then upper bits of four codes a byte."""
    quarters = codes.unflatten(-2, (2, 4))
    low = quarters & 15
    upper = quarters >> 4
    both = upper[..., 0, :] | upper[..., 1, :] << 2 | upper[..., 2, :] << 4 | upper[..., 3, :] << 6
    return torch.cat([(low[..., :2, :] | low[..., 2:, :] << 4).flatten(-3), both.flatten(-2)], -1)


def _small_scales(packed: Tensor) -> Tensor:
    """Unpack 16 scales of 6 bits, less 32, to signed bytes."""
    twos = torch.arange(4, dtype=torch.uint8)[:, None] * 2
    upper = (packed[..., None, 8:] >> twos & 3).flatten(-2)
    return (_nibbles(packed[..., :8]) | upper << 4) - 32


_FORMS: Mapping[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "Q5_0": ("Q8_0", _five_bits),
    "IQ4_NL": ("Q8_0", _nonlinear),
    "Q3_K": ("Q6_K", _three_bits),
}
EQUAL_FORMS = tuple(_FORMS)
