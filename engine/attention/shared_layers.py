"""Serve models that use one attention module in several layers (Zamba): each layer stores keys and values of its own.

The module gets `layer_idx` as an argument of each call, but the attention interface reads it from the module. So it is
stored on the module at every call.
"""

from __future__ import annotations

import inspect
from typing import Any


def serve_shared_attention(module: Any) -> None:
    """Make attention modules of `module` that several layers share report the `layer_idx` of the current call."""
    for part in module.modules():
        kind = type(part)
        nowhere = getattr(part, "layer_idx", 0) in (None, -1)
        if nowhere and "layer_idx" in inspect.signature(kind.forward).parameters:
            part.__class__ = type(kind.__name__, (_SharedAttention, kind), {})


class _SharedAttention:
    """Mixin that stores `layer_idx` of the current call on the module."""

    layer_idx: int

    def forward(self, hidden_states: Any, layer_idx: int, *args: Any, **more: Any) -> Any:
        self.layer_idx = layer_idx
        return super().forward(hidden_states, layer_idx, *args, **more)  # type: ignore[misc]  # the layer's own
