"""Mixes the weights of two runs that began from the same: `python -m training.mean FIRST SECOND --out FOLDER`."""

from __future__ import annotations

import argparse
from pathlib import Path

from safetensors.torch import load_file, save_file

_NAME = "model.safetensors"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--share", type=float, default=0.5, help="of the second")
    parser.add_argument("--out", type=Path, required=True, help="an existing folder")
    options = parser.parse_args(arguments)
    first, second = load_file(options.first / _NAME), load_file(options.second / _NAME)
    mixed = {name: first[name].lerp(second[name], options.share).contiguous() for name in first}
    save_file(mixed, options.out / _NAME, metadata={"format": "pt"})


if __name__ == "__main__":
    main()
