"""Compile the hot modules of the grammar beside their sources: the checkout then runs them as a compiled wheel does.

    python -m tools.compile_in_place            # needs a C compiler, and minutes
    python -m tools.compile_in_place --remove   # Python's form again

A source that changes afterwards makes the grammar refuse to be imported, until one of both is run again.
"""

from __future__ import annotations

import argparse
import json
import sys
import sysconfig
import tempfile
from pathlib import Path

from tools.compiled_wheel import ROOT, built, copy_sources, overlay

GRAMMAR = ROOT / "grammar"
INSTALLED = Path(sysconfig.get_path("platlib"))
"""The checkout itself is on the path of what runs in its folder only."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.compile_in_place", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--remove", action="store_true", help="remove what is compiled")
    wanted = not parser.parse_args().remove
    remove()
    if wanted:
        print(f"{compile_all()} modules of grammar/ are compiled; `make interpreted` removes that")
    return 0


def remove() -> None:
    for found in (*GRAMMAR.rglob("*.so"), *INSTALLED.glob("sluicegate_grammar__mypyc*.so"), record()):
        found.unlink(missing_ok=True)


def compile_all() -> int:
    from sluicegate.grammar.compiled import stamps  # only here: what is stale can be removed

    with tempfile.TemporaryDirectory(prefix="compiled-") as name:
        folder = Path(name)
        stamped = stamps()  # before the sources are read: what changes from here on is stale
        copy_sources(folder / "copy")
        count = overlay(built(folder / "copy", folder), ROOT, INSTALLED)
    record().write_text(json.dumps(stamped, indent=1), "utf-8")
    return count


def record() -> Path:
    return GRAMMAR / "compiled_in_place.json"


if __name__ == "__main__":
    sys.exit(main())
