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


def words(name: str) -> list[str]:
    """Return a list used for training."""
    return list(_strings("words", name))


def heldout_words(name: str) -> list[str]:
    """Return a list of real-looking names for the evaluation only."""
    return list(_strings("heldout_words", name))


@cache
def _strings(file: str, name: str) -> tuple[str, ...]:
    return tuple(table(file)[name])


def lines(name: str) -> list[str]:
    """Return the lines of `training/data/NAME.txt` that are neither empty nor a remark."""
    found = (_FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in found if line.strip() and not line.startswith("#")]
