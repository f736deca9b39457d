"""The code of an earlier state of this repository, to be run beside that of today."""

from __future__ import annotations

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from tests.scale.deployment import ROOT

FIRST_SHARED = "5d3f36ef3a4c9a26022f1bfb65b75cb69b45ddc3"
"""The last one with the tables of the first step alone."""


def _knows(commit: str) -> bool:
    found = subprocess.run(
        ["git", "-C", ROOT, "cat-file", "-e", f"{commit}^{{tree}}"], capture_output=True, check=False
    )
    return found.returncode == 0


needs_history = pytest.mark.skipif(
    not _knows(FIRST_SHARED), reason=f"the history of this checkout does not reach back to {FIRST_SHARED[:8]}"
)


def unpacked(commit: str, folder: Path) -> Path:
    """Return `folder`, with the files of `commit`. What they need is installed where the tests run."""
    packed = subprocess.run(["git", "-C", ROOT, "archive", commit], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as files:
        files.extractall(folder, filter="data")
    return folder
