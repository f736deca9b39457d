"""Serve BLOOM through the paged cache: its distance biases become two more dimensions of every query and key.

BLOOM adds `slope_h * position of the key` to a score; a softmax does not see what is constant over keys, so the
distance to the query needs no place of its own. That is a product: the key carries its position, the query the slope.
The position is cut into two digits, each exact in half precision. So no layout of a step has to know of any of it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import BloomForCausalLM, BloomModel
from transformers.modeling_outputs import BaseModelOutputWithPast

from sluicegate.engine.attention.paged import AttentionStep, Scoring

DIGIT = 128


def serve_bloom(module: Any) -> None:
    """Make `module`, a `BloomForCausalLM`, accept positions and an attention step. Weights stay as they are; without an
    attention step the code of `transformers` runs."""
    module.__class__ = PagedBloom
    module.transformer.__class__ = PagedBloomModel


class PagedLanguageModel(nn.Module):
    """Mixin for language models of `transformers` whose `forward` takes no positions; put before their own class. With
    an attention step it passes both to the transformer."""

    transformer: Any
    lm_head: Any

    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor | None = None,
        logits_to_keep: int | Tensor = 0,
        use_cache: bool | None = None,
        paged: AttentionStep | None = None,
        **others: Any,
    ) -> Any:
        if paged is None:
            return super().forward(input_ids, logits_to_keep=logits_to_keep, use_cache=use_cache, **others)
        out = self.transformer(input_ids, position_ids=position_ids, paged=paged)
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        out.logits = self.lm_head(out.last_hidden_state[:, kept])
        return out


class PagedBloom(PagedLanguageModel, BloomForCausalLM):
    """BLOOM with paged attention."""


class PagedBloomModel(BloomModel):
    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor | None = None,
        use_cache: bool | None = None,
        paged: AttentionStep | None = None,
        **others: Any,
    ) -> Any:
        if paged is None:
            return super().forward(input_ids, use_cache=use_cache, **others)
        assert position_ids is not None
        states = self.word_embeddings_layernorm(self.word_embeddings(input_ids))  # [1, T, d]
        digits = digits_of(position_ids, states)
        for layer, block in enumerate(self.h):
            states = _block(block, layer, states, digits, paged)
        return BaseModelOutputWithPast(last_hidden_state=self.ln_f(states))


def _block(block: Any, layer: int, states: Tensor, digits: Tensor, paged: AttentionStep) -> Tensor:
    normed = block.input_layernorm(states)
    kept = normed if block.apply_residual_connection_post_layernorm else states
    attended = kept + _attend(block.self_attention, layer, normed, digits, paged)
    normed = block.post_attention_layernorm(attended)
    kept = normed if block.apply_residual_connection_post_layernorm else attended
    out: Tensor = block.mlp(normed, kept)
    return out


def _attend(attention: Any, layer: int, normed: Tensor, digits: Tensor, paged: AttentionStep) -> Tensor:
    query, key, value = attention._reshape(attention.query_key_value(normed))  # [1, H, T, D]
    scaling = attention.inv_norm_factor
    slopes = (_slopes(attention.num_heads).to(query) / scaling)[:, None].expand(-1, query.shape[2])  # [H, T]
    query = torch.cat([query, torch.stack([DIGIT * slopes, slopes], -1)[None]], -1)
    key = torch.cat([key, digits.expand(1, key.shape[1], -1, -1)], -1)
    out = paged.attend(layer, query, key, value, Scoring(scaling))  # [T, H, D]
    mixed: Tensor = attention.dense(out.reshape(1, len(out), -1))
    return mixed


def digits_of(positions: Tensor, like: Tensor) -> Tensor:
    """Return the two digits [T, 2] of `positions` [1, T] to base `DIGIT`, in the dtype of `like`."""
    return torch.stack([positions[0] // DIGIT, positions[0] % DIGIT], -1).to(like.dtype)


def _slopes(heads: int) -> Tensor:
    """Return the ALiBi slopes [H] of Press et al., "Train short, test long" (2022): a geometric series. If H is not a
    power of two, every second slope of the next finer series is added."""
    power = 1 << (heads.bit_length() - 1)
    row = [2.0 ** (-8 * (at + 1) / power) for at in range(power)]
    finer = [2.0 ** (-4 * (at + 1) / power) for at in range(0, 2 * (heads - power), 2)]
    return torch.tensor(row + finer)
