"""The loss of a Llama-shaped model on a packed batch, in the fewest passes over memory, for training on CPU cores.

The weights stay float32 and are rounded to bfloat16 where they meet a matrix product, which a core with AVX-512 does
three times as fast; attention is two batched products around a softmax, which short rows do faster than the fused
kernel does; only the places from which an answer's token is drawn reach the vocabulary.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaForCausalLM

from training.packing import IGNORED, Batch


class Attention(Protocol):
    """The projections of an attention layer of transformers."""

    q_proj: torch.nn.Linear
    k_proj: torch.nn.Linear
    v_proj: torch.nn.Linear
    o_proj: torch.nn.Linear


class GatedMlp(Protocol):
    """The projections of a gated MLP of transformers."""

    gate_proj: torch.nn.Linear
    up_proj: torch.nn.Linear
    down_proj: torch.nn.Linear


_HIDDEN = -1e4
PLACES = 0.34  # of a batch's tokens are targets at most; what is above is not trained on


def answer_places(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Return (indices into the flat batch [K], their targets [K] and weights [K], which add up to one) with K fixed by
    the batch's shape, filled up with ignored places, so that one compiled graph serves all batches of a shape."""
    targets = batch.targets.flatten()
    count = int(PLACES * targets.numel())
    places = (targets != IGNORED).nonzero()[:count, 0]
    weights = batch.weights.flatten()[places]
    missing = (0, count - len(places))
    padded = F.pad(targets[places], missing, value=IGNORED)
    return F.pad(places, missing), padded, F.pad(weights / weights.sum().clamp_min(1e-9), missing)


def packed_loss(
    model: LlamaForCausalLM,
    ids: Tensor,
    positions: Tensor,
    mask: Tensor,
    places: Tensor,
    targets: Tensor,
    weights: Tensor,
) -> Tensor:
    """Return the weighted cross entropy at `places`, of the sequences that `mask` [B, 1, T, T] keeps apart."""
    config = model.config
    kind = torch.bfloat16
    table = model.model.embed_tokens.weight
    hidden = table[ids]  # [B, T, D] float32
    angles = _angles(positions, config.head_dim, config.rope_parameters["rope_theta"])
    turns = angles.cos().to(kind), angles.sin().to(kind)
    bias = torch.zeros(1, device=ids.device).where(mask, _HIDDEN)
    for layer in model.model.layers:
        normed = _normed(hidden, layer.input_layernorm.weight, config.rms_norm_eps)
        hidden = hidden + _attended(layer.self_attn, normed, turns, bias, config.head_dim)
        normed = _normed(hidden, layer.post_attention_layernorm.weight, config.rms_norm_eps)
        hidden = hidden + _fed_forward(layer.mlp, normed)
    asked = hidden.flatten(0, 1)[places]
    logits = F.linear(_normed(asked, model.model.norm.weight, config.rms_norm_eps), model.lm_head.weight.to(kind))
    return (F.cross_entropy(logits.float(), targets, ignore_index=IGNORED, reduction="none") * weights).sum()


def _angles(positions: Tensor, size: int, base: float) -> Tensor:
    """Return rotary angles, the halves of a head alike: [B, T] -> [B, 1, T, size]."""
    steps = torch.arange(0, size, 2, device=positions.device).float() / size
    half = positions[:, None, :, None] / base**steps
    return torch.cat((half, half), -1)


def _normed(hidden: Tensor, weight: Tensor, eps: float) -> Tensor:
    return (hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + eps) * weight).to(torch.bfloat16)


def _attended(attention: Attention, normed: Tensor, turns: tuple[Tensor, Tensor], bias: Tensor, size: int) -> Tensor:
    rows, length, _ = normed.shape
    weights = [projection.weight for projection in (attention.q_proj, attention.k_proj, attention.v_proj)]
    joined = F.linear(normed, torch.cat(weights).to(normed.dtype))
    query, key, value = joined.view(rows, length, 3, -1, size).permute(2, 0, 3, 1, 4).unbind(0)
    query, key = _turned(query, turns) * size**-0.5, _turned(key, turns)
    shares = torch.softmax((query @ key.mT).float() + bias, -1).to(normed.dtype)
    mixed = (shares @ value).transpose(1, 2).reshape(rows, length, -1)
    return F.linear(mixed, attention.o_proj.weight.to(normed.dtype))


def _turned(states: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
    first, second = states.chunk(2, -1)
    return states * turns[0] + torch.cat((-second, first), -1) * turns[1]


def _fed_forward(mlp: GatedMlp, normed: Tensor) -> Tensor:
    joined = torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]).to(normed.dtype)
    gate, up = F.linear(normed, joined).chunk(2, -1)
    return F.linear(F.silu(gate) * up, mlp.down_proj.weight.to(normed.dtype))
