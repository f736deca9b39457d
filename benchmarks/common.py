"""What every benchmark prints and accepts alike: the machine, `--data`, `--limit` and `--json`."""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
"""Where the data sets lie beside a checkout; `--data` names another place."""


def parser(description: str | None, data: str, limit: int) -> argparse.ArgumentParser:
    """Make a parser of the options that all benchmarks take. `data` is a file or folder of `DATA`, `limit` the default
    number of records."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--data", type=Path, default=DATA / data, help="a file or folder of the same form as the default")
    made.add_argument("--limit", type=int, default=limit, help="how many records (0: all), from one fixed shuffle")
    made.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    return made


def records(path: Path, limit: int = 0, seed: int = 1) -> list[Any]:
    """Read JSON lines, gzipped or not. They are shuffled the same way each time, so that a small run is a part of a
    large one; a `limit` of 0 means all."""
    if not path.exists():
        raise SystemExit(f"no data at {path}; name a file of the same form with --data")
    found = list(_lines(path))
    random.Random(seed).shuffle(found)
    return found[: limit or None]


def _lines(path: Path) -> Iterator[Any]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        for line in file:
            if line.strip():
                yield json.loads(line)


def machine() -> str:
    """Return one line: processor, cores and the load while measuring."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{platform.machine()} {_processor()}, {os.cpu_count()} cores, load {load}, Python {platform.python_version()}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown processor")
