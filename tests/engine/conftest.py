"""Tiny models, made once a session; an engine around one; the answers of `transformers` to compare with."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch

from sluicegate.engine import LoadedModel, load_model
from tests.engine.tiny_models import save_tiny

MakeModel = Callable[..., LoadedModel]

torch.set_num_threads(1)  # tiny matrices: a second thread only waits for the first


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return `tiny_folder(family, seed)`, which gives the folder of a checkpoint."""
    root = tmp_path_factory.mktemp("checkpoints")

    @cache
    def folder(family: str = "llama", seed: int = 0) -> Path:
        return save_tiny(root, family, seed)

    return folder


@pytest.fixture(scope="session")
def tiny(tiny_folder: Callable[..., Path]) -> MakeModel:
    """Return `tiny(family, seed)`, which gives that checkpoint, loaded."""

    @cache
    def model(family: str = "llama", seed: int = 0) -> LoadedModel:
        return load_model(tiny_folder(family, seed), name=family)

    return model
