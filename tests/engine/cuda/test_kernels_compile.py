"""The kernels become machine code for GPUs that are not here: Triton brings NVIDIA's assembler along."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="pip install 'sluicegate[cuda]' brings triton")

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_kernels_compile_for_gpus_with_tensor_cores_and_wide_copies() -> None:
    """Products are tensor cores'; keys and rounded weights come 16 bytes at a time, beside the arithmetic."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "tests.engine.cuda.compiling"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for name, facts in found.items():
        assert facts["bytes"] > 0, name
        if name.startswith(("norm", "turn", "gate")):
            assert facts["spilled"] == 0, (name, facts)
        elif name not in ("merge", "masks", "draws") and not name.startswith("storing"):
            assert facts["tensor_cores"], (name, facts)
            assert facts["wide_async_copies"] > 0, (name, facts)
            assert facts["shared"] <= 160 << 10, "more than an A100's multiprocessor has"
