"""Build the wheel with compiled modules from a copy of the sources, and take its machine code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


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


def overlay(wheel: Path, copy: Path, shared: Path | None = None) -> int:
    """Put the compiled modules of the wheel where their sources are, and return how many there are. What they share
    goes to a folder that Python imports from: `copy`, or else `shared`."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".so")]
        for name in names:
            folder = copy if "/" in name or shared is None else shared
            (folder / name).write_bytes(archive.read(name))
    return sum("/" in name for name in names)
