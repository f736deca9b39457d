"""The long lists of a GGUF file are read once; `transformers` makes of an outline what it makes of the file."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoConfig, AutoTokenizer, Gemma3TextConfig

from sluicegate.engine import Detokenizer, load_model
from sluicegate.engine.checkpoints.gguf.files import GgufFile
from sluicegate.engine.checkpoints.gguf.outline import config_of_file, outline, tokenizer_of_file
from tests.engine.gguf_bytes import LIST, TEXT, UINT32, GgufParts
from tests.engine.gguf_files import write_gguf
from tests.engine.test_gguf import needs_gguf
from tests.engine.tiny_models import save_tiny

pytestmark = needs_gguf
FAMILIES = ("llama", "qwen2", "qwen3_moe")


@pytest.fixture(params=FAMILIES)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> GgufFile:
    (tmp_path / "gguf").mkdir()
    folder = save_tiny(tmp_path / "whole", request.param, tie_word_embeddings=False, head_dim=12)
    return GgufFile(write_gguf(folder, tmp_path / "gguf" / "m.gguf"), "m.gguf")


def by_transformers(path: Path, kind: Any) -> Any:
    return kind.from_pretrained(path.parent, gguf_file=path.name)


def without_path(config: Any) -> dict[str, Any]:
    return {name: value for name, value in config.to_dict().items() if name != "_name_or_path"}


def test_fields_and_tensors_are_those_that_the_package_reads(file: GgufFile) -> None:
    from gguf import GGUFReader

    theirs = GGUFReader(file.path)
    for name, field in theirs.fields.items():
        if not name.startswith("GGUF."):  # its own counts
            assert file.value(name) == field.contents(), name
            assert type(file.value(name)) is type(field.contents()), name
            assert file.types(name) == tuple(int(kind) for kind in field.types), name
    assert [one.name for one in file.tensors] == [one.name for one in theirs.tensors]
    for ours, other in zip(file.tensors, theirs.tensors, strict=True):
        assert ours.tensor_type is other.tensor_type
        assert (ours.n_bytes, ours.data_offset) == (other.n_bytes, other.data_offset)
        assert ours.shape == tuple(other.shape.tolist())
        assert np.array_equal(ours.data.reshape(-1), other.data.view(np.uint8).reshape(-1)), ours.name


def test_a_configuration_by_its_outline_is_that_of_the_file(file: GgufFile) -> None:
    assert without_path(config_of_file(file)) == without_path(by_transformers(file.path, AutoConfig))


@pytest.mark.parametrize("said", [None, 61, 300])
def test_a_vocabulary_is_as_large_as_the_file_says_or_its_tokens_are(
    said: int | None, file: GgufFile, tmp_path: Path
) -> None:
    """Also where it says as much as an outline has tokens."""
    name, parts = f"{file.architecture}.vocab_size", GgufParts.of(file.path)
    parts = parts.without(name) if said is None else parts.saying(name, UINT32, said)
    made = GgufFile(parts.write(tmp_path / "gguf" / "other.gguf"), "m.gguf")
    assert config_of_file(made).vocab_size == by_transformers(made.path, AutoConfig).vocab_size
    assert config_of_file(made).vocab_size == (said or file.length("tokenizer.ggml.tokens"))


def test_ids_beyond_the_outline_are_no_warning(
    file: GgufFile, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, parts = f"{file.architecture}.vocab_size", GgufParts.of(file.path)
    parts = parts.without(name).saying("tokenizer.ggml.eos_token_id", UINT32, 200)
    made = GgufFile(parts.write(tmp_path / "gguf" / "other.gguf"), "m.gguf")
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    assert config_of_file(made).eos_token_id == 200
    assert not caplog.records


def test_a_tokenizer_is_that_of_the_file(file: GgufFile) -> None:
    ours, theirs = tokenizer_of_file(file, config_of_file(file)), by_transformers(file.path, AutoTokenizer)
    assert type(ours) is type(theirs)
    assert ours.backend_tokenizer.to_str() == theirs.backend_tokenizer.to_str()
    assert ours.special_tokens_map == theirs.special_tokens_map


def test_an_outline_is_small_however_long_the_lists_of_the_tokenizer_are(file: GgufFile, tmp_path: Path) -> None:
    texts = [f"token {at}".encode() for at in range(50_000)]
    parts = GgufParts.of(file.path).saying("tokenizer.ggml.tokens", LIST, (TEXT, texts))
    parts = parts.saying("tokenizer.ggml.scores", LIST, (6, [0.5] * len(texts)))
    made = GgufFile(parts.write(tmp_path / "gguf" / "other.gguf"), "m.gguf")
    assert len(outline(made)) < 16_000
    assert config_of_file(made).vocab_size == GgufFile(file.path, "").field("vocab_size")


def test_the_package_never_reads_the_whole_file(file: GgufFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes arrays of every token, several times a load."""
    import gguf

    read, reader = [], gguf.GGUFReader

    def noted(path: str, *more: str) -> Any:
        read.append(Path(path))
        return reader(path, *more)

    monkeypatch.setattr(gguf, "GGUFReader", noted)
    load_model(file.path)
    assert read
    assert file.path not in read


def test_runs_of_spaces_are_cut_as_sentencepiece_does(tmp_path: Path) -> None:
    """The longest that the file marks as user-defined comes first, before anything is merged: four spaces, then a word
    that begins with one. `transformers` does not add these tokens, and merges all spaces alike."""
    folder = save_tiny(tmp_path / "whole", "llama", tie_word_embeddings=False, head_dim=12)
    special, pieces = ["<pad>", "<eos>", "<bos>", "<unk>"], ["\u2581", "a", "\u2581a"]
    runs = [" " * count for count in (2, 3, 4)]
    tokens = [*special, *(f"<0x{byte:02X}>" for byte in range(256)), *runs, *pieces]
    kinds = [3] * 4 + [6] * 256 + [4] * 3 + [1] * 3
    fields: dict[str, tuple[int, Any]] = {
        "general.architecture": (TEXT, b"gemma3"),
        "tokenizer.ggml.model": (TEXT, b"llama"),
        "tokenizer.ggml.tokens": (LIST, (TEXT, [token.encode() for token in tokens])),
        "tokenizer.ggml.scores": (LIST, (6, [0.0] * len(tokens))),
        "tokenizer.ggml.token_type": (LIST, (5, kinds)),
    }
    parts = (
        GgufParts.of(write_gguf(folder, tmp_path / "m.gguf"))
        .without("tokenizer.ggml.merges")
        .without("tokenizer.ggml.pre")
    )
    for name, (kind, value) in fields.items():
        parts = parts.saying(name, kind, value)
    file = GgufFile(parts.write(tmp_path / "m.gguf"), "m.gguf")
    tokenizer = tokenizer_of_file(file, Gemma3TextConfig())
    ids = tokenizer.encode("a" + 5 * " " + "a", add_special_tokens=False)
    assert [tokens[token] for token in ids] == ["a", "    ", "\u2581a"]
    assert tokenizer.decode(ids) == "a     a"
    stream = Detokenizer(tokenizer).stream()
    assert "".join(map(stream.feed, ids)) + stream.close() == "a     a"
