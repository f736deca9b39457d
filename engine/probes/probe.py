"""Probes as files: weights in safetensors, and beside them a card that says whose states they read.

A probe gives the log-odds that a token stands in a text of its kind, from the states of chosen layers side by side:
`w . x + b`, or with a hidden layer `w2 . relu(w1 x + b1) + b`. What it makes of a sentence is the mean over its tokens.

Not covered: states of another model, or of the same one with an adapter, other weights or another dtype. They look
alike and mean something else, so a probe is refused there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sluicegate.engine.probes.states import decoder_layers
from sluicegate.plugins import ModelLoadError

FORMAT = 1
WEIGHTS, CARD = "probe.safetensors", "probe.json"
NAMES = frozenset({"w1", "b1", "w", "b"})


@dataclass(frozen=True, slots=True, eq=False)
class StateProbe:
    """`label`: what it looks for. `layers`: 1 = behind the first. `weights`: `w` [k] and `b` [1], k = d times layers;
    with a hidden layer also `w1` [h, k] and `b1` [h], and `w` [h]. All float32."""

    label: str
    layers: tuple[int, ...]
    weights: Mapping[str, Tensor]
    model: str
    """Digest of the model whose states it reads."""
    card: Mapping[str, Any]

    def logits(self, states: Tensor) -> Tensor:
        """Return log-odds [T] float32 for `states` [T, k]."""
        if "w1" in self.weights:
            states = torch.relu(states @ self.weights["w1"].T + self.weights["b1"])
        return states @ self.weights["w"] + self.weights["b"]

    def save(self, folder: Path) -> None:
        from safetensors.torch import save_file

        folder.mkdir(parents=True, exist_ok=True)
        save_file({name: tensor.contiguous() for name, tensor in self.weights.items()}, folder / WEIGHTS)
        facts = {"format": FORMAT, "label": self.label, "layers": list(self.layers), "model": self.model}
        (folder / CARD).write_text(json.dumps({**facts, **self.card}, indent=2, sort_keys=True) + "\n")


def digest_of(version: str) -> str:
    """Return the digest in a model's version, without the operator's label before it."""
    return version.rpartition("+")[2]


def read_probe(folder: Path, *, name: str, version: str, module: Any) -> StateProbe:
    """Read a probe for a loaded model. Raises `ModelLoadError` if it cannot be read, or was trained on another
    model."""
    try:
        card = json.loads((folder / CARD).read_text())
        probe = _read(folder, card)
    except Exception as error:
        raise ModelLoadError(
            f"no probe could be read from {str(folder)!r} ({type(error).__name__}: {error}); "
            "`sluicegate probe train` writes such a folder"
        ) from error
    if probe.model != digest_of(version):
        raise ModelLoadError(
            f"the probe {str(folder)!r} was trained on {card.get('model_name', 'another model')!r} "
            f"({probe.model[:12]}), and {name!r} is {digest_of(version)[:12]}: states of another model, or of the same "
            f"one in another dtype or rounding, mean something else; run `sluicegate probe train` for {name!r}"
        )
    deepest, width = len(decoder_layers(module)), module.config.get_text_config(decoder=True).hidden_size
    read = probe.weights["w1" if "w1" in probe.weights else "w"].shape[-1]
    if max(probe.layers) > deepest or read != width * len(probe.layers):
        raise ModelLoadError(f"the probe {str(folder)!r} reads layers {list(probe.layers)} that {name!r} does not have")
    return probe


def _read(folder: Path, card: Mapping[str, Any]) -> StateProbe:
    """Read the weights that belong to a probe's card. Raises `ValueError` or `KeyError` if the files are not a
    probe."""
    from safetensors.torch import load_file

    if card["format"] != FORMAT:
        raise ValueError(f"format {card['format']!r}, expected {FORMAT}")
    layers, label = tuple(card["layers"]), card["label"]
    if (
        not layers
        or not all(type(layer) is int and layer >= 1 for layer in layers)
        or list(layers) != sorted({*layers})
    ):
        raise ValueError(f"layers are {list(layers)!r}; expected whole numbers from 1 on, in order")
    if not isinstance(label, str) or not label:
        raise ValueError("the card has no label")
    weights = load_file(folder / WEIGHTS)
    shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    hidden = shapes["w"] if "w1" in shapes else None
    fits = set(shapes) <= NAMES and shapes["b"] == (1,) and len(shapes["w"]) == 1
    if hidden is not None:
        fits = fits and hidden == shapes["b1"] and len(shapes["w1"]) == 2 and shapes["w1"][:1] == hidden
    if not fits or not all(
        tensor.dtype == torch.float32 and bool(tensor.isfinite().all()) for tensor in weights.values()
    ):
        raise ValueError(f"tensors are {shapes}; expected finite float32 w [k] and b [1], or also w1 [h, k] and b1 [h]")
    facts = {name: value for name, value in card.items() if name not in ("format", "label", "layers", "model")}
    return StateProbe(label, layers, weights, str(card["model"]), facts)


class ProbeSet:
    """All probes of one model, applied together. Immutable."""

    def __init__(self, probes: Seq[StateProbe], device: torch.device) -> None:
        """Join probes of one model. Raises `ModelLoadError` if two have the same label."""
        self.labels = tuple(probe.label for probe in probes)
        if len({*self.labels}) != len(self.labels):
            raise ModelLoadError(f"two probes of one model have the same label: {', '.join(self.labels)}; rename one")
        self.layers = tuple(sorted({layer for probe in probes for layer in probe.layers}))
        self._layer_indices = [[self.layers.index(layer) for layer in probe.layers] for probe in probes]
        self._probes = [
            StateProbe(one.label, one.layers, {k: v.to(device) for k, v in one.weights.items()}, one.model, one.card)
            for one in probes
        ]

    def scores(self, states: Seq[Tensor]) -> Tensor:
        """Return log-odds [T, P] of P probes, given the `states` [T, d] of each of `layers`."""
        found = [
            probe.logits(torch.cat([states[at] for at in indices], -1))
            for probe, indices in zip(self._probes, self._layer_indices, strict=True)
        ]
        return torch.stack(found, -1)

    def linear(self) -> tuple[list[Tensor], Tensor] | None:
        """Return weights [P, d] for each of `layers`, and biases [P], whose products add up to the scores; None where a
        probe is not linear."""
        if any("w1" in probe.weights for probe in self._probes):
            return None
        width = len(self._probes[0].weights["w"]) // len(self._probes[0].layers)
        weights = [torch.zeros(len(self._probes), width) for _ in self.layers]
        for row, (probe, indices) in enumerate(zip(self._probes, self._layer_indices, strict=True)):
            for part, at in zip(probe.weights["w"].view(len(indices), width), indices, strict=True):
                weights[at][row] = part
        return weights, torch.cat([probe.weights["b"] for probe in self._probes])
