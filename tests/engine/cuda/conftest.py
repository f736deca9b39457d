"""Where there is no GPU, Triton's interpreter runs the kernels on CPU tensors; where there is one, models are on it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch

from sluicegate.engine import LoadedModel, load_model

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read where a kernel is defined, so before any is imported


@pytest.fixture(scope="session")
def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(scope="session")
def tiny(tiny_folder: Callable[..., Path], device: torch.device) -> Callable[..., LoadedModel]:
    """Return `tiny(family, seed)`, which gives that checkpoint, loaded on the device."""

    @cache
    def model(family: str = "llama", seed: int = 0) -> LoadedModel:
        return load_model(tiny_folder(family, seed), name=family, device=str(device))

    return model
