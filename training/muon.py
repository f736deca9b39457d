"""Muon: momentum whose update is orthogonalised (Jordan et al., 2024), for the matrices of the transformer blocks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor


def orthogonalised(matrices: Tensor, steps: int = 5) -> Tensor:
    """Push the singular values of `[n, rows, columns]` towards one by a quintic Newton-Schulz iteration; on a GPU
    in bfloat16, which it bears."""
    a, b, c = 3.4445, -4.7750, 2.0315
    flip = matrices.size(1) > matrices.size(2)
    x: Tensor = matrices.mT if flip else matrices
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    x = x.bfloat16() if x.is_cuda else x
    for _ in range(steps):
        gram: Tensor = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.mT if flip else x).to(matrices.dtype)


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
        """Move all matrices of one shape, in few calls: on a GPU each of them costs as much as the work it asks for."""
        gradients = [p.grad for p in params if p.grad is not None]
        for p in params:
            if "momentum" not in self.state[p]:
                self.state[p]["momentum"] = torch.zeros_like(p)
        buffers = [self.state[p]["momentum"] for p in params]
        torch._foreach_lerp_(buffers, gradients, 1 - group["momentum"])
        directions = torch._foreach_lerp(gradients, buffers, group["momentum"])
        updates = orthogonalised(torch.stack(directions)).unbind()
        torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(params, updates, alpha=-group["lr"] * scale)
