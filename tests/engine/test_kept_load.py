"""What one load leaves behind serves the next without transformers' modelling code, and is never believed unproven."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from sluicegate.engine.model import loading
from sluicegate.engine.model.checks import _in_steps, _trial_ids
from sluicegate.engine.model.dense import DenseDecoder
from sluicegate.engine.model.kept_load import keep_load, loads_folder, read_load
from sluicegate.engine.model.loading import load_model
from sluicegate.engine.model.model import LoadedModel
from sluicegate.plugins import ModelLoadError
from sluicegate.plugins.cache_folder import ENV
from tests.engine.lora import linear_layers, write_adapter
from tests.engine.tiny_models import save_tiny

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}


@pytest.fixture(autouse=True)
def nothing_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV, str(tmp_path / "caches"))


def kept_files() -> list[Path]:
    return sorted(loads_folder().path.glob("*.load"))


@torch.inference_mode()
def logits(model: LoadedModel) -> torch.Tensor:
    return _in_steps(model.module, _trial_ids(model.module.config, model.device), model.layers, ())


def facts(model: LoadedModel) -> list[Any]:
    """Return all that the gateway asks of a model, but what computes it."""
    names = ("version", "context_length", "vocab_size", "eos_token_ids", "usable_vocab", "default_temperature")
    more = ("defaults", "notes", "layers", "rowwise", "parameter_count", "kv_bytes_per_token")
    return [getattr(model, name) for name in (*names, *more)]


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("llama", {}),
        ("llama", {"tie_word_embeddings": True, "attention_bias": True, "rope_parameters": LLAMA3}),
        ("llama", {"rope_parameters": YARN, "rms_norm_eps": 1e-3}),
        ("mistral", {"hidden_size": 64}),
        ("qwen2", {"tie_word_embeddings": False}),
        ("qwen3", {"rope_parameters": {"rope_type": "linear", "rope_theta": 500.0, "factor": 2.0}}),
    ],
)
def test_the_second_load_computes_bit_for_bit_what_transformers_does(
    family: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    folder = save_tiny(tmp_path / "model", family, **changes)
    said = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(said | {"sliding_window": None}))
    first, second = load_model(folder), load_model(folder)
    assert type(first.module).__name__ != type(second.module).__name__ == "DenseDecoder"
    assert torch.equal(logits(first), logits(second))
    assert facts(first) == facts(second)


def test_a_kept_model_moves_to_a_device_whole(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "model", "qwen3")
    load_model(folder)
    module = load_model(folder).module.to("meta")
    assert isinstance(module, DenseDecoder)
    with torch.inference_mode():
        cosines, _ = module.model.rotary_emb(torch.zeros(1, device="meta"), torch.zeros(1, 5, device="meta"))
    assert cosines.device.type == "meta"


@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_rounded_weights_are_the_same_too(weights: Any, tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "model", "llama", tie_word_embeddings=True)
    first, second = load_model(folder, weights=weights), load_model(folder, weights=weights)
    assert isinstance(second.module, DenseDecoder)
    assert torch.equal(logits(first), logits(second))
    assert facts(first) == facts(second)


def test_another_adapter_is_another_load(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "model", "llama")
    load_model(folder)
    adapters = [
        str(write_adapter(tmp_path / name, folder, linear_layers(folder), seed=at)) for at, name in enumerate("ab")
    ]
    found = [logits(load_model(folder, adapter=adapter)) for adapter in [*adapters, *adapters]]
    assert torch.equal(found[0], found[2])
    assert torch.equal(found[1], found[3])
    assert not torch.equal(found[0], found[1])
    assert len(kept_files()) == 3


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("mistral", {"sliding_window": 9}),
        ("llama", {"hidden_act": "gelu"}),
        ("llama", {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}}),
        ("gemma2", {}),
    ],
)
def test_what_our_code_would_compute_otherwise_is_not_kept(
    family: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    folder = save_tiny(tmp_path / "model", family, **changes)
    first, second = load_model(folder), load_model(folder)
    assert type(first.module) is type(second.module)
    assert kept_files() == []


@pytest.mark.parametrize("asked", [{"dtype": "bfloat16"}, {"dtype": "float64"}])
def test_other_dtypes_go_through_transformers(asked: Any, tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "model", "llama")
    load_model(folder)
    assert not isinstance(load_model(folder, **asked).module, DenseDecoder)


def wrong_logits(kept: Any) -> Any:
    return replace(kept, logits=kept.logits.roll(1, 0))


def wrong_heads(kept: Any) -> Any:
    return replace(kept, heads=replace(kept.heads, turns=kept.heads.turns * 1.5))


def wrong_shapes(kept: Any) -> Any:
    return replace(kept, heads=replace(kept.heads, count=kept.heads.count + 1))


def wrong_tokens(kept: Any) -> Any:
    pipeline = json.loads(kept.tokenizer.pipeline)
    pipeline["pre_tokenizer"] = {"type": "Digits", "individual_digits": True}
    return replace(kept, tokenizer=replace(kept.tokenizer, pipeline=json.dumps(pipeline)))


def wrong_template(kept: Any) -> Any:
    return replace(kept, tokenizer=replace(kept.tokenizer, chat_template="{{ messages[0].content }}"))


@pytest.mark.parametrize("wrong", [wrong_logits, wrong_heads, wrong_shapes, wrong_tokens, wrong_template])
def test_a_load_that_is_not_what_was_kept_is_made_anew(
    wrong: Callable[[Any], Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = save_tiny(tmp_path / "model", "llama")
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    template = "{% for turn in messages %}<{{ turn.role }}>{{ turn.content }}{% endfor %}"
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer | {"chat_template": template}))
    first = load_model(folder)
    (file,) = kept_files()
    kept = read_load(loads_folder(), file.stem)
    assert kept is not None
    assert keep_load(loads_folder(), file.stem, wrong(kept))
    assert not isinstance(load_model(folder).module, DenseDecoder)
    assert "made anew" in caplog.text
    third = load_model(folder)
    assert isinstance(third.module, DenseDecoder)
    assert torch.equal(logits(first), logits(third))


def test_a_damaged_file_costs_a_load_and_nothing_else(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "model", "llama")
    load_model(folder)
    (file,) = kept_files()
    file.write_bytes(file.read_bytes()[:-7])
    assert not isinstance(load_model(folder).module, DenseDecoder)
    assert isinstance(load_model(folder).module, DenseDecoder)


def test_weights_that_the_digest_does_not_see_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of large files only samples are in a version; what was kept of others must not pass for theirs."""
    monkeypatch.setattr(loading, "folder_digest", lambda folder, salt="": "the same")
    folder = save_tiny(tmp_path / "model", "llama")
    load_model(folder)
    state = load_file(folder / "model.safetensors")
    save_file({name: one * 1.5 for name, one in state.items()}, folder / "model.safetensors", {"format": "pt"})
    assert not isinstance(load_model(folder).module, DenseDecoder)


def test_a_missing_tensor_is_refused_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "folder_digest", lambda folder, salt="": "the same")
    folder = save_tiny(tmp_path / "model", "llama")
    load_model(folder)
    state = load_file(folder / "model.safetensors")
    del state["model.layers.1.mlp.up_proj.weight"]
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelLoadError, match=r"missing: model\.layers\.1\.mlp\.up_proj"):
        load_model(folder)


def test_a_folder_that_cannot_be_written_serves_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV, "/dev/null/nowhere")
    folder = save_tiny(tmp_path / "model", "llama")
    assert facts(load_model(folder)) == facts(load_model(folder))
