"""Serve Llama 4, whose code gives two things away to masks and to the cache: sections, and how far a token is.

Most of its layers cut positions into sections of `attention_chunk_size`, and a token sees those of its own; where
layers have no rotary positions, queries grow with their position, which its code counts from the beginning of the row.
Without an attention step its own code computes both, which is what the trial at load compares with.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.models.llama4.modeling_llama4 import Llama4TextAttention, Llama4TextDecoderLayer


def serve_llama4(module: Any) -> None:
    """Make the attention layers of `module` report positions and sections to attention steps."""
    for part in module.modules():
        if type(part) is Llama4TextDecoderLayer:
            part.__class__ = PagedLlama4Layer
        elif type(part) is Llama4TextAttention:
            part.__class__ = PagedLlama4Attention


class PagedLlama4Layer(Llama4TextDecoderLayer):
    def forward(self, hidden_states: Tensor, *args: Any, position_ids: Tensor | None = None, **more: Any) -> Any:
        self.self_attn.positions = position_ids
        return super().forward(hidden_states, *args, position_ids=position_ids, **more)


class PagedLlama4Attention(Llama4TextAttention):
    """Llama 4 attention; `positions` [1, T] are those of the current pass."""

    positions: Tensor | None = None

    @property
    def section(self) -> int | None:
        """Return the number of positions in a section; None if the layer attends to all earlier positions."""
        is_cut = self.config.layer_types[self.layer_idx] == "chunked_attention"
        return int(self.config.attention_chunk_size) if is_cut else None

    def placed_query(self, query: Tensor) -> Tensor:
        """Return queries [1, H, T, D] scaled by their sequence positions, undoing the scaling by row positions."""
        if not self.attn_temperature_tuning or self.use_rope or self.positions is None:
            return query
        row = torch.arange(query.shape[2], device=query.device)
        factor = self._growth(self.positions[0]) / self._growth(row)
        return (query * factor[None, None, :, None]).to(query.dtype)

    def _growth(self, positions: Tensor) -> Tensor:
        steps = torch.floor((positions.float() + 1.0) / self.floor_scale)
        found: Tensor = torch.log1p(steps) * self.attn_scale + 1.0
        return found
