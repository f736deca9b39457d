"""Muon: momentum whose update is orthogonalised (Jordan et al., 2024), for the matrices of the transformer blocks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor


def orthogonalised(matrices: Tensor, steps: int = 5) -> Tensor:
    """Push the singular values of `[n, rows, columns]` towards one by a quintic Newton-Schulz iteration, in float32."""
    a, b, c = 3.4445, -4.7750, 2.0315
    flip = matrices.size(1) > matrices.size(2)
    x: Tensor = matrices.mT if flip else matrices
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram: Tensor = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    result: Tensor = x.mT if flip else x
    return result


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, then orthogonalisation of all matrices of one shape at once."""

    def __init__(
        self, params: Iterable[Tensor], lr: float = 0.01, momentum: float = 0.95, weight_decay: float = 0.01
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for p in group["params"]:
                if p.grad is not None:
                    by_shape[p.shape].append(p)
            for shape, params in by_shape.items():
                self._update(params, group, max(1.0, shape[0] / shape[1]) ** 0.5)

    def _update(self, params: list[Tensor], group: dict[str, float], scale: float) -> None:
        directions = []
        for p in params:
            state = self.state[p]
            buffer = state.setdefault("momentum", torch.zeros_like(p))
            assert p.grad is not None
            buffer.lerp_(p.grad, 1 - group["momentum"])
            directions.append(p.grad.lerp(buffer, group["momentum"]))
        for p, update in zip(params, orthogonalised(torch.stack(directions)), strict=True):
            p.mul_(1 - group["lr"] * group["weight_decay"])
            p.add_(update, alpha=-group["lr"] * scale)
