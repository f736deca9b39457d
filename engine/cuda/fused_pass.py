"""Compute a decoder of the Llama family with ten launches a layer, nine where there are few rows: four products,
attention in two, and what lies between them in four or three.

Served are Llama, Mistral, Qwen2 and Qwen3, dense. A module that is not built exactly as expected is left to
`transformers`' own code: `fused_pass` returns None.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from sluicegate.engine.attention.paged import Scoring
from sluicegate.engine.cuda import few_rows
from sluicegate.engine.cuda.fused_launches import gated, normalised, placed
from sluicegate.engine.cuda.small_layers import CudaSmallLinear
from sluicegate.engine.memory.kv import KVPool, LayerShape

FAMILIES = {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}
Product = Callable[[Tensor], Tensor]
"""Maps rows [T, i] to rows [T, o]."""


class StoredAttention(Protocol):
    """Attention of a step whose keys and values are in the pool already; see `engine.cuda.layout`."""

    @property
    def slots(self) -> Tensor: ...
    def attend_stored(self, layer: int, query: Tensor, scoring: Scoring) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class _FusedNorm:
    weight: Tensor
    epsilon: float

    @classmethod
    def of(cls, layer: Any) -> _FusedNorm:
        return cls(layer.weight, float(layer.variance_epsilon))

    def __call__(self, x: Tensor, added: Tensor | None = None) -> Tensor:
        return normalised(x, added, self.weight, self.epsilon)


@dataclass(frozen=True, slots=True)
class _FusedLayer:
    """What one layer computes with; `after` is the norm behind its MLP: that of the next layer, or the last."""

    whole: Any
    qkv: Product
    mix: Product
    acts: Product
    """Maps rows to silu(gate) * up."""
    down: Product
    between: _FusedNorm
    after: _FusedNorm
    norms: tuple[Tensor, Tensor] | None
    epsilon: float
    scoring: Scoring

    @classmethod
    def of(cls, whole: Any, after: Any, shape: LayerShape) -> _FusedLayer:
        attention = whole.self_attn
        norms = (attention.q_norm, attention.k_norm) if hasattr(attention, "q_norm") else None
        return cls(
            whole,
            join(_readers(attention)),
            join([attention.o_proj]),
            join_gate(_gates(whole.mlp)),
            join([whole.mlp.down_proj]),
            _FusedNorm.of(whole.post_attention_layernorm),
            _FusedNorm.of(after),
            None if norms is None else (norms[0].weight, norms[1].weight),
            0.0 if norms is None else float(norms[0].variance_epsilon),
            Scoring(float(attention.scaling), shape.window),
        )

    def products(self, normed: Tensor, adapted: bool) -> Tensor:
        """Return queries, keys and values [T, (H + 2 H_kv) D]."""
        return _apart(_readers(self.whole.self_attn), normed) if adapted else self.qkv(normed)

    def mixed(self, heads: Tensor, adapted: bool) -> Tensor:
        """Project the heads' attention outputs [T, H D] to the output of attention [T, d]."""
        return _apart([self.whole.self_attn.o_proj], heads) if adapted else self.mix(heads)

    def fed_forward(self, normed: Tensor, adapted: bool) -> Tensor:
        """Return the output of the MLP [T, d]."""
        if not adapted:
            return self.down(self.acts(normed))
        return _apart([self.whole.mlp.down_proj], gated(_apart(_gates(self.whole.mlp), normed)))


class FusedPass:
    """The forward pass of one module over one pool. For one thread at a time, under `torch.inference_mode`."""

    def __init__(self, module: Any, pool: KVPool) -> None:
        self._module = module
        self._pool = pool
        layers = list(module.model.layers)
        afters = [layer.input_layernorm for layer in layers[1:]] + [module.model.norm]
        self._first = _FusedNorm.of(layers[0].input_layernorm)
        self._layers = [_FusedLayer.of(*of) for of in zip(layers, afters, pool.layers, strict=True)]

    def logits(
        self, ids: Tensor, positions: Tensor, wanted: Tensor | None, paged: StoredAttention, *, adapted: bool = False
    ) -> Tensor:
        """Return logits [R, V] in the model's dtype, of `ids` [T] at `positions` [T], at the places `wanted` [R]; None
        = of all. `adapted`: hooks on single layers add products of adapters, so that none of them may be joined."""
        model = self._module.model
        x = model.embed_tokens(ids[None])[0]  # [T, d], changed in place from here on
        cosines, sines = (turn[0].contiguous() for turn in model.rotary_emb(x[None], positions[None]))
        normed = self._first(x)
        for index, layer in enumerate(self._layers):
            qkv = layer.products(normed, adapted)
            query = placed(self._pool, index, paged.slots, qkv, (cosines, sines), layer.norms, layer.epsilon)
            heads = paged.attend_stored(index, query, layer.scoring).flatten(1)  # [T, H D]
            normed = layer.between(x, layer.mixed(heads, adapted))
            normed = layer.after(x, layer.fed_forward(normed, adapted))
        states = normed if wanted is None else normed[wanted]
        logits: Tensor = self._module.lm_head(states[None])[0]
        return logits


def fused_pass(module: Any, pool: KVPool) -> FusedPass | None:
    """Return the fused pass, or None where it does not support the module."""
    if type(module).__name__ not in FAMILIES or not _is_plain(module):
        return None
    if any(layer.key_dim != layer.value_dim or layer.key_dim % 2 or layer.needs_reference for layer in pool.layers):
        return None
    return FusedPass(module, pool)


def _is_plain(module: Any) -> bool:
    rope = module.config.rope_parameters or {}
    if module.config.hidden_act != "silu" or rope.get("rope_type", "default") in ("dynamic", "longrope"):
        return False
    return all(can_join(_readers(layer.self_attn)) and can_join(_gates(layer.mlp)) for layer in module.model.layers)


def _readers(attention: Any) -> list[Any]:
    return [attention.q_proj, attention.k_proj, attention.v_proj]


def _gates(mlp: Any) -> list[Any]:
    return [mlp.gate_proj, mlp.up_proj]


def _apart(layers: list[Any], normed: Tensor) -> Tensor:
    """Compute each product with its own layer, so that hooks run."""
    return torch.cat([layer(normed[None])[0] for layer in layers], -1)


def can_join(layers: Seq[Any]) -> bool:
    """Return whether the layers are of one kind, and all of them have a bias or none."""
    kinds = {(type(layer), layer.in_features, layer.bias is None) for layer in layers}
    return len(kinds) == 1 and type(layers[0]) in (nn.Linear, CudaSmallLinear)


@torch.inference_mode(False)
@torch.no_grad()
def join(layers: Seq[Any]) -> Product:
    """Return the product with all `layers`, their outputs beside one another. Their weights become parts of one tensor,
    where they are not yet."""
    bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
    if isinstance(layers[0], CudaSmallLinear):
        data, scales = (_together(layers, name) for name in ("data", "scales"))
        return CudaSmallLinear.of(data, scales, bias, layers[0])
    weight = _together(layers, "weight")

    def product(x: Tensor) -> Tensor:
        if few_rows.takes(x, weight):
            return few_rows.product(x, weight, bias)
        return nn.functional.linear(x, weight, bias)

    return product


@torch.inference_mode(False)
@torch.no_grad()
def join_gate(layers: Seq[Any]) -> Product:
    """Return a function that computes silu(gate) * up [T, n] of both layers, joined as in `join`."""
    both = join(layers)
    if isinstance(layers[0], CudaSmallLinear) or layers[0].bias is not None:
        return lambda x: gated(both(x))
    weight = _together(layers, "weight")

    def acts(x: Tensor) -> Tensor:
        return few_rows.gated_product(x, weight) if few_rows.takes(x, weight, gated=True) else gated(both(x))

    return acts


def _together(layers: Seq[Any], name: str) -> Tensor:
    """Return all rows of these tensors of the layers as one tensor, and let theirs be its rows."""
    parts: list[Tensor] = [getattr(layer, name) for layer in layers]
    first, ends = parts[0].detach(), [part.storage_offset() + part.numel() for part in parts]
    same = len({part.untyped_storage().data_ptr() for part in parts}) == 1
    if not same or any(part.storage_offset() != end for part, end in zip(parts[1:], ends, strict=False)):
        first = torch.cat([part.detach() for part in parts])
        for layer, part, rows in zip(layers, parts, first.split([len(part) for part in parts]), strict=True):
            setattr(layer, name, nn.Parameter(rows, requires_grad=False) if isinstance(part, nn.Parameter) else rows)
    return first.as_strided((sum(map(len, parts)), *first.shape[1:]), first.stride())
