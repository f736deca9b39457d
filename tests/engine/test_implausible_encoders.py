"""Encoders whose files are not a model's are refused by what is odd, as models that write are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from sluicegate.engine.encoders.model import load_encoder
from sluicegate.engine.encoders.settings import EncoderModelSettings
from sluicegate.plugins import ModelLoadError
from tests.engine.tiny_encoders import save_encoder

State = dict[str, torch.Tensor]
CHANGES: dict[str, tuple[Callable[[str, torch.Tensor], torch.Tensor], str]] = {
    "int32": (lambda name, one: (one * 10).int(), r"weights that are codes, .*\(int32\)"),
    "fp8": (lambda name, one: one.to(torch.float8_e4m3fn), r"weights that are codes, .*\(float8_e4m3fn\)"),
    "too large": (lambda name, one: one * (1e38 if "query" in name else 1), "gives numbers that are NaN or infinite"),
}


@pytest.mark.parametrize("scores", [False, True])
@pytest.mark.parametrize("pickled", [False, True])
@pytest.mark.parametrize("case", CHANGES)
def test_weights_that_are_not_a_models_are_refused(case: str, pickled: bool, scores: bool, tmp_path: Path) -> None:
    """`transformers` took codes for weights: vectors of noise, and no word."""
    change, message = CHANGES[case]
    folder = save_encoder(tmp_path, "bert", scores=scores)
    file = folder / "model.safetensors"
    state = {name: change(name, one) if one.is_floating_point() else one for name, one in load_file(file).items()}
    if pickled:
        file.unlink()
        torch.save(state, folder / "pytorch_model.bin")
    else:
        save_file(state, file, {"format": "pt"})
    with pytest.raises(ModelLoadError, match=message):
        load_encoder(EncoderModelSettings(str(folder)))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path, "bert")
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")
    with pytest.raises(ModelLoadError, match=r"model\.safetensors of .* is no file"):
        load_encoder(EncoderModelSettings(str(folder)))
