"""Adds layers to the bundled model without changing what it answers: `python -m training.grow FOLDER --out FOLDER`.

A new layer is a copy of the one before it whose two output projections are zero: it adds nothing until training moves
them, and what it looks at is of use from the first step.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

_WEIGHTS, _CONFIG = "model.safetensors", "config.json"
_LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)")
_OUTPUTS = ("self_attn.o_proj.weight", "mlp.down_proj.weight")


def new_layers(copied: list[int]) -> list[int]:
    """Return the places of the new layers in a model in which a copy follows each of the layers `copied`."""
    return [layer + 1 + number for number, layer in enumerate(sorted(copied))]


def grown(weights: dict[str, Tensor], copied: list[int]) -> dict[str, Tensor]:
    """Return `weights` with a silent copy behind each of the layers `copied`."""
    result: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        found = _LAYER.fullmatch(name)
        if found is None:
            result[name] = tensor
            continue
        layer, part = int(found[1]), found[2]
        place = layer + sum(1 for other in copied if other < layer)
        result[f"model.layers.{place}.{part}"] = tensor
        if layer in copied:
            result[f"model.layers.{place + 1}.{part}"] = tensor * 0 if part in _OUTPUTS else tensor.clone()
    return result


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--copied", type=int, nargs="+", default=[1, 2, 3], help="layers behind which a copy is put")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    shutil.copytree(options.folder, options.out, dirs_exist_ok=True)
    config = json.loads((options.folder / _CONFIG).read_text(encoding="utf-8"))
    config["num_hidden_layers"] += len(options.copied)
    (options.out / _CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    weights = grown(load_file(options.folder / _WEIGHTS), options.copied)
    save_file(weights, options.out / _WEIGHTS, metadata={"format": "pt"})


if __name__ == "__main__":
    main()
