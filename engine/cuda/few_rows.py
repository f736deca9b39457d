"""Launch products of few rows with whole weights, where they beat those of torch's libraries."""

from __future__ import annotations

import torch
from torch import Tensor

from sluicegate.engine.cuda.kernels.product import multiply_few

MOST_ROWS = 16
_COLUMNS, _STEP = 64, 128


def takes(x: Tensor, weight: Tensor, *, gated: bool = False) -> bool:
    """Return whether the kernel computes `x` [T, i] times the transpose of `weight` [o, i]: few rows in half precision,
    and sizes that its tiles divide."""
    columns, width = weight.shape
    columns = columns // 2 if gated else columns
    return (
        len(x) <= MOST_ROWS
        and x.dtype in (torch.bfloat16, torch.float16)
        and columns % _COLUMNS == 0
        and width % _STEP == 0
        and x.stride(-1) == 1
    )


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x @ weight.T + bias [T, o]; `takes` must be true for the arguments."""
    return _multiplied(x, weight, bias, len(weight), gated=False)


def gated_product(x: Tensor, weight: Tensor) -> Tensor:
    """Return silu(gate) * up [T, n] of `weight` [2 n, i], gates first; `takes` must be true for the arguments."""
    return _multiplied(x, weight, None, len(weight) // 2, gated=True)


def _multiplied(x: Tensor, weight: Tensor, bias: Tensor | None, columns: int, *, gated: bool) -> Tensor:
    out = x.new_empty(len(x), columns)
    # Measured on an H200 with the shapes of Llama-3-8B: as many stages as shared memory holds.
    multiply_few[(columns // _COLUMNS,)](
        x, weight, weight if bias is None else bias, out, len(x), columns, x.shape[1], x.stride(0),
        ROWS=MOST_ROWS, COLUMNS=_COLUMNS, STEP=_STEP, STAGES=4 if gated else 6,
        GATED=gated, BIASED=bias is not None, WIDEN=x.device.type == "cpu", num_warps=4,
    )  # fmt: skip
    return out
