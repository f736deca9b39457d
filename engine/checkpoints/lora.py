"""Read LoRA adapters as `peft` writes them, check them against a model, merge them into its weights: W + scale * B A.

Read with safetensors alone. What low-rank factors cannot express, or would express wrongly, is refused with the reason:
other kinds of adapters, magnitudes (DoRA), trained biases, tokens of its own, factors that belong to changed weights.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sluicegate.engine.checkpoints.fitting import refuse_no_numbers
from sluicegate.engine.checkpoints.stored_tensors import stored_tensors
from sluicegate.plugins import ModelLoadError

_PREFIX = "base_model.model."
_FACTOR = re.compile(r"(?P<module>.+)\.lora_(?P<side>A|B|embedding_A|embedding_B)(\.weight)?")
_USES = ("use_rslora", "use_dora", "use_qalora", "use_cache")
_CONFIGS = ("megatron_config", "loftq_config", "eva_config", "corda_config", "runtime_config", "lora_ga_config")
_ABSURD = 1e20
_CHANGES_THE_BASE = ("pissa", "olora", "corda", "loftq")
"""Initialisations that take a part out of the base weights: such factors are wrong beside unchanged weights."""


@dataclass(frozen=True, slots=True, eq=False)
class LowRank:
    """An adapter's addition to a layer's output: `up @ (down @ x)`. For an embedding, `down` has one column per
    token."""

    down: Tensor
    """[r, in]."""
    up: Tensor
    """[out, r], the scale included."""

    @property
    def rank(self) -> int:
        return len(self.down)


def merge_adapter(module: Any, folder: Path) -> None:
    """Add the adapter in `folder` to the weights of `module`. Raises `ModelLoadError`; nothing has changed then."""
    factors = read_adapter(module, folder)
    for name in factors:
        _refuse_shared(module, name, folder)
    with torch.no_grad():
        for name, pair in factors.items():
            target, update = module.get_submodule(name), pair.up @ pair.down
            target.weight.add_((update.T if _is_transposed(target) else update).to(target.weight))


def read_adapter(module: Any, folder: Path) -> dict[str, LowRank]:
    """Return the factors by layer name, checked against `module`. Raises `ModelLoadError`."""
    config = _config(folder)
    found = {name: _pair(module, name, pair, config, folder) for name, pair in _factors(module, folder).items()}
    if not found:
        raise ModelLoadError(f"the adapter {str(folder)!r} has no weights; expected names that end in lora_A.weight")
    return found


def adapter_folder(path_or_name: str) -> Path:
    """Return the local folder of an adapter, downloading one named on the Hugging Face hub. Raises `ModelLoadError`."""
    if Path(path_or_name).is_dir():
        return Path(path_or_name)
    from transformers.utils import cached_file

    try:
        cached_file(path_or_name, "adapter_model.safetensors")
        return Path(str(cached_file(path_or_name, "adapter_config.json"))).parent
    except Exception as error:
        raise ModelLoadError(
            f"the adapter {path_or_name!r} is no folder and not to be had from the hub: {error}"
        ) from error


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "adapter_config.json"
    if not path.exists() or not (folder / "adapter_model.safetensors").exists():
        raise ModelLoadError(
            f"{str(folder)!r} is no adapter: expected adapter_config.json and adapter_model.safetensors"
        )
    try:
        config: Any = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelLoadError(f"adapter_config.json of the adapter {str(folder)!r} is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise ModelLoadError(f"adapter_config.json of the adapter {str(folder)!r} is no JSON object")
    if config.get("peft_type") != "LORA":
        raise ModelLoadError(f"the adapter {str(folder)!r} is of type {config.get('peft_type')}; only LORA is served")
    refused = {
        **{name: value for name, value in config.items() if _is_strange(name)},
        "use_dora": config.get("use_dora"),
        "bias": config.get("bias", "none") != "none",
        "lora_bias": config.get("lora_bias"),
        "modules_to_save": config.get("modules_to_save"),
        "trainable_token_indices": config.get("trainable_token_indices"),
        "target_parameters": config.get("target_parameters"),
        "layer_replication": config.get("layer_replication"),
        "use_qalora": config.get("use_qalora"),
        "alora_invocation_tokens": config.get("alora_invocation_tokens"),
        f"init_lora_weights = {config.get('init_lora_weights')!r}": _changes_the_base(config),
    }
    if found := [name for name, value in refused.items() if value]:
        raise ModelLoadError(
            f"the adapter {str(folder)!r} uses {', '.join(found)}, which plain LoRA does not express; "
            "merge it into the checkpoint with peft first"
        )
    _check_numbers(config, folder)
    return config


def _is_strange(name: str) -> bool:
    """Return whether a field may change what an adapter computes in a way that is not known here. Fields that say how
    it was trained do not."""
    return (name.startswith("use_") and name not in _USES) or (name.endswith("_config") and name not in _CONFIGS)


def _check_numbers(config: dict[str, Any], folder: Path) -> None:
    """Raise `ModelLoadError` for ranks and scales that are none. A pattern's value counts for the layers it names."""
    alphas, ranks = (config.get(name) or {} for name in ("alpha_pattern", "rank_pattern"))
    if not (isinstance(alphas, dict) and isinstance(ranks, dict)):
        raise ModelLoadError(f"the adapter {str(folder)!r}: alpha_pattern and rank_pattern are objects of numbers")
    for name, value in (("lora_alpha", config.get("lora_alpha")), *alphas.items()):
        if type(value) not in (int, float) or not math.isfinite(value):
            raise ModelLoadError(f"the adapter {str(folder)!r} has the scale {name} = {value!r}; expected a number")
    for name, value in (("r", config.get("r", 1)), *ranks.items()):
        if type(value) is not int or value < 1:
            raise ModelLoadError(f"the adapter {str(folder)!r} has the rank {name} = {value!r}; expected 1 or more")
    for pattern in (*alphas, *ranks):
        try:
            re.compile(_layers(pattern))
        except re.error as error:
            raise ModelLoadError(f"the adapter {str(folder)!r} names layers by {pattern!r}: {error}") from error


def _changes_the_base(config: dict[str, Any]) -> bool:
    start = config.get("init_lora_weights")
    return isinstance(start, str) and start.lower().startswith(_CHANGES_THE_BASE)


def _factors(module: Any, folder: Path) -> dict[str, dict[str, Tensor]]:
    """Return module name -> its A [r, in] and B [out, r]."""
    from safetensors.torch import load_file

    path = folder / "adapter_model.safetensors"
    stored_tensors([path], str(folder))  # says what is wrong with a file that is not whole
    found: dict[str, dict[str, Tensor]] = {}
    for name, tensor in load_file(path).items():
        refuse_no_numbers(name, tensor, str(folder))
        if _is_the_models_own(module, name.removeprefix(_PREFIX), tensor):
            continue
        if not tensor.is_floating_point() or tensor.itemsize < 2 or tensor.ndim != 2:
            raise ModelLoadError(
                f"the adapter {str(folder)!r} holds {name!r} as {list(tensor.shape)} numbers in {tensor.dtype}; "
                "expected a matrix in float32 or half precision"
            )
        match = _FACTOR.fullmatch(name.removeprefix(_PREFIX))
        if match is None:
            raise ModelLoadError(f"the adapter {str(folder)!r} holds {name!r}, which is no factor of a LoRA; refused")
        pair, side = found.setdefault(match["module"], {}), match["side"].removeprefix("embedding_")
        if side in pair:
            raise ModelLoadError(f"the adapter {str(folder)!r} holds lora_{side} of {match['module']!r} twice")
        pair[side] = tensor
    return found


def _is_the_models_own(module: Any, name: str, tensor: Tensor) -> bool:
    """Return whether an embedding in the adapter equals the model's: peft saves an adapted embedding, and only an
    unchanged one may be skipped."""
    if not name.endswith(".base_layer.weight"):
        return False
    kept = dict(module.named_parameters()).get(name.replace(".base_layer.weight", ".weight"))
    return kept is not None and kept.shape == tensor.shape and bool(torch.equal(tensor.to(kept), kept))


def _pair(module: Any, name: str, pair: dict[str, Tensor], config: dict[str, Any], folder: Path) -> LowRank:
    """Return a layer's factors, scaled; `pair`: its A [r, in] and B [out, r]. Raises `ModelLoadError`."""
    try:
        target = module.get_submodule(name)
    except AttributeError as error:
        raise ModelLoadError(f"the adapter {str(folder)!r} is for another model: there is no {name!r} here") from error
    if set(pair) != {"A", "B"}:
        raise ModelLoadError(f"the adapter {str(folder)!r} has only lora_{min(pair)} for {name!r}; both are needed")
    if (widths := layer_widths(target)) is None:
        raise ModelLoadError(
            f"the adapter {str(folder)!r} changes {name!r}, a {type(target).__name__}; only linear layers and "
            "embeddings can be changed"
        )
    if not len(pair["A"]):
        raise ModelLoadError(f"the adapter {str(folder)!r} changes {name!r} with rank 0, so not at all; leave it out")
    down, up = pair["A"].float(), pair["B"].float() * _scale(name, len(pair["A"]), config)
    if (down.shape[1], len(up)) != widths or len(down) != up.shape[1]:
        raise ModelLoadError(
            f"the adapter {str(folder)!r} changes {name!r} in shape {(down.shape[1], len(up))}, with ranks "
            f"{len(down)} and {up.shape[1]}; the model has {widths}: it is for another model"
        )
    said = _of_layer(config.get("rank_pattern"), name, config.get("r", len(down)))
    if said != len(down):
        raise ModelLoadError(
            f"the adapter {str(folder)!r} changes {name!r} with rank {len(down)}, and its adapter_config.json says "
            f"{said}: one of its two files is another adapter's"
        )
    if not float(down.abs().max()) * float(up.abs().max()) * len(down) < _ABSURD:
        raise ModelLoadError(
            f"the adapter {str(folder)!r} changes {name!r} by numbers beyond {_ABSURD:g}, its scale included; it is "
            "damaged, or its lora_alpha is wrong"
        )
    return LowRank(down.contiguous(), up.contiguous())


def layer_widths(layer: Any) -> tuple[int, int] | None:
    """Return (inputs, outputs) of a linear layer or embedding, packed or not; None for other modules."""
    if hasattr(layer, "num_embeddings"):
        return layer.num_embeddings, layer.embedding_dim
    if hasattr(layer, "in_features") and hasattr(layer, "out_features"):
        return layer.in_features, layer.out_features
    return tuple(layer.weight.shape) if type(layer).__name__ == "Conv1D" else None


def _is_transposed(layer: Any) -> bool:
    return isinstance(layer, torch.nn.Embedding) or type(layer).__name__ == "Conv1D"


def _refuse_shared(module: Any, name: str, folder: Path) -> None:
    weight = module.get_submodule(name).weight
    everything = module.named_parameters(remove_duplicate=False)
    if sum(parameter is weight for _, parameter in everything) > 1:
        raise ModelLoadError(f"the adapter {str(folder)!r} changes {name!r}, whose weight is shared: both would change")


def _scale(name: str, rank: int, config: dict[str, Any]) -> float:
    """Return alpha / rank, with the rank of the factors."""
    alpha = float(_of_layer(config.get("alpha_pattern"), name, config["lora_alpha"]))
    return alpha / (rank**0.5 if config.get("use_rslora") else rank)


def _of_layer(patterns: dict[str, Any] | None, name: str, otherwise: Any) -> Any:
    """Return the value of the first pattern that names the layer."""
    found = (value for pattern, value in (patterns or {}).items() if re.fullmatch(_layers(pattern), name))
    return next(found, otherwise)


def _layers(pattern: str) -> str:
    return rf"(.*\.)?({pattern})"
