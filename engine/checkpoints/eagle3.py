"""Read EAGLE-3 draft heads as they are published, and compute them.

A head is one decoder layer that reads a token and a state: at first three of the model's own states, brought to one
width, then what it made itself of the token before (Li et al., "EAGLE-3", 2025). Published folders hold a `config.json`
of the Llama family and tensors named `midlayer.*` (SafeAILab, SGLang) or `layers.0.*` (speculators of vLLM). Its
vocabulary may be a part of the model's: `d2t` says how far after its own number each token's is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sluicegate.engine.attention.paged import AttentionStep, Scoring
from sluicegate.engine.checkpoints.plausible import refuse_codes, refuse_positions
from sluicegate.engine.checkpoints.stored_tensors import stored_tensors
from sluicegate.engine.memory.kv import LayerShape
from sluicegate.plugins import ModelLoadError

_CONFIG, _WHOLE, _PICKLED = "config.json", "model.safetensors", "pytorch_model.bin"
_PROJECTIONS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
                "mlp.up_proj", "mlp.down_proj")  # fmt: skip
_UNSERVED = ("norm_before_fc", "fc_norm", "norm_output", "parallel_drafting")
"""Fields that change what is computed, in a way that is not known here."""


def is_eagle3(path: Path) -> bool:
    """Return whether `path` is a folder whose configuration names EAGLE-3 heads."""
    return (path / _CONFIG).exists() and "eagle3" in (path / _CONFIG).read_text(encoding="utf-8").lower()


class Eagle3:
    """Draft heads of one model. Immutable; computes on the model's device, in its dtype."""

    def __init__(self, tensors: Mapping[str, Tensor], config: Any, said: Mapping[str, Any], module: Any) -> None:
        """Take `tensors` by the names `read_eagle3` uses; `config`: a `LlamaConfig` of the layer; `said`: the other
        fields of the heads' config.json."""
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

        self.layers = _aux_layers(said, module.config.get_text_config(decoder=True).num_hidden_layers)
        """Whose states it reads, in this order; 1 = behind the first."""
        self._order = [sorted({*self.layers}).index(layer) for layer in self.layers]
        self.width = int(config.hidden_size)
        dim = tensors["self_attn.q_proj.weight"].shape[0] // config.num_attention_heads
        self.shape = LayerShape(config.num_key_value_heads, dim, dim, config.num_attention_heads)
        self._tensors = tensors
        self._module = module
        self._epsilon = float(config.rms_norm_eps)
        self._is_even = bool(said.get("norm_before_residual", False))
        self._rotary = LlamaRotaryEmbedding(config).to(module.device)
        places = torch.arange(len(tensors["lm_head.weight"]), device=module.device)
        self._targets = places + tensors["d2t"] if "d2t" in tensors else places
        self._vocab = int(module.get_output_embeddings().out_features)

    def features(self, states: Seq[Tensor]) -> Tensor:
        """Project `states` [T, D] of each of its layers, lowest first, to one state [T, d]."""
        return self._product("fc", torch.cat([states[at].to(self._dtype) for at in self._order], -1))

    def advance(self, tokens: Tensor, states: Tensor, positions: Tensor, step: AttentionStep) -> Tensor:
        """Return the head's state [T, d] after each of `tokens` [T], given the state before it: `states` [T, d]."""
        normed = self._norm("hidden_norm", states)
        read = torch.cat([self._norm("input_layernorm", self._embedded(tokens)), normed], -1)
        residual = (normed if self._is_even else states) + self._attended(read, positions, step)
        inner = self._norm("post_attention_layernorm", residual)
        gated = torch.nn.functional.silu(self._product("mlp.gate_proj", inner)) * self._product("mlp.up_proj", inner)
        return residual + self._product("mlp.down_proj", gated)

    def logits(self, states: Tensor) -> Tensor:
        """Return logits [R, V] float32 of the tokens after `states` [R, d]; -inf outside the head's vocabulary."""
        own = self._product("lm_head", self._norm("norm", states)).float()
        found = own.new_full((len(own), self._vocab), float("-inf"))
        return found.index_copy_(1, self._targets, own)

    @property
    def _dtype(self) -> torch.dtype:
        return self._tensors["fc.weight"].dtype

    def _embedded(self, tokens: Tensor) -> Tensor:
        if (own := self._tensors.get("embed_tokens.weight")) is not None:
            return own[tokens]
        found: Tensor = self._module.get_input_embeddings()(tokens)
        return found.to(self._dtype)

    def _attended(self, read: Tensor, positions: Tensor, step: AttentionStep) -> Tensor:
        from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

        query, key, value = (
            self._product(f"self_attn.{name}_proj", read).unflatten(-1, (-1, self.shape.key_dim)).transpose(0, 1)[None]
            for name in "qkv"
        )
        query, key = apply_rotary_pos_emb(query, key, *self._rotary(read, positions[None]))
        out = step.attend(0, query, key, value, Scoring(self.shape.key_dim**-0.5))
        return self._product("self_attn.o_proj", out.reshape(len(out), -1))

    def _product(self, name: str, given: Tensor) -> Tensor:
        weights = self._tensors[f"{name}.weight"]
        return torch.nn.functional.linear(given, weights, self._tensors.get(f"{name}.bias"))

    def _norm(self, name: str, given: Tensor) -> Tensor:
        whole = given.float()
        even = whole * torch.rsqrt(whole.square().mean(-1, keepdim=True) + self._epsilon)
        return self._tensors[f"{name}.weight"] * even.to(given.dtype)


def read_eagle3(folder: Path, module: Any) -> Eagle3:
    """Read EAGLE-3 heads for `module`. Raises `ModelLoadError` naming the tensors that do not fit."""
    from transformers import LlamaConfig

    try:
        said = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
        config = LlamaConfig.from_dict(dict(said.get("transformer_layer_config") or said))
        stored = _stored(folder)
        tensors = {_own_name(name): tensor for name, tensor in stored.items()}
    except ModelLoadError:
        raise
    except Exception as error:
        raise ModelLoadError(
            f"no EAGLE-3 heads could be read from {str(folder)!r} ({type(error).__name__}: {error}); fetch the folder "
            "anew, or leave out `heads`"
        ) from error
    if len(tensors) < len(stored):
        raise ModelLoadError(f"the EAGLE-3 heads {str(folder)!r} hold a tensor under two names; fetch the folder anew")
    refuse_codes(tensors, str(folder))
    refuse_positions(config, str(folder))
    odd = [f"{name} = {said[name]}" for name in _UNSERVED if said.get(name)]
    if odd or config.num_hidden_layers != 1:
        raise ModelLoadError(
            f"the EAGLE-3 heads {str(folder)!r} have {', '.join(odd) or f'{config.num_hidden_layers} layers'}, which "
            "is not computed here; served are heads of one layer without it"
        )
    _refuse_unfitting(tensors, config, module, folder)
    place, dtype = module.device, module.dtype
    fitted = {n: t.to(place, dtype if t.is_floating_point() else None) for n, t in tensors.items() if n != "t2d"}
    heads = Eagle3(fitted, config, {**said.get("eagle_config", {}), **said}, module)
    _refuse_mute(heads, module, folder)
    return heads


@torch.inference_mode()
def _refuse_mute(heads: Eagle3, module: Any, folder: Path) -> None:
    """Raise `ModelLoadError` where heads guess nothing, whatever they read."""
    wide = module.config.get_text_config(decoder=True).hidden_size
    states = [torch.linspace(-1, 1, wide, device=module.device).expand(1, -1) for _ in {*heads.layers}]
    found = heads.logits(heads.features(states))
    if bool(found.isnan().any()) or not bool((found > -torch.inf).any()):
        raise ModelLoadError(
            f"the EAGLE-3 heads {str(folder)!r} compute logits that are NaN; they are damaged, or a number in their "
            "config.json is wrong. Fetch the folder anew"
        )


def _stored(folder: Path) -> dict[str, Tensor]:
    if (folder / _WHOLE).exists():
        return {name: one.read() for name, one in stored_tensors([folder / _WHOLE], str(folder)).items()}
    found: dict[str, Tensor] = torch.load(folder / _PICKLED, map_location="cpu", weights_only=True)
    return found


def _own_name(name: str) -> str:
    for prefix in ("midlayer.", "layers.0."):
        name = name.removeprefix(prefix)
    return name


def _aux_layers(said: Mapping[str, Any], count: int) -> tuple[int, ...]:
    """Return the layers before which states are read, counted from 0: from the configuration, else EAGLE's defaults."""
    given = said.get("eagle_aux_hidden_state_layer_ids")
    if given is not None and not (isinstance(given, list) and all(type(layer) is int for layer in given)):
        raise ModelLoadError(
            f"the EAGLE-3 heads read states before {given!r} (eagle_aux_hidden_state_layer_ids); expected three "
            "numbers of layers"
        )
    found = tuple(given) if given else (2, count // 2, count - 3)
    if len(found) != 3:
        raise ModelLoadError(f"the EAGLE-3 heads read states before {len(found)} layers; heads that read 3 are served")
    if not all(1 <= layer <= count for layer in found):
        raise ModelLoadError(
            f"the EAGLE-3 heads read states before the layers {', '.join(map(str, found))} of {count}; they are "
            "another model's: name heads of this one"
        )
    return found


def _refuse_unfitting(tensors: Mapping[str, Tensor], config: Any, module: Any, folder: Path) -> None:
    """Raise `ModelLoadError` where tensors are missing, unknown, or of another shape than the model's."""
    wide, vocab = module.config.get_text_config(decoder=True).hidden_size, module.get_output_embeddings().out_features
    needed = _shapes(tensors, config, wide)
    allowed = {**needed, "embed_tokens.weight": (vocab, config.hidden_size), "d2t": needed["lm_head.weight"][:1],
               "t2d": (vocab,), **{f"{name}.bias": needed[f"{name}.weight"][:1] for name in _PROJECTIONS}}  # fmt: skip
    faults = [f"{name} is missing" for name in needed if name not in tensors]
    faults += [f"{name} has no place" for name in tensors if name not in allowed]
    faults += [
        f"{name} is {list(tensor.shape)}, not {list(allowed[name])}"
        for name, tensor in tensors.items()
        if name in allowed and tuple(tensor.shape) != tuple(allowed[name])
    ]
    if "embed_tokens.weight" not in tensors and wide != config.hidden_size:
        faults.append(f"it is {config.hidden_size} wide without embed_tokens.weight, and the model {wide}")
    if not faults:
        count = needed["lm_head.weight"][0]
        targets = torch.arange(count) + tensors["d2t"] if "d2t" in tensors else torch.arange(count)
        if len(targets.unique()) < count or not 0 <= int(targets.min()) <= int(targets.max()) < vocab:
            faults.append(f"its {count} tokens are not so many of the model's {vocab}")
        faults += [f"{n} is not finite" for n, t in tensors.items() if t.is_floating_point() and not t.isfinite().all()]
    if faults:
        more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
        raise ModelLoadError(
            f"the EAGLE-3 heads {str(folder)!r} do not fit the model: {'; '.join(faults[:3])}{more}; name heads that "
            "were made for it, or leave out `heads`"
        )


def _shapes(tensors: Mapping[str, Tensor], config: Any, wide: int) -> dict[str, tuple[int, ...]]:
    """Return the expected shape of each required tensor."""
    d, inner = int(config.hidden_size), int(config.intermediate_size)
    dim = getattr(config, "head_dim", None) or d // config.num_attention_heads
    heads, kv = config.num_attention_heads * dim, config.num_key_value_heads * dim
    rows = len(tensors["lm_head.weight"]) if "lm_head.weight" in tensors else 0
    shapes = ((heads, 2 * d), (kv, 2 * d), (kv, 2 * d), (d, heads), (inner, d), (inner, d), (d, inner))
    found: dict[str, tuple[int, ...]] = {f"{n}.weight": s for n, s in zip(_PROJECTIONS, shapes, strict=True)}
    norms = ("hidden_norm", "input_layernorm", "post_attention_layernorm", "norm")
    return found | {f"{n}.weight": (d,) for n in norms} | {"fc.weight": (d, 3 * wide), "lm_head.weight": (rows, d)}
