"""LoRA adapters as `peft` writes them, merged into the weights at load: W + scale * B A, and nothing to pay per token.

Read with safetensors alone. What a merge cannot express, or would express wrongly, is refused with the reason: other
kinds of adapters, magnitudes (DoRA), trained biases, tokens of its own.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plugins import ModelLoadError

_PREFIX = "base_model.model."
_FACTOR = re.compile(r"(?P<module>.+)\.lora_(?P<side>A|B|embedding_A|embedding_B)(\.weight)?")


def merge_adapter(module: Any, folder: Path) -> None:
    """Add the adapter in `folder` to the weights of `module`. Raises `ModelLoadError`; nothing has changed then."""
    config = _config(folder)
    merges = {name: _update(module, name, pair, config, folder) for name, pair in _factors(module, folder).items()}
    if not merges:
        raise ModelLoadError(f"the adapter {str(folder)!r} has no weights; expected names that end in lora_A.weight")
    with torch.no_grad():
        for name, update in merges.items():
            weight = module.get_submodule(name).weight
            weight.add_(update.to(weight))


def adapter_folder(path_or_name: str) -> Path:
    """A local folder, or a name on the Hugging Face hub. Raises `ModelLoadError`."""
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
    config: dict[str, Any] = json.loads(path.read_text("utf-8"))
    if config.get("peft_type") != "LORA":
        raise ModelLoadError(f"the adapter {str(folder)!r} is of type {config.get('peft_type')}; only LORA is served")
    refused = {
        "use_dora": config.get("use_dora"),
        "bias": config.get("bias", "none") != "none",
        "lora_bias": config.get("lora_bias"),
        "modules_to_save": config.get("modules_to_save"),
        "trainable_token_indices": config.get("trainable_token_indices"),
    }
    if found := [name for name, value in refused.items() if value]:
        raise ModelLoadError(
            f"the adapter {str(folder)!r} uses {', '.join(found)}, which plain LoRA does not express; "
            "merge it into the checkpoint with peft first"
        )
    return config


def _factors(module: Any, folder: Path) -> dict[str, dict[str, Tensor]]:
    """Module name -> its A [r, in] and B [out, r]."""
    from safetensors.torch import load_file

    found: dict[str, dict[str, Tensor]] = {}
    for name, tensor in load_file(folder / "adapter_model.safetensors").items():
        if _is_the_models_own(module, name.removeprefix(_PREFIX), tensor):
            continue
        match = _FACTOR.fullmatch(name.removeprefix(_PREFIX))
        if match is None:
            raise ModelLoadError(f"the adapter {str(folder)!r} holds {name!r}, which is no factor of a LoRA; refused")
        found.setdefault(match["module"], {})[match["side"].removeprefix("embedding_")] = tensor
    return found


def _is_the_models_own(module: Any, name: str, tensor: Tensor) -> bool:
    """peft saves an embedding that it adapts as well; it may be passed over only if nobody has changed it."""
    if not name.endswith(".base_layer.weight"):
        return False
    kept = dict(module.named_parameters()).get(name.replace(".base_layer.weight", ".weight"))
    return kept is not None and kept.shape == tensor.shape and bool(torch.equal(tensor.to(kept), kept))


def _update(module: Any, name: str, pair: dict[str, Tensor], config: dict[str, Any], folder: Path) -> Tensor:
    """What is added to the weight of submodule `name`, in its shape."""
    try:
        target = module.get_submodule(name)
    except AttributeError as error:
        raise ModelLoadError(f"the adapter {str(folder)!r} is for another model: there is no {name!r} here") from error
    if set(pair) != {"A", "B"}:
        raise ModelLoadError(f"the adapter {str(folder)!r} has only lora_{min(pair)} for {name!r}; both are needed")
    update = _scale(name, len(pair["A"]), config) * (pair["B"].float() @ pair["A"].float())
    if isinstance(target, torch.nn.Embedding) or type(target).__name__ == "Conv1D":
        update = update.T
    if update.shape != target.weight.shape:
        raise ModelLoadError(
            f"the adapter {str(folder)!r} changes {name!r} in shape {tuple(update.shape)}; the model has "
            f"{tuple(target.weight.shape)}: it is for another model"
        )
    everything = module.named_parameters(remove_duplicate=False)
    if sum(parameter is target.weight for _, parameter in everything) > 1:
        raise ModelLoadError(f"the adapter {str(folder)!r} changes {name!r}, whose weight is shared: both would change")
    return update


def _scale(name: str, rank: int, config: dict[str, Any]) -> float:
    """`alpha_pattern` names modules that have an alpha of their own; the rank is that of the factors."""
    alpha = float(config["lora_alpha"])
    for pattern, own in (config.get("alpha_pattern") or {}).items():
        if re.fullmatch(rf"(.*\.)?({pattern})", name):
            alpha = float(own)
    return alpha / (rank**0.5 if config.get("use_rslora") else rank)
