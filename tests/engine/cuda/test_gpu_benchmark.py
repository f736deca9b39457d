"""The benchmark for GPUs keeps working where there is none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.device_models import SHAPES, Ceilings

ROOT = Path(__file__).resolve().parents[3]


def benchmark(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.engine_gpu", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what is said where there is no GPU")
def test_without_a_device_it_says_so() -> None:
    done = benchmark()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("model_load_error: ")
    assert "torch sees no CUDA device" in done.stderr


@pytest.mark.thorough
def test_it_measures_what_it_says_on_any_device() -> None:
    """On a CPU, a tiny shape: our steps and those of transformers."""
    done = benchmark(
        "--device", "cpu", "--shape", "tiny", "-b", "2", "--context", "9", "--output-len", "4", "--kinds", "top-p",
        "--attention", "reference", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    row = found["tiny"]["engine"]["top-p 2"]
    assert min(row.values()) > 0
    assert found["tiny"]["transformers"]["2"] > 0


def test_the_floor_of_a_step_counts_weights_and_kept_numbers_once() -> None:
    """Qwen3-8B in half precision with a context of 1,024: 15.1 GB of weights, 147 kB for each position."""
    shape, ceilings = SHAPES["qwen3-8b"], Ceilings(copied=4.3e12, read=4.0e12, operations=790e12)
    assert 2 * shape.read_parameters == pytest.approx(15.1e9, rel=0.01)
    assert 2 * shape.kv_numbers == 147456
    assert 1 / ceilings.decode_step_s(shape, 1, 1024, 2) == pytest.approx(281, rel=0.02)
    assert 256 / ceilings.decode_step_s(shape, 256, 1024, 2) == pytest.approx(20500, rel=0.02)
