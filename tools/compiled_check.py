"""Run tests with the compiled grammar: build a wheel, and put its machine code beside a copy of the sources.

    python -m tools.compiled_check                      # the tests of grammar/
    python -m tools.compiled_check tests/engine -k mask # any arguments of pytest
    python -m tools.compiled_check --keep FOLDER        # leaves the copy there, for measurements

Needs a C compiler. The copy holds what git tracks, as it stands in the working tree.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
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


def copy_sources(copy: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)


def built(copy: Path, folder: Path) -> Path:
    """Build the wheel of the copy, and return its path."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "-w"]
    environment = {**os.environ, "SLUICEGATE_COMPILE": "1"}
    subprocess.run([*pip, str(folder / "wheel"), str(copy)], env=environment, check=True)
    [wheel] = (folder / "wheel").glob("*.whl")
    return wheel


def overlay(wheel: Path, copy: Path) -> int:
    """Put the compiled modules of the wheel where their sources are, and return how many there are."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".so")]
        for name in names:
            (copy / name).write_bytes(archive.read(name))
    return sum("/" in name for name in names)


def arguments() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(prog="python -m tools.compiled_check", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="make the copy there, and leave it")
    return parser.parse_known_args()


if __name__ == "__main__":
    sys.exit(main())
