"""Make layers with compressed keys and values (DeepSeek's MLA and its kin) pass latents to attention, not heads.

In `transformers` they compute the keys and values of all heads in one method, `expand_kv`, right before attention.
During an attention step that method returns its arguments unchanged, and the step gets the up-projection
(`LatentHeads`). Without a step the layer's own code runs; the comparison at load uses it as the reference.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from sluicegate.engine.attention.latent import LatentHeads
from sluicegate.engine.attention.paged import step_in_progress


def serve_latent(module: Any) -> None:
    """Make the MLA layers of `module` pass latents to attention. Idempotent; call it before weights are rounded."""
    made: dict[type, type] = {}
    for part in module.modules():
        kind = type(part)
        if isinstance(part, LatentAttention) or not hasattr(kind, "expand_kv"):
            continue
        if type(part.kv_b_proj) is nn.Linear and part.kv_b_proj.bias is None:
            part.__class__ = made.setdefault(kind, type(kind.__name__, (LatentAttention, kind), {}))
            part.kv_b_proj.__class__ = WholeLinear


def latent_note(module: Any) -> tuple[str, ...]:
    """Return a sentence for the log on the cache size of a model with latent layers; () for other models."""
    layers = [part for part in module.modules() if isinstance(part, LatentAttention)]
    kept = sum(one.kv_lora_rank + one.qk_rope_head_dim for one in layers)
    heads = sum(one.latent_heads.head_count * (one.qk_head_dim + one.v_head_dim) for one in layers)
    said = f"keeps {kept:,} numbers of each token, compressed, in place of {heads:,} of its heads' keys and values"
    return (said,) if layers else ()


class WholeLinear(nn.Linear):
    """A linear layer whose weight is sliced in every step: it is never rounded, and kept in the model's dtype."""


class LatentAttention:
    """Mixin for MLA attention layers, put before their own class."""

    kv_b_proj: nn.Linear
    kv_lora_rank: int
    qk_head_dim: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int

    @property
    def latent_heads(self) -> LatentHeads:
        width = self.qk_nope_head_dim + self.v_head_dim
        return LatentHeads(self.kv_b_proj.weight.unflatten(0, (-1, width)), self.qk_nope_head_dim)

    def expand_kv(self, kv_nope: Tensor, k_rot: Tensor) -> tuple[Tensor, Tensor]:
        """Return `k_rot` [1, 1, T, R] and `kv_nope` [1, 1, T, L] unchanged during a step; else the layer's keys and
        values."""
        if step_in_progress() is None:
            own: tuple[Tensor, Tensor] = super().expand_kv(kv_nope, k_rot)  # type: ignore[misc]  # the layer's
            return own
        return k_rot, kv_nope
