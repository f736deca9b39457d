"""The word lists and tables of `training/data/*.toml`, read once."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).resolve().parent / "data"


@cache
def table(name: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def words(name: str) -> list[str]:
    """Return a list used for training; always the same object, which nobody may change."""
    return list(table("words")[name])


@cache
def heldout_words(name: str) -> list[str]:
    """Return a list of real-looking names for the evaluation only; always the same object."""
    return list(table("heldout_words")[name])


def lines(name: str) -> list[str]:
    """Return the lines of `training/data/NAME.txt` without empty lines and comments."""
    found = (_FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in found if line.strip() and not line.startswith("#")]
