"""Serve models that attend with the same weights in several layers (Zamba): each keeps keys and values of its own.

Such an attention is one module, which is told at each call for which layer it attends; what it passes on to the
attention interface is itself, by whose number keys and values are found.
"""

from __future__ import annotations

import inspect
from typing import Any


def serve_shared_attention(module: Any) -> None:
    """Let attentions of `module` that stand in several layers, if it has any, go by the layer they are called for."""
    for part in module.modules():
        kind = type(part)
        nowhere = getattr(part, "layer_idx", 0) in (None, -1)
        if nowhere and "layer_idx" in inspect.signature(kind.forward).parameters:
            part.__class__ = type(kind.__name__, (_SharedAttention, kind), {})


class _SharedAttention:
    """What its class is made a subclass of."""

    layer_idx: int

    def forward(self, hidden_states: Any, layer_idx: int, *args: Any, **more: Any) -> Any:
        self.layer_idx = layer_idx
        return super().forward(hidden_states, layer_idx, *args, **more)  # type: ignore[misc]  # the layer's own
