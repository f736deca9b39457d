"""Keep weights in 8 or 4 bits on a CUDA device, in place of torch's own layers, for any architecture."""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor, nn

from sluicegate.engine.cuda.kernels.weight import multiply_small
from sluicegate.engine.settings import WeightsKind

GROUP = 128
"""4-bit weights that share a scale."""
_SHRINKS = (1.0, 0.95, 0.9, 0.85)
"""Fractions of a group's largest weight that are tried as its scale; the one with the least squared error is kept."""


class CudaSmallLinear(nn.Module):
    """`nn.Linear` with rounded weights; in and out in the model's dtype. `data` and `scales` are described in
    `engine.cuda.kernels.weight`."""

    data: Tensor
    scales: Tensor

    def __init__(self, weight: Tensor, bias: Tensor | None, kind: WeightsKind) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.group = GROUP if kind == "int4" else 0
        data, scales = _round(weight, kind)
        self.register_buffer("data", data)
        self.register_buffer("scales", scales)
        self.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)
        self._dtype = weight.dtype

    @classmethod
    def of(cls, data: Tensor, scales: Tensor, bias: Tensor | None, like: CudaSmallLinear) -> CudaSmallLinear:
        """Return a layer with `data` and `scales` already rounded, in the format of `like`."""
        made = cls.__new__(cls)
        nn.Module.__init__(made)
        made.out_features, made.in_features, made.group = len(data), like.in_features, like.group
        made.register_buffer("data", data)
        made.register_buffer("scales", scales)
        made.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)
        made._dtype = like._dtype
        return made

    @property
    def weight(self) -> Tensor:
        """Return the dequantised weight, computed anew at each access; for inspection."""
        if not self.group:
            return (self.data.float() * self.scales[:, None]).to(self._dtype)
        halves = self.data.view(self.out_features, -1, self.group // 2)
        whole = torch.cat([halves & 15, halves >> 4], -1).float() - 8  # [out, groups, GROUP]
        return (whole * self.scales[:, :, None]).view(self.out_features, self.in_features).to(self._dtype)

    @property
    def rounded_count(self) -> int:
        """Return the number of rounded weights."""
        return self.out_features * self.in_features

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, self.in_features)
        rows = rows if rows.stride(-1) == 1 else rows.contiguous()
        out = rows.new_empty(len(rows), self.out_features)
        few = len(rows) <= 16
        tile = (16, 32) if few else (64, 64)
        grid = (triton.cdiv(self.out_features, tile[1]), triton.cdiv(len(rows), tile[0]))
        multiply_small[grid](
            rows, self.data, self.scales, out, len(rows), self.out_features, self.in_features, rows.stride(0),
            ROWS=tile[0], COLUMNS=tile[1], STEP=256 if few else 64, GROUP=self.group,
            WIDEN=x.dtype == torch.float32 or x.device.type == "cpu", num_warps=4, num_stages=4,
        )  # fmt: skip
        if self.bias is not None:
            out += self.bias
        return out.view(*x.shape[:-1], self.out_features)


def refusal(kind: WeightsKind, device: torch.device, dtype: torch.dtype) -> str:
    """Return why this device or dtype does not support rounded weights of that kind; '' if it does."""
    if device.type != "cuda":
        return f"weights = {kind!r} needs a CUDA device"
    if dtype not in (torch.bfloat16, torch.float16):
        return f"weights = {kind!r} on a CUDA device is for bfloat16 and float16, not {dtype}"
    capability = torch.cuda.get_device_capability(device)
    return refusal_of_capability(kind, capability)


def refusal_of_capability(kind: WeightsKind, capability: tuple[int, int]) -> str:
    if kind == "fp8" and capability < (8, 9):
        return f"fp8 needs a device of compute capability 8.9, this one has {capability[0]}.{capability[1]}"
    return ""


def shrink(module: Any, kind: WeightsKind) -> None:
    """Round the weights of every `nn.Linear` of a decoder, in place.

    The head gets at least 8 bits, since it affects every token; so do layers whose inputs do not divide into groups.
    Embeddings stay: a step reads only a few of their rows.
    """
    head = module.get_output_embeddings()
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear:
                whole = child is head or child.in_features % GROUP != 0
                bias = None if child.bias is None else child.bias.detach()
                own: WeightsKind = "int8" if kind == "int4" and whole else kind
                setattr(parent, name, CudaSmallLinear(child.weight.detach(), bias, own))


def _round(weight: Tensor, kind: WeightsKind) -> tuple[Tensor, Tensor]:
    if kind == "int4":
        return _round_groups(weight)
    largest = 127.0 if kind == "int8" else torch.finfo(torch.float8_e4m3fn).max
    scales = weight.abs().amax(1).float().clamp_min(1e-30) / largest
    units = weight.float() / scales[:, None]
    return (units.round().to(torch.int8) if kind == "int8" else units.to(torch.float8_e4m3fn)), scales


def _round_groups(weight: Tensor) -> tuple[Tensor, Tensor]:
    groups = weight.float().view(len(weight), -1, GROUP)
    largest = groups.abs().amax(-1).clamp_min(1e-30)  # [out, groups]
    best, scales = torch.full_like(largest, float("inf")), largest.clone()
    for shrunk in _SHRINKS:
        tried = shrunk * largest / 7
        error = (_units(groups, tried) * tried[..., None] - groups).square().sum(-1)
        scales, best = torch.where(error < best, tried, scales), torch.minimum(error, best)
    units = (_units(groups, scales) + 8).to(torch.uint8)
    low, high = units[..., : GROUP // 2], units[..., GROUP // 2 :]
    return (low | high << 4).flatten(1), scales


def _units(groups: Tensor, scales: Tensor) -> Tensor:
    return (groups / scales[..., None]).round().clamp(-8, 7)
