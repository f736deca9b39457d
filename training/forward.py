"""The loss of a Llama-shaped model on a packed batch, in the fewest passes over memory, for training.

The weights stay float32 and are rounded to bfloat16 where they meet a matrix product, which a core with AVX-512 does
three times as fast; attention is two batched products around a softmax, which short rows do faster than the fused
kernel does; only the places from which an answer's token is drawn reach the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaForCausalLM

from training.packing import IGNORED, Batch

LayerWeights = tuple[Tensor, ...]
_HIDDEN = -1e4
PLACES = 0.34  # of a batch's tokens are targets at most; what is above is not trained on


def answer_places(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Return `places_of` a batch."""
    return places_of(batch.targets, batch.weights)


def places_of(targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return (indices into the flat batch [K], their targets [K] and weights [K], which add up to one) with K fixed by
    the batch's shape, filled up with ignored places, so that one compiled graph serves all batches of a shape (and a
    GPU is never waited for)."""
    targets = targets.flatten()
    hidden = (targets == IGNORED).to(torch.int8)
    places = hidden.argsort(stable=True)[: int(PLACES * targets.numel())]
    found = targets[places]
    chosen = weights.flatten()[places] * (found != IGNORED)
    return places, found, chosen / chosen.sum().clamp_min(1e-9)


def block(
    hidden: Tensor,
    weights: LayerWeights,
    turns: tuple[Tensor, Tensor],
    bias: Tensor,
    size: int,
    eps: float,
    fused: bool,
) -> Tensor:
    """Return the output of a layer. Its weights are arguments, so that one compiled graph serves all layers."""
    before_attention, before_mlp, query, key, value, output, gate, up, down = weights
    normed = _normed(hidden, before_attention, eps)
    hidden = hidden + _attended(normed, (query, key, value), output, turns, bias, size, fused)
    return hidden + _fed_forward(_normed(hidden, before_mlp, eps), (gate, up), down)


def head(normed: Tensor, table: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted cross entropy of the next tokens."""
    logits = F.linear(normed, table.to(normed.dtype))
    return (F.cross_entropy(logits.float(), targets, ignore_index=IGNORED, reduction="none") * weights).sum()


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the loss that may be compiled on their own, and whether attention is torch's fused kernel, which is
    the faster one on a GPU."""

    block: Callable[..., Tensor] = block
    head: Callable[..., Tensor] = head
    fused: bool = False

    @classmethod
    def on_cuda(cls, compiled: bool) -> Parts:
        """Return those for a GPU. One layer is compiled and no whole model: nine layers take nine times as long."""
        # Of the kernels that know a mask, the one that has known it longest.
        torch.backends.cuda.enable_cudnn_sdp(False)
        if not compiled:
            return cls(fused=True)
        return cls(torch.compile(block, dynamic=False), torch.compile(head, dynamic=False), True)


WHOLE = Parts()
"""None of them compiled: the caller may compile the loss as a whole."""


def packed_loss(
    model: LlamaForCausalLM,
    ids: Tensor,
    positions: Tensor,
    mask: Tensor,
    places: Tensor,
    targets: Tensor,
    weights: Tensor,
    parts: Parts = WHOLE,
) -> Tensor:
    """Return the weighted cross entropy at `places`, of the sequences that `mask` [B, 1, T, T] keeps apart."""
    config = model.config
    kind = torch.bfloat16
    hidden = F.embedding(ids, model.model.embed_tokens.weight)  # [B, T, D] float32
    angles = _angles(positions, config.head_dim, config.rope_parameters["rope_theta"])
    turns = angles.cos().to(kind), angles.sin().to(kind)
    bias = torch.zeros(1, device=ids.device, dtype=kind if parts.fused else None).where(mask, _HIDDEN)
    for layer in model.model.layers:
        hidden = parts.block(hidden, _weights(layer), turns, bias, config.head_dim, config.rms_norm_eps, parts.fused)
    asked = hidden.flatten(0, 1)[places]
    normed = _normed(asked, model.model.norm.weight, config.rms_norm_eps)
    return parts.head(normed, model.lm_head.weight, targets, weights)


def _weights(layer: Any) -> LayerWeights:
    """Return the weights of a layer of transformers in the order of `block`."""
    attention, mlp = layer.self_attn, layer.mlp
    of_attention = (attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj)
    projections = (*of_attention, mlp.gate_proj, mlp.up_proj, mlp.down_proj)
    norms = (layer.input_layernorm.weight, layer.post_attention_layernorm.weight)
    return (*norms, *(projection.weight for projection in projections))


def _angles(positions: Tensor, size: int, base: float) -> Tensor:
    """Return rotary angles, the halves of a head alike: [B, T] -> [B, 1, T, size]."""
    steps = torch.arange(0, size, 2, device=positions.device).float() / size
    half = positions[:, None, :, None] / base**steps
    return torch.cat((half, half), -1)


def _normed(hidden: Tensor, weight: Tensor, eps: float) -> Tensor:
    return (hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + eps) * weight).to(torch.bfloat16)


def _attended(
    normed: Tensor,
    inputs: tuple[Tensor, Tensor, Tensor],
    output: Tensor,
    turns: tuple[Tensor, Tensor],
    bias: Tensor,
    size: int,
    fused: bool,
) -> Tensor:
    rows, length, _ = normed.shape
    joined = F.linear(normed, torch.cat(inputs).to(normed.dtype))
    query, key, value = joined.view(rows, length, 3, -1, size).permute(2, 0, 3, 1, 4).unbind(0)
    query, key = _turned(query, turns), _turned(key, turns)
    if fused:
        seen = bias.expand(-1, query.size(1), -1, -1)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
    else:
        mixed = torch.softmax((query * size**-0.5 @ key.mT).float() + bias, -1).to(normed.dtype) @ value
    return F.linear(mixed.transpose(1, 2).reshape(rows, length, -1), output.to(normed.dtype))


def _turned(states: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
    first, second = states.chunk(2, -1)
    return states * turns[0] + torch.cat((-second, first), -1) * turns[1]


def _fed_forward(normed: Tensor, inputs: tuple[Tensor, Tensor], output: Tensor) -> Tensor:
    gate, up = F.linear(normed, torch.cat(inputs).to(normed.dtype)).chunk(2, -1)
    return F.linear(F.silu(gate) * up, output.to(normed.dtype))
