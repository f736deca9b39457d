"""Compute a dense decoder of the Llama family by code of our own: what `transformers` computes, in the same order.

Importing the modelling code of `transformers` takes longer than everything else of a start together. A checkpoint that
was loaded through it once on this machine (`engine.model.kept_load`) is computed here from then on. What differs
within the family is read off the tensors that a checkpoint holds: biases, norms of queries and keys, a head of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sluicegate.engine.attention.paged import AttentionStep, paged_attention
from sluicegate.engine.checkpoints.progress import report
from sluicegate.engine.checkpoints.stored_tensors import LazyTensor


class NotDenseError(ValueError):
    """Raised where tensors are not those of a dense decoder, so that `transformers` must load them or report the
    error."""


@dataclass(frozen=True, slots=True)
class DenseConfig:
    """What `transformers` made of a config.json, as far as a dense decoder needs it. Names are those of the file."""

    model_type: str
    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    max_position_embeddings: int
    rms_norm_eps: float
    hidden_act: str
    tie_word_embeddings: bool
    rope_parameters: Mapping[str, Any]
    eos_token_id: int | list[int] | None

    def get_text_config(self, decoder: bool = False) -> DenseConfig:
        """Return itself: a dense decoder reads nothing but text."""
        return self


@dataclass(frozen=True, slots=True)
class DenseHeads:
    """How attention is computed: by `count` heads of `dim` numbers, on positions turned by `turns` (float32 [dim / 2])
    times the position, `turned_by` times their cosines and sines."""

    dim: int
    count: int
    kv_count: int
    turns: Tensor
    turned_by: float


class DenseOutput(NamedTuple):
    """Of the layers [1, T, d], or of the whole [1, R, V]; the other is empty."""

    last_hidden_state: Tensor
    logits: Tensor


class _Norm(nn.Module):
    def __init__(self, weight: Tensor, epsilon: float) -> None:
        super().__init__()
        self.weight = _fixed(weight)
        self.variance_epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        scaled: Tensor = self.weight * wide.to(x.dtype)
        return scaled


class _Rotary(nn.Module):
    def __init__(self, heads: DenseHeads) -> None:
        super().__init__()
        self.inv_freq: Tensor
        self.register_buffer("inv_freq", heads.turns, persistent=False)
        self.attention_scaling = heads.turned_by

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines [1, T, D] for positions [1, T], in the dtype of `x`."""
        angles = position_ids[..., None].float() * self.inv_freq
        angles = torch.cat((angles, angles), dim=-1)
        return (angles.cos() * self.attention_scaling).to(x.dtype), (angles.sin() * self.attention_scaling).to(x.dtype)


class _Attention(nn.Module):
    def __init__(self, tensors: TensorTaker, name: str, heads: DenseHeads, epsilon: float, index: int) -> None:
        super().__init__()
        self.layer_idx, self.head_dim, self.scaling = index, heads.dim, heads.dim**-0.5
        self.q_proj = tensors.linear(f"{name}.q_proj", heads.count * heads.dim)
        self.k_proj = tensors.linear(f"{name}.k_proj", heads.kv_count * heads.dim)
        self.v_proj = tensors.linear(f"{name}.v_proj", heads.kv_count * heads.dim)
        self.o_proj = tensors.linear(f"{name}.o_proj", self.q_proj.in_features)
        if f"{name}.q_norm.weight" in tensors.left:
            self.q_norm = tensors.norm(f"{name}.q_norm", epsilon)
            self.k_norm = tensors.norm(f"{name}.k_norm", epsilon)

    def forward(self, x: Tensor, turns: tuple[Tensor, Tensor], paged: AttentionStep | None) -> Tensor:
        query, key, value = (
            layer(x).view(*x.shape[:-1], -1, self.head_dim) for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        if hasattr(self, "q_norm"):
            query, key = self.q_norm(query), self.k_norm(key)
        query, key, value = (part.transpose(1, 2) for part in (query, key, value))  # [1, heads, T, D]
        cosines, sines = (turn.unsqueeze(1) for turn in turns)
        query, key = query * cosines + _half_turned(query) * sines, key * cosines + _half_turned(key) * sines
        out, _ = paged_attention(self, query, key, value, paged=paged, scaling=self.scaling)
        mixed: Tensor = self.o_proj(out.reshape(*x.shape[:-1], -1).contiguous())
        return mixed


def _half_turned(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


class _Gated(nn.Module):
    def __init__(self, tensors: TensorTaker, name: str, hidden: int) -> None:
        super().__init__()
        self.gate_proj = tensors.linear(f"{name}.gate_proj")
        self.up_proj = tensors.linear(f"{name}.up_proj", self.gate_proj.out_features)
        self.down_proj = tensors.linear(f"{name}.down_proj", hidden)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class _Layer(nn.Module):
    def __init__(self, tensors: TensorTaker, config: DenseConfig, heads: DenseHeads, index: int) -> None:
        super().__init__()
        name = f"model.layers.{index}"
        self.self_attn = _Attention(tensors, f"{name}.self_attn", heads, config.rms_norm_eps, index)
        self.mlp = _Gated(tensors, f"{name}.mlp", config.hidden_size)
        self.input_layernorm = tensors.norm(f"{name}.input_layernorm", config.rms_norm_eps)
        self.post_attention_layernorm = tensors.norm(f"{name}.post_attention_layernorm", config.rms_norm_eps)

    def forward(self, x: Tensor, turns: tuple[Tensor, Tensor], paged: AttentionStep | None) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), turns, paged)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class _Layers(nn.Module):
    def __init__(self, tensors: TensorTaker, config: DenseConfig, heads: DenseHeads) -> None:
        super().__init__()
        self.embed_tokens = tensors.embedding("model.embed_tokens", config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(_Layer(tensors, config, heads, index) for index in range(config.num_hidden_layers))
        self.norm = tensors.norm("model.norm", config.rms_norm_eps)
        self.rotary_emb = _Rotary(heads)

    def forward(
        self, input_ids: Tensor, position_ids: Tensor, use_cache: bool = False, paged: AttentionStep | None = None
    ) -> DenseOutput:
        x = self.embed_tokens(input_ids)
        turns = self.rotary_emb(x, position_ids)
        for layer in self.layers:
            x = layer(x, turns, paged)
        return DenseOutput(self.norm(x), torch.empty(0))


class DenseDecoder(nn.Module):
    """A decoder with the names and the calls of the Llama family in `transformers`, as far as the engine uses them.
    `use_cache` is taken and means nothing: keys and values are in the engine's pool, or `paged` says where."""

    def __init__(self, tensors: Mapping[str, LazyTensor], config: DenseConfig, heads: DenseHeads) -> None:
        """Read the tensors. Raises `NotDenseError` if one is missing or misshapen. Extra ones are ignored:
        `transformers` has checked them at the first load."""
        super().__init__()
        shelf = TensorTaker(dict(tensors))
        self.config = config
        self.generation_config: Any = None
        """The fields of generation_config.json that the engine reads."""
        self.model = _Layers(shelf, config, heads)
        if config.tie_word_embeddings:
            self.lm_head = _linear(self.model.embed_tokens.weight, None)
        else:
            self.lm_head = shelf.linear("lm_head", config.vocab_size)

    @property
    def base_model(self) -> nn.Module:
        return self.model

    @property
    def dtype(self) -> torch.dtype:
        return self.model.norm.weight.dtype

    @property
    def device(self) -> torch.device:
        return self.model.norm.weight.device

    def get_input_embeddings(self) -> Any:
        return self.model.embed_tokens

    def get_output_embeddings(self) -> Any:
        return self.lm_head

    def set_input_embeddings(self, layer: Any) -> None:
        self.model.embed_tokens = layer

    def set_output_embeddings(self, layer: Any) -> None:
        self.lm_head = layer

    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        use_cache: bool = False,
        logits_to_keep: int | Tensor = 0,
        paged: AttentionStep | None = None,
    ) -> DenseOutput:
        """Return logits [1, R, V] of the places `logits_to_keep` [R], or of as many last tokens; 0 = of all."""
        states = self.model(input_ids, position_ids, paged=paged).last_hidden_state
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        return DenseOutput(torch.empty(0), self.lm_head(states[:, kept]))


class TensorTaker:
    """Tensors of a checkpoint, taken one after another into layers. Each method raises `NotDenseError`."""

    def __init__(self, left: dict[str, LazyTensor]) -> None:
        self.left = left
        self._count = len(left)

    def linear(self, name: str, out: int | None = None) -> nn.Linear:
        """Take a layer with `out` outputs, None = as many as it has."""
        bias = self._taken(f"{name}.bias") if f"{name}.bias" in self.left else None
        weight = self._taken(f"{name}.weight")
        fits = weight.dim() == 2 and out in (None, weight.shape[0]) and (bias is None or len(bias) == len(weight))
        if not fits:
            raise NotDenseError(f"{name} is {list(weight.shape)}")
        return _linear(weight, bias)

    def norm(self, name: str, epsilon: float) -> _Norm:
        return _Norm(self._taken(f"{name}.weight"), epsilon)

    def embedding(self, name: str, count: int, width: int) -> nn.Embedding:
        weight = self._taken(f"{name}.weight")
        if list(weight.shape) != [count, width]:
            raise NotDenseError(f"{name} is {list(weight.shape)}")
        return nn.Embedding(count, width, _weight=weight, _freeze=True)

    def _taken(self, name: str) -> Tensor:
        if name not in self.left:
            raise NotDenseError(f"{name} is missing")
        found = self.left.pop(name)[...].to(torch.float32)
        report(self._count - len(self.left), self._count)
        return found


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """Return a layer that computes with these numbers, not with a copy of them."""
    made = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    made.weight = weight if isinstance(weight, nn.Parameter) else _fixed(weight)
    if bias is not None:
        made.bias = _fixed(bias)
    return made


def _fixed(tensor: Tensor) -> nn.Parameter:
    return nn.Parameter(tensor, requires_grad=False)
