"""Writes weights as other programs quantise them, by the definition of their formats: one number after another."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.engine.packing import words
from tests.engine.tiny_models import byte_tokenizer, save_tiny

Parts = dict[str, Tensor]
Written = tuple[Parts, Tensor]
"""(tensors by the end of their name, what they stand for)."""
SHAPE: dict[str, Any] = {"hidden_size": 128, "intermediate_size": 192, "head_dim": 32, "initializer_range": 0.1}
NF4 = (-1.0, -0.6961928, -0.5250731, -0.3949175, -0.2844414, -0.1847734, -0.0910500, 0.0,
       0.0795803, 0.1609302, 0.2461123, 0.3379152, 0.4407098, 0.5626170, 0.7229568, 1.0)  # fmt: skip
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def fp8_blocks(weight: Tensor, side: int = 48, end: str = "weight_scale_inv") -> Written:
    """Write DeepSeek's format: a scale for each block of `side` by `side`, those at the edges smaller."""
    n, k = weight.shape
    scales, kept = torch.zeros(-(-n // side), -(-k // side)), torch.zeros(n, k)
    whole = torch.zeros(n, k)
    for i in range(len(scales)):
        for j in range(scales.shape[1]):
            rows, columns = slice(i * side, (i + 1) * side), slice(j * side, (j + 1) * side)
            scales[i, j] = weight[rows, columns].abs().max() / 448
            kept[rows, columns] = (weight[rows, columns] / scales[i, j]).to(torch.float8_e4m3fn).float()
            whole[rows, columns] = kept[rows, columns] * scales[i, j]
    return {"weight": kept.to(torch.float8_e4m3fn), end: scales}, whole


def fp8_tensor(weight: Tensor) -> Written:
    scale = weight.abs().max() / 448
    kept = (weight / scale).to(torch.float8_e4m3fn)
    parts = {"weight": kept, "weight_scale": scale.clone(), "input_scale": torch.tensor(0.5)}
    return parts, kept.float() * scale


def fp8_rows(weight: Tensor) -> Written:
    scale = (weight.abs().amax(1, keepdim=True) / 448).bfloat16()
    kept = (weight / scale.float()).to(torch.float8_e4m3fn)
    return {"weight": kept, "weight_scale": scale}, kept.float() * scale.float()


def int8_rows(weight: Tensor) -> Written:
    scale = weight.abs().amax(1, keepdim=True) / 127
    kept = (weight / scale).round().to(torch.int8)
    return {"weight": kept, "weight_scale": scale}, kept.float() * scale


def int8_zeros(weight: Tensor) -> Written:
    low, high = weight.amin(1, keepdim=True), weight.amax(1, keepdim=True)
    scale = (high - low) / 255
    zero = (-128 - low / scale).round().clamp(-128, 127).to(torch.int8)
    kept = (weight / scale + zero.float()).round().clamp(-128, 127).to(torch.int8)
    return {"weight": kept, "weight_scale": scale, "weight_zero_point": zero}, (kept.float() - zero.float()) * scale


def packed_four(weight: Tensor, group: int = 32, zeros: bool = False, shuffled: bool = False) -> Written:
    """Write compressed-tensors' W4A16: numbers from -8 to 7, kept 8 higher, 8 in an int32."""
    n, k = weight.shape
    order = torch.arange(k) // group
    if shuffled:
        order = order[torch.randperm(k, generator=torch.Generator().manual_seed(1))]
    codes, scales, shifts = torch.zeros(n, k), torch.zeros(n, k // group), torch.zeros(n, k // group)
    for g in range(k // group):
        mine = weight[:, order == g]
        if zeros:
            low, high = mine.amin(1).clamp_max(0), mine.amax(1).clamp_min(0)
            scales[:, g] = ((high - low) / 15).clamp_min(1e-6)
            shifts[:, g] = (-8 - low / scales[:, g]).round().clamp(-8, 7)
        else:
            scales[:, g] = mine.abs().amax(1) / 7.5
        codes[:, order == g] = (mine / scales[:, g, None] + shifts[:, g, None]).round().clamp(-8, 7)
    parts = {
        "weight_packed": words((codes + 8).long(), 4, 1),
        "weight_scale": scales,
        "weight_shape": torch.tensor([n, k]),
    }
    if zeros:
        parts["weight_zero_point"] = words((shifts + 8).long(), 4, 0)
    if shuffled:
        parts["weight_g_idx"] = order.int()
    return parts, (codes - shifts[:, order]) * scales[:, order]


def four_bits(weight: Tensor, nested: bool = False, kind: str = "float32") -> Written:
    """Write bitsandbytes' NF4: the nearest of 16 numbers for each weight, by the largest of 64; where `nested`, the
    largest ones are kept in 8 bits."""
    table, flat = torch.tensor(NF4), weight.flatten()
    absmax = flat.view(-1, 64).abs().amax(1)
    state: dict[str, Any] = {"quant_type": "nf4", "blocksize": 64, "dtype": kind, "shape": list(weight.shape)}
    parts: Parts = {}
    scales = absmax
    if nested:
        offset, steps = float(absmax.mean()), torch.linspace(-1, 1, 256)
        outer = torch.stack([run.abs().max() for run in (absmax - offset).split(256)])
        codes = torch.stack([
            (steps - value / outer[i // 256]).abs().argmin() for i, value in enumerate(absmax - offset)
        ])  # fmt: skip
        scales = torch.stack([steps[c] * outer[i // 256] + offset for i, c in enumerate(codes)])
        parts = {"weight.nested_absmax": outer, "weight.nested_quant_map": steps}
        state |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": offset}
        absmax = codes.to(torch.uint8)
    numbers = (flat.view(-1, 64) / scales[:, None]).flatten()
    codes = (numbers[:, None] - table).abs().argmin(1)
    whole = (table[codes].view(-1, 64) * scales[:, None]).view(weight.shape)
    parts |= {
        "weight": (codes[0::2] * 16 + codes[1::2]).to(torch.uint8)[:, None],
        "weight.absmax": absmax,
        "weight.quant_map": table,
        "weight.quant_state.bitsandbytes__nf4": torch.tensor(list(json.dumps(state).encode()), dtype=torch.uint8),
    }
    return parts, whole.to(getattr(torch, kind)).float()


def eight_bits(weight: Tensor) -> Written:
    largest = weight.abs().amax(1)
    kept = (weight * 127 / largest[:, None]).round().to(torch.int8)
    parts = {"weight": kept, "SCB": largest, "weight_format": torch.tensor(0, dtype=torch.uint8)}
    return parts, kept.float() * (largest[:, None] / 127)


def write_foreign(folder: Path, write: Callable[[Tensor], Written], said: dict[str, Any], **shape: Any) -> list[Path]:
    """Write (a checkpoint whose layers `write` has written, the same with what its numbers stand for in float32)."""
    base = save_tiny(folder, "llama", **{**SHAPE, **shape})
    packed: Parts = {}
    whole: Parts = {}
    for name, tensor in load_file(base / "model.safetensors").items():
        if tensor.ndim != 2 or "embed" in name or "lm_head" in name:
            packed[name] = whole[name] = tensor
            continue
        parts, whole[name] = write(tensor)
        packed |= {f"{name.removesuffix('weight')}{part}": one.contiguous() for part, one in parts.items()}
    return written(folder, base, packed, whole, said)


def written(folder: Path, base: Path, packed: Parts, whole: Parts, said: dict[str, Any]) -> list[Path]:
    made = []
    for path, tensors in ((folder / "packed", packed), (folder / "whole", whole)):
        path.mkdir()
        save_file({name: one.contiguous() for name, one in tensors.items()}, path / "model.safetensors")
        byte_tokenizer().save_pretrained(path)
        config = json.loads((base / "config.json").read_text())
        config |= {"quantization_config": said} if tensors is packed else {}
        (path / "config.json").write_text(json.dumps(config))
        (path / "generation_config.json").write_text((base / "generation_config.json").read_text())
        made.append(path)
    return made
