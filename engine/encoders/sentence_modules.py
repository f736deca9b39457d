"""Make vectors of hidden states as the `modules.json` of a sentence-transformers folder says: pooling, dense layers,
normalisation.

Read are the modules Transformer, Pooling, Dense, LayerNorm, Normalize and Dropout. Others (bags of words, routers,
weighted sums of layers) are refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sluicegate.plugins import ModelLoadError

Pool = Callable[[Tensor, Tensor], Tensor]
"""(states [B, T, d], mask [B, T] of 1 and 0, padded on the right) -> [B, d]."""
Step = Callable[[Tensor], Tensor]
"""[B, d] -> [B, d2]."""
READ = ("Transformer", "Pooling", "Dense", "LayerNorm", "Normalize", "Dropout")
ACTIVATIONS: Mapping[str, Step] = {
    "Identity": lambda x: x,
    "Tanh": torch.tanh,
    "ReLU": torch.relu,
    "GELU": nn.functional.gelu,
    "Sigmoid": torch.sigmoid,
    "SiLU": nn.functional.silu,
}


def _cls(states: Tensor, mask: Tensor) -> Tensor:
    return states[:, 0]


def _largest(states: Tensor, mask: Tensor) -> Tensor:
    return states.masked_fill(mask[..., None] == 0, -1e9).amax(1)


def _mean(states: Tensor, mask: Tensor) -> Tensor:
    return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


def _mean_sqrt(states: Tensor, mask: Tensor) -> Tensor:
    return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).sqrt()


def _weighted_mean(states: Tensor, mask: Tensor) -> Tensor:
    """Weigh token t by t + 1 (Muennighoff, "SGPT", 2022)."""
    weights = mask * torch.arange(1, mask.shape[1] + 1, device=mask.device)  # [B, T]
    return (states * weights[..., None]).sum(1) / weights.sum(1, keepdim=True)


def _last(states: Tensor, mask: Tensor) -> Tensor:
    last = mask.sum(1).long() - 1  # [B]
    return states[torch.arange(len(states), device=states.device), last]


POOLS: Mapping[str, tuple[str, Pool]] = {
    "pooling_mode_cls_token": ("cls", _cls),
    "pooling_mode_max_tokens": ("max", _largest),
    "pooling_mode_mean_tokens": ("mean", _mean),
    "pooling_mode_mean_sqrt_len_tokens": ("mean_sqrt_len_tokens", _mean_sqrt),
    "pooling_mode_weightedmean_tokens": ("weightedmean", _weighted_mean),
    "pooling_mode_lasttoken": ("lasttoken", _last),
}
"""Pooling flags of older folders -> the newer folders' word, in the order in which several are concatenated."""


@dataclass(frozen=True, slots=True)
class SentenceModules:
    """What turns the states of a batch into vectors, and how texts are prepared for it."""

    pools: tuple[Pool, ...]
    steps: tuple[Step, ...]
    normalises: bool
    """Vectors have unit length; truncated vectors are normalised again."""
    lower_case: bool = False
    max_tokens: int | None = None
    prompt: str = ""
    """Text put before every input."""

    def vectors(self, states: Tensor, mask: Tensor) -> Tensor:
        """Return [B, n] float32 of `states` [B, T, d] and `mask` [B, T]."""
        weights = mask.to(torch.float32)
        states = states.float()
        found = torch.cat([pool(states, weights) for pool in self.pools], dim=-1)
        for step in self.steps:
            found = step(found)
        return found


BARE = SentenceModules((_mean,), (lambda x: nn.functional.normalize(x, dim=-1),), normalises=True)
"""For a folder that holds only an encoder: the mean over the tokens, at unit length."""


def read_modules(folder: Path, where: str, device: torch.device) -> tuple[Path, SentenceModules]:
    """Return the folder of the transformer, and the modules after it. Raises `ModelLoadError`."""
    if not (folder / "modules.json").is_file():
        return folder, BARE
    rows = [(str(row["type"]).rpartition(".")[2], str(row["path"])) for row in _json(folder / "modules.json", where)]
    if others := sorted({kind for kind, _ in rows} - set(READ)):
        raise ModelLoadError(
            f"{where!r}: modules.json names modules that are not run here: {', '.join(others)}; known are "
            f"{', '.join(READ)}"
        )
    if not rows or rows[0][0] != "Transformer" or [kind for kind, _ in rows].count("Pooling") != 1:
        raise ModelLoadError(f"{where!r}: modules.json does not name a Transformer first and one Pooling after it")
    inner = folder / _within(rows[0][1], where)
    pools: tuple[Pool, ...] = ()
    steps: list[Step] = []
    for kind, path in rows[1:]:
        part = folder / _within(path, where)
        if kind == "Pooling":
            pools = _pools(_json(part / "config.json", where), where)
        elif kind in ("Dense", "LayerNorm"):
            steps.append(_layer(kind, part, where, device))
        elif kind == "Normalize":
            steps.append(lambda x: nn.functional.normalize(x, dim=-1))
    return inner, SentenceModules(pools, tuple(steps), rows[-1][0] == "Normalize", **_prepared(folder, inner, where))


def _prepared(folder: Path, inner: Path, where: str) -> dict[str, Any]:
    """Return how texts are prepared: maximum tokens, lower case, and a prompt before them. Raises `ModelLoadError`."""
    own = _json(inner / "sentence_bert_config.json", where, default={})
    said = _json(folder / "config_sentence_transformers.json", where, default={})
    prompts, name = said.get("prompts") or {}, said.get("default_prompt_name")
    if name is not None and not isinstance(prompts.get(name), str):
        raise ModelLoadError(f"{where!r}: the default prompt {name!r} is not among the prompts of the folder")
    return {
        "lower_case": bool(own.get("do_lower_case")),
        "max_tokens": own.get("max_seq_length"),
        "prompt": prompts[name] if name is not None else "",
    }


def _pools(config: Mapping[str, Any], where: str) -> tuple[Pool, ...]:
    """Return the pooling functions of the module. Raises `ModelLoadError` for none, or an unknown one."""
    if config.get("include_prompt") is False:
        raise ModelLoadError(f"{where!r}: its pooling leaves prompts out (include_prompt), which is not done here")
    said = config.get("pooling_mode")
    if said is not None:
        asked = [said] if isinstance(said, str) else list(said)
        known = dict(POOLS.values())
    else:
        asked = [flag for flag in (*POOLS, *config) if flag.startswith("pooling_mode_") and config.get(flag)]
        asked = list(dict.fromkeys(asked))
        known = {flag: pool for flag, (_, pool) in POOLS.items()}
    if not asked or (others := [word for word in asked if word not in known]):
        wanted = ", ".join(map(str, others)) if asked else "no pooling at all"
        raise ModelLoadError(f"{where!r}: its pooling asks for {wanted}; known are {', '.join(known)}")
    return tuple(known[word] for word in asked)


def _layer(kind: str, folder: Path, where: str, device: torch.device) -> Step:
    """Return a Dense or LayerNorm module. Raises `ModelLoadError`."""
    config = _json(folder / "config.json", where)
    try:
        layer, prefix = _made(kind, config)
        state = {name.removeprefix(f"{prefix}."): value for name, value in _weights(folder, where).items()}
        layer.load_state_dict(state)
    except (KeyError, TypeError, RuntimeError) as error:
        raise ModelLoadError(f"{where!r}: the module {kind} in {folder.name!r} cannot be read: {error}") from error
    run = layer.to(device, torch.float32).eval().requires_grad_(False)
    if kind == "LayerNorm":
        return run
    named = str(config.get("activation_function", "torch.nn.modules.linear.Identity")).rpartition(".")[2]
    if named not in ACTIVATIONS:
        raise ModelLoadError(f"{where!r}: its Dense has the activation {named}; known are {', '.join(ACTIVATIONS)}")
    activation = ACTIVATIONS[named]
    return lambda x: activation(run(x))


def _made(kind: str, config: Mapping[str, Any]) -> tuple[nn.Module, str]:
    if kind == "LayerNorm":
        return nn.LayerNorm(int(config["dimension"])), "norm"
    bias = bool(config.get("bias", True))
    return nn.Linear(int(config["in_features"]), int(config["out_features"]), bias=bias), "linear"


def _weights(folder: Path, where: str) -> dict[str, Tensor]:
    if (folder / "model.safetensors").is_file():
        from safetensors.torch import load_file

        whole: dict[str, Tensor] = load_file(folder / "model.safetensors")
        return whole
    if (folder / "pytorch_model.bin").is_file():
        found: dict[str, Tensor] = torch.load(folder / "pytorch_model.bin", map_location="cpu", weights_only=True)
        return found
    raise ModelLoadError(f"{where!r}: {folder.name!r} holds no weights (model.safetensors); copy them there")


def _within(path: str, where: str) -> str:
    """Return a folder's path inside of the checkpoint. Raises `ModelLoadError` for one that leads out of it."""
    if Path(path).is_absolute() or ".." in Path(path).parts:
        raise ModelLoadError(f"{where!r}: modules.json names the path {path!r}, which leads out of the folder")
    return path


def _json(path: Path, where: str, default: Any = None) -> Any:
    if default is not None and not path.is_file():
        return default
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"{where!r}: {path.name} cannot be read: {error}") from error
    wanted: type = list if path.name == "modules.json" else dict
    if not isinstance(found, wanted) or (wanted is list and not _are_rows(found)):
        raise ModelLoadError(f"{where!r}: {path.name} is no {'list of modules' if wanted is list else 'object'}")
    return found


def _are_rows(found: Any) -> bool:
    return all(isinstance(row, dict) and {"type", "path"} <= row.keys() for row in found)
