"""A GGUF file is the model that was written into it."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from sluicegate.engine import load_model
from sluicegate.engine.batching.runner import ModelRunner
from sluicegate.engine.checkpoints.gguf import files
from sluicegate.engine.checkpoints.gguf.header import read_header
from sluicegate.engine.checkpoints.gguf.tensors import GgufTensor
from sluicegate.engine.cpu import EIGHT, CpuSmallLinear
from sluicegate.engine.cpu.packing import pack
from sluicegate.plugins import ModelLoadError
from tests.engine.driving import a_job, prompts, run, serving
from tests.engine.gguf_files import random_blocks, widened_slowly, write_gguf
from tests.engine.tiny_models import EOS, save_tiny

Folder = Callable[..., Path]
needs_gguf = pytest.mark.skipif(
    find_spec("gguf") is None or find_spec("accelerate") is None,
    reason="packages are missing: pip install gguf accelerate",
)


@needs_gguf
async def test_a_gguf_file_answers_as_the_checkpoint_it_was_made_from(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path, "qwen2", head_dim=12, tie_word_embeddings=False)
    (tmp_path / "gguf").mkdir()
    file = write_gguf(folder, tmp_path / "gguf" / "tiny.gguf")
    answers = []
    for where in (folder, file):
        model = load_model(where, name="m")
        async with serving(model) as engine:
            jobs = [a_job(model, prompt, ignore_eos=True) for prompt in prompts([3, 17, 30])]
            answers.append([result.tokens for result in await run(engine, *jobs)])
        assert model.tokenizer.decode(model.tokenizer.encode("the cat", add_special_tokens=False)) == "the cat"
    assert answers[0] == answers[1]
    assert EOS in load_model(file).eos_token_ids


ROPE = {"rope_theta": 10000.0, "original_max_position_embeddings": 64, "factor": 8.0}
SCALED: dict[str, tuple[dict[str, Any], dict[str, str | float]]] = {
    "linear": ({"rope_type": "linear"}, {"type": "linear", "factor": 8.0}),
    "yarn": ({"rope_type": "yarn"}, {"type": "yarn", "factor": 8.0, "original_context_length": 64}),
    "yarn, other ramps": (
        {"rope_type": "yarn", "beta_fast": 16.0, "beta_slow": 2.0},
        {
            "type": "yarn", "factor": 8.0, "original_context_length": 64, "yarn_beta_fast": 16.0,
            "yarn_beta_slow": 2.0,
        },
    ),
    "factors": ({"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}, {}),
}  # fmt: skip


@needs_gguf
@pytest.mark.parametrize("family", ["llama", "qwen2"])
@pytest.mark.parametrize("case", SCALED)
async def test_scaled_positions_of_a_file_are_those_of_its_checkpoint(case: str, family: str, tmp_path: Path) -> None:
    """Over a prompt longer than the original context; `factors` are written as the Llama 3.1 converter does."""
    rope, fields = SCALED[case]
    shape = {"head_dim": 12, "tie_word_embeddings": False}
    folder = save_tiny(tmp_path, family, rope_parameters=ROPE | rope, **shape)
    whole, plain = load_model(folder, name="m"), load_model(save_tiny(tmp_path / "plain", family, **shape), name="m")
    turned, base = (model.module.model.rotary_emb.inv_freq for model in (whole, plain))
    extra = {"rope_freqs.weight": base / turned} if case == "factors" else None
    (tmp_path / "gguf").mkdir()
    read = load_model(write_gguf(folder, tmp_path / "gguf" / "tiny.gguf", fields, extra), name="m")
    assert torch.allclose(read.module.model.rotary_emb.inv_freq, turned, rtol=1e-5)
    text = np.array(prompts([200])[0])
    scores = [ModelRunner(model, 64, 4).score(text, chunk=64) for model in (whole, read, plain)]
    assert torch.allclose(scores[0], scores[1], atol=1e-3)
    assert (scores[0] - scores[2]).abs().max() > 0.1


@needs_gguf
@pytest.mark.parametrize(
    ("fields", "extra", "message"),
    [
        ({"type": "ntk"}, {}, r"rope\.scaling\.type is 'ntk'"),
        ({"type": "yarn", "factor": 2.0, "yarn_log_multiplier": 0.1}, {}, r"rope\.scaling\.yarn_log_multiplier"),
        ({"type": "linear", "factor": 2.0, "attn_factor": 1.5}, {}, r"attn_factor is 1\.5"),
        ({}, {"rope_freqs.weight": torch.ones(7)}, "has \\[7\\] factors"),
        ({}, {"blk.0.attn_q_norm.weight": torch.ones(12)}, r"no place for: blk\.0\.attn_q_norm\.weight"),
        ({}, {"blk.3.ffn_up.weight": torch.ones(64, 48)}, r"no place for: blk\.3\.ffn_up\.weight"),
    ],
)
def test_what_a_file_says_and_cannot_be_computed_is_refused(
    fields: dict[str, Any], extra: dict[str, torch.Tensor], message: str, tmp_path: Path
) -> None:
    folder = save_tiny(tmp_path, "llama", head_dim=12)
    (tmp_path / "gguf").mkdir()
    with pytest.raises(ModelLoadError, match=message):
        load_model(write_gguf(folder, tmp_path / "gguf" / "tiny.gguf", fields, extra))


@needs_gguf
def test_another_file_in_the_folder_is_another_version(tmp_path: Path) -> None:
    folder = tmp_path / "gguf"
    folder.mkdir()
    files = [
        write_gguf(save_tiny(tmp_path, "qwen2", seed=seed, head_dim=12), folder / f"{seed}.gguf") for seed in (0, 1)
    ]
    assert load_model(files[0]).version != load_model(files[1]).version


def test_without_the_package_the_way_to_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate.engine.model.reading.find_spec", lambda name: None)
    with pytest.raises(ModelLoadError, match=r"pip install 'sluicegate\[gguf\]'"):
        load_model(tmp_path / "x.gguf")


@needs_gguf
@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_K", "Q6_K"])
def test_weights_in_blocks_are_what_their_numbers_stand_for(kind: str, tmp_path: Path) -> None:
    """Every matrix of a file whose blocks hold random numbers: those of llama.cpp's own definition."""
    random, written = np.random.default_rng(0), []

    def blocks(matrix: np.ndarray) -> np.ndarray:
        made = random_blocks(kind, matrix.shape[0], matrix.shape[1], random)
        written.append(widened_slowly(kind, made))
        return made

    shape = {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1, "vocab_size": 260}
    folder = save_tiny(tmp_path, "qwen2", head_dim=64, tie_word_embeddings=False, **shape)
    (tmp_path / "gguf").mkdir()
    file = write_gguf(folder, tmp_path / "gguf" / "tiny.gguf", blocks=blocks, kind=kind)
    whole = load_model(file, gguf="full").module.state_dict()
    names = [name for name, one in AutoModelForCausalLM.from_pretrained(folder).state_dict().items() if one.ndim == 2]
    assert len(names) == len(written) == 9
    for name, expected in zip(names, written, strict=True):
        np.testing.assert_allclose(whole[name].numpy(), expected, rtol=1e-6, atol=1e-9)


@needs_gguf
@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_a_file_is_rounded_some_rows_at_a_time_and_no_matrix_is_read_whole(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As what the whole matrix is rounded to, where rows of queries and keys lie in another order in the file, too."""
    folder = save_tiny(tmp_path, family, head_dim=12, tie_word_embeddings=False)
    (tmp_path / "gguf").mkdir()
    file = write_gguf(folder, tmp_path / "gguf" / "tiny.gguf")
    monkeypatch.setattr("sluicegate.engine.checkpoints.gguf.tensors.CHUNK", 7 * 48)
    largest, dequantised = [], GgufTensor._dequantised

    def noted(self: GgufTensor, low: int, high: int) -> torch.Tensor:
        found = dequantised(self, low, high)
        largest.append(found.numel())
        return found

    monkeypatch.setattr(GgufTensor, "_dequantised", noted)
    made = load_model(file, weights="int8").module
    assert max(largest) < 48 * 48
    whole = dict(AutoModelForCausalLM.from_pretrained(folder).named_modules())
    rounded = {name: part for name, part in made.named_modules() if isinstance(part, CpuSmallLinear)}
    assert len(rounded) == 22
    for name, part in rounded.items():
        expected = pack(whole[name].weight.detach().float(), EIGHT)
        assert torch.equal(part.packed.data, expected.data), name
        assert torch.equal(part.packed.scales, expected.scales), name
    assert torch.equal(made.model.embed_tokens.weight, whole["model.embed_tokens"].weight)


@needs_gguf
def test_a_file_is_parsed_once_for_a_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The header of a vocabulary of 262,144 tokens takes a quarter of a second."""
    folder = save_tiny(tmp_path, "qwen2", head_dim=12, tie_word_embeddings=False)
    (tmp_path / "gguf").mkdir()
    file = write_gguf(folder, tmp_path / "gguf" / "tiny.gguf")
    parse = Mock(side_effect=read_header)
    monkeypatch.setattr(files, "read_header", parse)
    load_model(file)
    assert parse.call_count == 1


@needs_gguf
@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma3", "bloom"])
def test_names_of_tensors_are_those_of_transformers_and_made_once(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`transformers` makes the names of all tensors anew for each module in a module: 313 times for 18 layers. Where a
    file has a name that the whole module does not explain, it still looks there."""
    import gguf

    module = AutoModelForCausalLM.from_pretrained(save_tiny(tmp_path, family))
    whole = files._mapped(module, module)
    make = Mock(side_effect=gguf.get_tensor_name_map)
    monkeypatch.setattr(gguf, "get_tensor_name_map", make)
    known = files._mapped(files._WithoutParts(module), module)
    assert make.call_count == 1
    file: Any = SimpleNamespace(names=frozenset(known))
    assert files.places_of(module, file) == known
    assert make.call_count == 2
    assert known == {name: whole[name] for name in known}
    file.names |= {"strange.weight"}
    assert files.places_of(module, file) == whole
