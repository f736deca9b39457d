"""Compiled loops are never older than any source of their package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sluicegate.plugins.numba_cache import forget_stale

CALLEE = "from numba import njit\n\n@njit(cache=True)\ndef inner(x):\n    return x + {}\n"
CALLER = (
    "from numba import njit\nfrom loops.inner import inner\n\n@njit(cache=True)\ndef outer(x):\n    return inner(x)\n"
)
RUN = (
    "from pathlib import Path; import sys; from sluicegate.plugins.numba_cache import forget_stale\n"
    "gone = forget_stale(Path(sys.argv[1])) if sys.argv[2] == 'look' else 0\n"
    "from loops.outer import outer; print(outer(1), gone)"
)


@pytest.fixture
def loops(tmp_path: Path) -> Path:
    folder = tmp_path / "loops"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "outer.py").write_text(CALLER)
    (folder / "inner.py").write_text(CALLEE.format(1))
    return folder


def run(folder: Path, how: str) -> list[str]:
    path = f"import sys; sys.path[:0] = [{str(folder.parent)!r}, {str(Path.cwd())!r}]\n"
    done = subprocess.run(
        [sys.executable, "-c", path + RUN, str(folder), how], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.split()


def test_a_change_in_what_a_loop_calls_is_noticed(loops: Path) -> None:
    assert run(loops, "look") == ["2", "0"]
    kept = list(loops.rglob("*.nbi"))
    assert kept
    assert run(loops, "look") == ["2", "0"]  # the same source: kept
    assert list(loops.rglob("*.nbi")) == kept
    (loops / "inner.py").write_text(CALLEE.format(10))
    assert run(loops, "trust") == ["2", "0"]  # numba alone does not see it
    after, gone = run(loops, "look")
    assert after == "11"
    assert int(gone) > 0


def test_what_cannot_be_removed_is_told_and_nothing_else(loops: Path, caplog: pytest.LogCaptureFixture) -> None:
    (loops / "__pycache__").write_text("not a folder")
    assert forget_stale(loops) == 0
    assert not caplog.records
    (loops / "__pycache__").unlink()
    (loops / "__pycache__" / "outer.nbi").mkdir(parents=True)
    assert forget_stale(loops) == 0
    assert "may be of older source" in caplog.text


def test_source_without_loops_does_not_count(loops: Path) -> None:
    forget_stale(loops)
    (loops / "__pycache__" / "outer.nbi").write_bytes(b"")
    (loops / "other.py").write_text("X = 1\n")
    assert forget_stale(loops) == 0
    (loops / "inner.py").write_text(CALLEE.format(3))
    assert forget_stale(loops) == 1
