"""Kinds of arguments of commands: numbers within bounds, and files of lines, or that cannot be read."""

from __future__ import annotations

import argparse
import gzip
import math
import zlib
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


def numbered_lines(path: Path, limit: int = 0) -> list[tuple[int, str]]:
    """Return the first `limit` lines of a file, gzipped or not, that are not blank, each with its number; 0 = all.
    Raises `ConfigurationError`."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            lines = [(number, line) for number, line in enumerate(file, 1) if line.strip()]
    except (OSError, UnicodeDecodeError, EOFError, zlib.error) as error:
        raise cannot_read(path, error) from error
    return lines[: limit or None]
