"""Weights that are damaged or hold no numbers are refused when they are read, with a typed error."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from sluicegate.plugins import ConfigurationError
from sluicegate.safety.detection import load
from sluicegate.safety.detection.settings import WEIGHTS


@pytest.mark.parametrize("seed", range(24))
def test_a_damaged_file_is_named(seed: int, tmp_path: Path) -> None:
    drawn, data = random.Random(seed), bytearray(WEIGHTS.read_bytes())
    at = drawn.choice([100, drawn.randrange(len(data)), len(data) - 1_000])
    data[at : at + 400] = b"" if seed % 3 == 0 else bytes(400)
    file = tmp_path / "weights.npz"
    file.write_bytes(data[:at] if seed % 4 == 1 else data)
    with pytest.raises(ConfigurationError, match=r"weights\.npz' cannot be read"):
        load(file)


@pytest.mark.parametrize("name", ["injection.scalars", "harm.context", "injection.words.scale"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_number_that_is_not_finite_is_refused(name: str, number: float, tmp_path: Path) -> None:
    """No score would reach a threshold, and everything would pass."""
    with np.load(WEIGHTS) as kept:
        arrays = {one: kept[one] for one in kept.files}
    arrays[name] = np.full_like(arrays[name], number)
    np.savez(tmp_path / "weights.npz", **arrays)
    with pytest.raises(ConfigurationError, match=rf"{name} holds a number that is not finite"):
        load(tmp_path / "weights.npz")


@pytest.mark.parametrize("about", [[], "x", None, {"format": []}, {}])
def test_a_description_of_another_kind_is_refused(about: object, tmp_path: Path) -> None:
    with np.load(WEIGHTS) as kept:
        arrays = {one: kept[one] for one in kept.files}
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    np.savez(tmp_path / "weights.npz", **arrays)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load(tmp_path / "weights.npz")
