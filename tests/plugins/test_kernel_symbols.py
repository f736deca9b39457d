"""Kernels of one factory that were compiled apart stay apart where they are loaded together."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCTS = """
import sys
import torch
from sluicegate.engine.cpu.packing import keep_halves
from sluicegate.engine.cpu.small_layers import CpuSmallLinear

torch.manual_seed(0)
for name in sys.argv[1:]:
    weight, x = torch.randn(32, 64).to(getattr(torch, name)), torch.randn(4, 64)
    torch.testing.assert_close(CpuSmallLinear(keep_halves(weight), None)(x), x @ weight.float().T)
"""


def test_code_of_two_processes_is_not_mixed_up_in_a_third(tmp_path: Path) -> None:
    """A checkpoint in float16 was served by the code for bfloat16, which another process had compiled and cached."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    for names in (["float16"], ["bfloat16"], ["float16", "bfloat16"], ["bfloat16", "float16"]):
        done = subprocess.run(
            [sys.executable, "-c", PRODUCTS, *names], env=environment, cwd=ROOT, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-2000:]
    assert len([*tmp_path.rglob("product*.compiled")]) >= 2, "code of each form, from this folder"
