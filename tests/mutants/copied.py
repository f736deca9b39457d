"""A copy of the tree in which one change at a time is made and tried."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.changes import Change

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", ".mypy_cache", ".hypothesis", "node_modules", "build", "dist", "runs"
)
PATIENCE = 4.0
"""How many times as long as without the change the tests may run before it counts as noticed."""
PATIENCE_S = 60.0


class Copy:
    """Keeps the times of the files, so that what Python and numba compiled for them is used again."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        shutil.copytree(ROOT, self.root, symlinks=True, ignore=LEFT_OUT)
        self._moments = int(time.time()) + 10

    def run(self, tests: dict[str, float], change: Change) -> str:
        """Run tests against a change; return `noticed`, `survived`, or `too slow`. `tests` holds seconds by name, in
        the order in which to run them."""
        file = self.root / change.path
        text = file.read_text("utf-8")
        try:
            self._write(file, change.made_in(text))
            done = self.pytest(["-x", *tests], PATIENCE_S + PATIENCE * sum(tests.values()))
        except subprocess.TimeoutExpired:
            return "too slow"
        finally:
            self._write(file, text)
        if done.returncode not in (0, 1, 2, 3, 4):
            raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return "noticed" if done.returncode else "survived"

    def _write(self, file: Path, text: str) -> None:
        """Write a file with a new time each: Python compares seconds and sizes before it uses what it compiled
        before."""
        file.write_text(text, "utf-8")
        self._moments += 2
        os.utime(file, (self._moments, self._moments))

    def pytest(self, arguments: Sequence[str], limit_s: float | None = None) -> subprocess.CompletedProcess[str]:
        names = self.root.parent / "arguments"
        names.write_text("\n".join(arguments), "utf-8")
        # With a seed Hypothesis draws the same examples each time: a change is not noticed by luck.
        plugins = ["-p", "no:cacheprovider", "-p", "tests.mutants.clock"]
        command = [sys.executable, "-m", "pytest", *plugins, "--hypothesis-seed=0", f"@{names}"]
        environment = os.environ | {"PYTHONPATH": str(self.root)}
        return subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, timeout=limit_s)
