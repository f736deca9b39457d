"""What a decoder of `transformers` computes around its products: norms, the activation, rotary positions, residuals.

Llama and its relatives have one form of each; Gemma 3 has others: norms that multiply by 1 + weight, two of them behind
attention and MLP, GELU, embeddings that are scaled, and other rotary positions in sliding layers than in full ones.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sluicegate.engine.cpu.kernels.rows import GELU, SILU
from sluicegate.engine.cpu.operation_table import Cell

FAMILIES = {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}
"""Classes of `transformers`; `DenseDecoder` of `engine.model.dense` can stand in for any of them."""
_GEMMA = "Gemma3ForCausalLM"
_UNSUPPORTED_TURNS = ("dynamic", "longrope")
_CAPS = ("attn_logit_softcapping", "final_logit_softcapping", "use_bidirectional_attention")
_TURNS = {None: Cell.COSINES, "full_attention": Cell.COSINES, "sliding_attention": Cell.LOCAL_COSINES}


def is_known(module: Any) -> bool:
    """Return whether the program has all that a decoder computes around its products."""
    config, name = module.config, type(module).__name__
    if name not in {*FAMILIES, "DenseDecoder", _GEMMA}:
        return False
    turns = config.rope_parameters or {}
    every = [turns.get(kind) or {} for kind in turn_kinds(module)] if name == _GEMMA else [turns]
    if any(each.get("rope_type", "default") in _UNSUPPORTED_TURNS for each in every):
        return False
    if name == _GEMMA:
        return config.hidden_activation == "gelu_pytorch_tanh" and not any(getattr(config, cap, None) for cap in _CAPS)
    return bool(config.hidden_act == "silu")


def norm_of(norm: Any) -> tuple[Tensor, float]:
    """Return what a norm multiplies by, and its epsilon."""
    if type(norm).__name__ == "Gemma3RMSNorm":
        return 1.0 + norm.weight.detach().float(), float(norm.eps)
    return norm.weight, float(norm.variance_epsilon)


def norms_around(layer: Any) -> tuple[Any, Any | None, Any, Any | None]:
    """Return a layer's norms before attention, behind it, before the MLP and behind it; None = there is none."""
    if hasattr(layer, "pre_feedforward_layernorm"):
        behind, before = layer.post_attention_layernorm, layer.pre_feedforward_layernorm
        return layer.input_layernorm, behind, before, layer.post_feedforward_layernorm
    return layer.input_layernorm, None, layer.post_attention_layernorm, None


def activation_of(module: Any) -> int:
    """Return SILU or GELU of `engine.cpu.kernels.rows`."""
    return GELU if type(module).__name__ == _GEMMA else SILU


def scale_of(embedding: Any) -> float:
    """Return what the rows of an embedding table are multiplied by."""
    factor = getattr(embedding, "factor", None)
    factor = getattr(embedding, "embed_scale", None) if factor is None else factor
    return 1.0 if factor is None else float(factor)


def turn_kind(attention: Any) -> str | None:
    """Return the type of a layer that has rotary positions of its own; None = all layers have the same."""
    return str(attention.layer_type) if type(attention).__name__ == "Gemma3Attention" else None


def turn_kinds(module: Any) -> tuple[str | None, ...]:
    """Return the kinds of rotary positions of a decoder, as `turn_kind`."""
    return tuple(dict.fromkeys(turn_kind(layer.self_attn) for layer in module.model.layers))


def turn_cell(kind: str | None) -> Cell:
    """Return the place of the address of a kind's cosines; that of its sines is the next."""
    return _TURNS[kind]


def turns_of(rotary: Any, kind: str | None, positions: Tensor) -> list[Tensor]:
    """Return cosines and sines [P, dim] float32 of `positions` [1, P]."""
    more = () if kind is None else (kind,)
    return [turn[0].float().contiguous() for turn in rotary(torch.zeros(1), positions, *more)]
