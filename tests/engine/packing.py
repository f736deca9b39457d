"""Writes checkpoints as GPTQ and AWQ tools do, by the definition of their formats: a number at a time into its word."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.engine.tiny_models import byte_tokenizer, save_tiny

SHAPE: dict[str, Any] = {"hidden_size": 128, "intermediate_size": 256, "head_dim": 32, "initializer_range": 0.1}
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def rounded(weight: Tensor, bits: int, order: Tensor, symmetric: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return (codes [k, n], zeros and scales (half precision) [groups, n]) of a weight [n, k]. `order` [k] holds the
    groups."""
    codes = torch.zeros(weight.shape[1], weight.shape[0], dtype=torch.int64)
    zeros, scales, most = [], [], (1 << bits) - 1
    for group in range(int(order.max()) + 1):
        mine = weight.T[order == group]
        low, high = mine.amin(0).clamp_max(0), mine.amax(0).clamp_min(0)
        if symmetric:
            high = torch.maximum(high, -low)
            low = -high
        scale = ((high - low) / most).clamp_min(1e-5).half()
        zero = torch.full_like(low, (most + 1) / 2) if symmetric else (-low / scale.float()).round().clamp(0, most)
        codes[order == group] = (mine / scale.float() + zero).round().clamp(0, most).long()
        zeros.append(zero.long())
        scales.append(scale)
    return codes, torch.stack(zeros), torch.stack(scales)


def words(numbers: Tensor, bits: int, along: int, places: Sequence[int] | None = None) -> Tensor:
    """Pack numbers into int32, 32 / bits numbers of each run along a dimension. The number `places[i]` of a run begins
    at bit `bits * i`."""
    each = 32 // bits
    places = places or range(each)
    source = (numbers if along == 0 else numbers.T).numpy().astype(np.uint64)
    made = np.zeros((len(source) // each, source.shape[1]), np.uint64)
    for row in range(len(source)):
        made[row // each] |= source[row] << np.uint64(bits * list(places).index(row % each))
    found = torch.from_numpy(made.astype(np.uint32).view(np.int32))
    return found if along == 0 else found.T.contiguous()


def write_packed(folder: Path, method: str, *, family: str = "llama", shape: dict[str, Any] | None = None,
                 bits: int = 4, group: int = 128, symmetric: bool = True, act_order: bool = False,
                 leave: tuple[str, ...] = ("lm_head",), **fields: Any) -> tuple[Path, Path]:  # fmt: skip
    """Write (the packed checkpoint, a checkpoint of what its numbers stand for in float32)."""
    base = save_tiny(folder, family, **(shape or SHAPE))
    state = load_file(base / "model.safetensors")
    packed, whole = {}, {}
    generator = torch.Generator().manual_seed(3)
    for name, tensor in state.items():
        if tensor.ndim != 2 or any(part in name for part in ("embed", *leave)):
            packed[name] = whole[name] = tensor
            continue
        k, size = tensor.shape[1], tensor.shape[1] if group == -1 else group
        order = torch.arange(k) // size
        if act_order:
            order = order[torch.randperm(k, generator=generator)]
        codes, zeros, scales = rounded(tensor, bits, order, symmetric)
        whole[name] = ((codes - zeros[order]).float() * scales.float()[order]).T.contiguous()
        layer = name.removesuffix(".weight")
        packed |= {f"{layer}.{part}": value for part, value in _parts(method, bits, codes, zeros, fields).items()}
        packed[f"{layer}.scales"] = scales
        if method == "gptq":
            packed[f"{layer}.g_idx"] = order.int()
    made = []
    for path, tensors in ((folder / "packed", packed), (folder / "whole", whole)):
        path.mkdir()
        save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
        byte_tokenizer().save_pretrained(path)
        for kept in ("generation_config.json", "config.json"):
            (path / kept).write_text((base / kept).read_text())
        made.append(path)
    say(made[0], quant_method=method, bits=bits, group_size=group, **fields)
    return made[0], made[1]


def _parts(method: str, bits: int, codes: Tensor, zeros: Tensor, fields: dict[str, Any]) -> dict[str, Tensor]:
    if method == "awq":
        return {"qweight": words(codes, 4, 1, AWQ_ORDER), "qzeros": words(zeros, 4, 1, AWQ_ORDER)}
    less = 0 if fields.get("checkpoint_format") == "gptq_v2" else 1
    return {"qweight": words(codes, bits, 0), "qzeros": words((zeros - less) % (1 << bits), bits, 1)}


def say(folder: Path, **fields: Any) -> None:
    """Put these into the folder's `quantization_config`."""
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = config.get("quantization_config", {}) | fields
    (folder / "config.json").write_text(json.dumps(config))
