"""What training changed of an encoder, small enough to ship: a low-rank product for each matrix, in 8 bits."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sluicegate.cache.semantic.judged.encoder_judge import PROBE, PairScorer, fingerprint


def adapter_of(
    tokenizer: Any, base: Any, tuned: Any, head: torch.nn.Linear, rank: int, threshold: float
) -> dict[str, Any]:
    """Return the arrays of an adapter that turns `base` into about `tuned`; `head` makes a score of its states."""
    told: dict[str, Any] = {"base": np.frombuffer(fingerprint(base).encode(), np.uint8)}
    before: Mapping[str, Tensor] = base.state_dict()
    for name, after in tuned.state_dict().items():
        change = (after - before[name]).double() if after.is_floating_point() else torch.zeros(1)
        if not change.any():
            continue
        if change.ndim != 2:
            told[name] = change.numpy().astype(np.float16)
            continue
        left, sizes, right = torch.linalg.svd(change, full_matrices=False)
        roots = sizes[:rank].sqrt()
        _put(told, f"{name}:left", (left[:, :rank] * roots).T.numpy())
        _put(told, f"{name}:right", (right[:rank] * roots[:, None]).numpy())
    told["head"] = head.weight[0].detach().numpy().astype(np.float32)
    told["head_bias"], told["threshold"] = np.float64(head.bias.item()), np.float64(threshold)
    told["probe"] = np.float64(PairScorer(tokenizer, copy.deepcopy(base), told).scores([PROBE])[0])
    return told


def _put(told: dict[str, Any], name: str, rows: Any) -> None:
    scales = np.maximum(np.abs(rows).max(1) / 127, 1e-12)
    told[name], told[f"{name}:scale"] = np.rint(rows / scales[:, None]).astype(np.int8), scales.astype(np.float32)
