"""Folders that an operator may name as embedder or judge, and what is said of one that is no encoder."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AlbertConfig, AlbertModel, BertModel, MPNetConfig, MPNetModel

from sluicegate.cache.construction import make_embedder, memory
from sluicegate.cache.semantic.encoder_folder import load_encoder
from sluicegate.cache.semantic.judged.encoder_judge import EncoderJudge
from sluicegate.cache.semantic.model_embedders import FolderEmbedder
from sluicegate.cache.settings import MemorySettings, SemanticSettings
from sluicegate.plugins import ConfigurationError
from tests.cache.encoders import WORDS, adapter, encoder, tokenizer

Spoil = Callable[[Path], object]


def without_last_layer(folder: Path) -> None:
    kept = {name: rows for name, rows in load_file(folder / "model.safetensors").items() if ".layer.1." not in name}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})


def without(*names: str) -> Spoil:
    def spoil(folder: Path) -> None:
        for name in names:
            (folder / name).unlink(missing_ok=True)

    return spoil


def saying(name: str, text: str) -> Spoil:
    return lambda folder: (folder / name).write_text(text, "utf-8")


def of_other_sizes(folder: Path) -> None:
    told = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(told | {"intermediate_size": 96}), "utf-8")


def cut_short(folder: Path) -> None:
    os.truncate(folder / "model.safetensors", 10_000)


SPOILED: list[tuple[Spoil, str]] = [
    (shutil.rmtree, "there is no folder .*: nothing is there; name one"),
    (without("config.json"), "holds no config.json, so it is no model; name a folder that holds"),
    (saying("config.json", "[]"), "cannot be loaded: .*; fetch it anew"),
    (saying("config.json", "{"), "cannot be loaded: .*; fetch it anew"),
    (without("model.safetensors"), "cannot be loaded: .*; fetch it anew"),
    (cut_short, "cannot be loaded: .*; fetch it anew"),
    (saying("model.safetensors", "version https://git-lfs.github.com/spec/v1"), "cannot be loaded: .*; fetch it anew"),
    (without_last_layer, "lacks 16 tensors of BertModel, such as 'encoder.layer.1.*; fetch it anew"),
    (of_other_sizes, "its tensors have other sizes than its config.json says; fetch it anew"),
    (without("vocab.txt", "tokenizer.json", "tokenizer_config.json"), "holds no tokenizer: .*tokenizer.json.*fetch"),
    (lambda folder: tokenizer(folder, f"{WORDS} and some more"), "has 29 pieces, its model vectors for 26.*fetch both"),
]


@pytest.mark.parametrize(("spoil", "said"), SPOILED)
@pytest.mark.parametrize("role", ["judge", "embedder"])
def test_a_folder_that_is_no_whole_encoder_is_refused_with_the_table_that_names_it(
    role: str, spoil: Spoil, said: str, tmp_path: Path
) -> None:
    folder, _ = encoder(tmp_path / "spoiled", 1)
    spoil(folder)
    with pytest.raises(ConfigurationError, match=rf"^\[stages\.recall\.memory\.semantic\] {role}: .*{said}"):
        memory(MemorySettings(semantic=SemanticSettings(**{role: f"folder:{folder}"})))


@pytest.mark.parametrize(
    ("path", "found"), [("x" * 5_000, "name too long"), ("file", "it is a file"), ("\0", "nothing")]
)
def test_a_path_that_is_no_folder_is_refused(path: str, found: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    for make in (EncoderJudge, FolderEmbedder):
        with pytest.raises(ConfigurationError, match=f"there is no folder .*: .*{found}"):
            make(tmp_path / path)


def test_the_tables_of_pooling_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    folder, _ = encoder(tmp_path / "embedder", 1)
    for modules in ("{", "[1]", '[{"type": "a.Transformer"}, {"type": "a.Pooling"}]'):
        (folder / "modules.json").write_text(modules, "utf-8")
        with pytest.raises(ConfigurationError, match=r"^\[here\] embedder: modules.json or .* cannot be read: .*fetch"):
            make_embedder("here", f"folder:{folder}", None)


SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 26}


MODELS = [MPNetModel(MPNetConfig(**SIZES)), AlbertModel(AlbertConfig(embedding_size=16, **SIZES))]


@pytest.mark.parametrize("model", MODELS)
def test_an_encoder_of_another_architecture_is_no_judge(model: torch.nn.Module, tmp_path: Path) -> None:
    tokenizer(tmp_path, WORDS)
    model.save_pretrained(tmp_path)  # type: ignore[operator]
    with pytest.raises(ConfigurationError, match=f"holds another model than .* a {type(model).__name__} of .* fetch"):
        EncoderJudge(tmp_path)


def test_an_encoder_that_differs_in_its_last_layer_is_no_judge(tmp_path: Path) -> None:
    folder, base = encoder(tmp_path / "base", 1)
    made = adapter(folder, base, base)
    EncoderJudge(folder, made)
    with torch.no_grad():
        base.encoder.layer[1].output.dense.weight[0, 0] += 0.01
    base.save_pretrained(folder)
    with pytest.raises(ConfigurationError, match="holds another model than"):
        EncoderJudge(folder, made)


def test_the_right_weights_with_another_tokenizer_are_no_judge(tmp_path: Path) -> None:
    folder, base = encoder(tmp_path / "base", 1)
    made = adapter(folder, base, base)
    tokenizer(folder, " ".join(reversed(WORDS.split())))
    with pytest.raises(
        ConfigurationError, match=r"a known pair of questions .* its tokenizer is another's; fetch them"
    ):
        EncoderJudge(folder, made)


def test_the_right_weights_with_another_number_of_heads_are_no_judge(tmp_path: Path) -> None:
    folder, base = encoder(tmp_path / "base", 1)
    made = adapter(folder, base, base)
    told = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(told | {"num_attention_heads": 4}), "utf-8")
    with pytest.raises(ConfigurationError, match="a known pair of questions"):
        EncoderJudge(folder, made)


def test_weights_without_a_pooler_will_do(tmp_path: Path) -> None:
    """Nothing here uses it."""
    folder, base = encoder(tmp_path / "base", 1)
    made = adapter(folder, base, base)
    BertModel(base.config, add_pooling_layer=False).save_pretrained(folder)
    kept = {name: rows for name, rows in base.state_dict().items() if not name.startswith("pooler.")}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    EncoderJudge(folder, made)


def test_nothing_of_the_file_stays_mapped(tmp_path: Path) -> None:
    """Weights that were read from a mapped file end the process by a signal where it is cut short later."""
    folder, _ = encoder(tmp_path / "base", 1)
    _, model = load_encoder(folder, "judge")
    assert str(folder) not in Path("/proc/self/maps").read_text("utf-8")
    cut_short(folder)
    assert all(bool(weights.isfinite().all()) for weights in model.parameters())
