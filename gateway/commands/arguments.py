"""Kinds of arguments of commands: numbers within bounds, and files that cannot be read."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from sluicegate.plugins import ConfigurationError


def count(text: str) -> int:
    """Read a whole number of at least 1. Raises `argparse.ArgumentTypeError`, which names the argument."""
    return _whole(text, 1)


def count_or_none(text: str) -> int:
    """Read a whole number of at least 0. Raises `argparse.ArgumentTypeError`."""
    return _whole(text, 0)


def positive(text: str) -> float:
    """Read a finite number above 0. Raises `argparse.ArgumentTypeError`."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number above 0, found {text!r}")
    return number


def _whole(text: str, least: int) -> int:
    if not text.strip().isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, found {text!r}")
    return int(text)


def cannot_read(path: Path | str, error: Exception) -> ConfigurationError:
    """Return the error of a file that is named as an argument."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return ConfigurationError(f"cannot read {path}: {why}")
