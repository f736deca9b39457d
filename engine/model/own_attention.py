"""Serve models whose attention cannot be replaced through `transformers`' interface: GPT-J, CodeGen, Falcon and MPT.

Their weights are unchanged. During an attention step the step attends in place of their code; without one their own
code runs, and the comparison at load uses it as the reference.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import MptForCausalLM, MptModel
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.models.codegen.modeling_codegen import CodeGenAttention
from transformers.models.falcon.modeling_falcon import FalconAttention, apply_rotary_pos_emb
from transformers.models.gptj.modeling_gptj import GPTJAttention
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

from sluicegate.engine.attention.paged import AttentionStep, Scoring, step_in_progress
from sluicegate.engine.model.bloom import DIGIT, PagedLanguageModel, digits_of
from sluicegate.plugins import ModelLoadError


def serve_own_attention(module: Any, where: str) -> None:
    """Make the layers of `module` attend through the current step. Raises `ModelLoadError` for a Falcon with distance
    biases: `transformers` rounds them to bfloat16, which a product of positions and slopes cannot reproduce."""
    kind = module.config.model_type
    if kind == "falcon" and module.config.alibi:
        raise ModelLoadError(
            f"{where!r} is a Falcon with distance biases (alibi), rounded in a way that the paged cache cannot repeat; "
            "served are those with rotary positions"
        )
    if kind == "mpt":
        module.__class__ = PagedMpt
        module.transformer.__class__ = PagedMptModel
        return
    own, paged = _KINDS[kind]
    for part in module.modules():
        if type(part) is own:
            part.__class__ = paged


def _through(
    step: AttentionStep, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float
) -> tuple[Tensor, None]:
    """Return the attention output [1, H, T, D] of a step, and None for the weights."""
    return step.attend(layer, query, key, value, Scoring(scaling)).transpose(0, 1).unsqueeze(0), None


class PagedGPTJAttention(GPTJAttention):
    def _attn(self, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None = None) -> Any:
        if (step := step_in_progress()) is None:
            return super()._attn(query, key, value, attention_mask)
        return _through(step, self.layer_idx, query, key, value, self.head_dim**-0.5)


class PagedCodeGenAttention(CodeGenAttention):
    def _attn(self, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None = None) -> Any:
        if (step := step_in_progress()) is None:
            return super()._attn(query, key, value, attention_mask)
        return _through(step, self.layer_idx, query, key, value, self.head_dim**-0.5)


class PagedFalconAttention(FalconAttention):
    def forward(self, hidden_states: Tensor, alibi: Tensor | None, attention_mask: Tensor, **others: Any) -> Any:
        if (step := step_in_progress()) is None:
            return super().forward(hidden_states, alibi, attention_mask, **others)
        query, key, value = (one.transpose(1, 2) for one in self._heads(self.query_key_value(hidden_states)))
        query, key = apply_rotary_pos_emb(query, key, *others["position_embeddings"])
        out = step.attend(self.layer_idx, query, key, value, Scoring(self.inv_norm_factor))
        return self.dense(out.reshape(1, len(out), -1)), None

    def _heads(self, fused: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return q [1, T, H, D], k and v [1, T, H_kv, D]; the heads of a group are adjacent."""
        if not self.new_decoder_architecture:
            found: tuple[Tensor, Tensor, Tensor] = self._split_heads(fused)
            return found
        groups = fused.unflatten(-1, (self.num_kv_heads, -1, self.head_dim))  # [1, T, H_kv, H / H_kv + 2, D]
        return groups[..., :-2, :].flatten(2, 3), groups[..., -2, :], groups[..., -1, :]


class PagedMpt(PagedLanguageModel, MptForCausalLM):
    """MPT with paged attention."""


class PagedMptModel(MptModel):
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
        states = self.wte(input_ids)  # [1, T, d]
        digits = digits_of(position_ids, states)
        biases = build_mpt_alibi_tensor(self.num_heads, 2, self.config.attn_config.alibi_bias_max, states.device)
        slopes = -biases.flatten(0, -2)[:, 0]  # [H]: what one position further away takes from a score
        for block in self.blocks:
            attended = states + _attend(block.attn, block.norm_1(states), digits, slopes, paged)
            states = block.ffn(block.norm_2(attended), attended)
        return BaseModelOutputWithPast(last_hidden_state=self.norm_f(states))


def _attend(attention: Any, normed: Tensor, digits: Tensor, slopes: Tensor, paged: AttentionStep) -> Tensor:
    """Attend with distance biases as two more dimensions; see `engine.model.bloom`."""
    mixed = attention.Wqkv(normed)
    if attention.clip_qkv:
        mixed = mixed.clamp(min=-attention.clip_qkv, max=attention.clip_qkv)
    query, key, value = (one.unflatten(-1, (attention.n_heads, -1)).transpose(1, 2) for one in mixed.chunk(3, -1))
    steep = (slopes.to(query) / attention.softmax_scale)[:, None].expand(-1, query.shape[2])  # [H, T]
    query = torch.cat([query, torch.stack([DIGIT * steep, steep], -1)[None]], -1)
    key = torch.cat([key, digits.expand(1, key.shape[1], -1, -1)], -1)
    out = paged.attend(attention.layer_idx, query, key, value, Scoring(attention.softmax_scale))  # [T, H, D]
    found: Tensor = attention.out_proj(out.reshape(1, len(out), -1))
    return found


_KINDS: dict[str, tuple[type, type]] = {
    "gptj": (GPTJAttention, PagedGPTJAttention),
    "codegen": (CodeGenAttention, PagedCodeGenAttention),
    "falcon": (FalconAttention, PagedFalconAttention),
}
