"""Run tests with the compiled grammar: build a wheel, and put its machine code beside a copy of the sources.

    python -m tools.compiled_check                      # the tests of grammar/
    python -m tools.compiled_check tests/engine -k mask # any arguments of pytest
    python -m tools.compiled_check --keep FOLDER        # leaves the copy there, for measurements

Needs a C compiler. The copy holds what git tracks, as it stands in the working tree.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.compiled_wheel import built, copy_sources, overlay

ASK = "from sluicegate.grammar import is_compiled; print(is_compiled())"


def main() -> int:
    options, given = arguments()
    with tempfile.TemporaryDirectory(prefix="compiled-") as name:
        folder = Path(name)
        copy = options.keep or folder / "copy"
        copy_sources(copy)
        print(f"{overlay(built(copy, folder), copy)} compiled modules in {copy}", flush=True)
        environment = {**os.environ, "PYTHONPATH": str(copy)}
        told = subprocess.run([sys.executable, "-c", ASK], cwd=copy, env=environment, check=True, capture_output=True)
        if told.stdout.strip() != b"True":
            sys.exit(f"the copy in {copy} does not run compiled")
        tests = [sys.executable, "-m", "pytest", *(given or ["tests/grammar"])]
        return subprocess.run(tests, cwd=copy, env=environment, check=False).returncode


def arguments() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(prog="python -m tools.compiled_check", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="make the copy there, and leave it")
    return parser.parse_known_args()


if __name__ == "__main__":
    sys.exit(main())
