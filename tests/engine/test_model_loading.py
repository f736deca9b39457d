"""What can be served is loaded as it is; what cannot is refused with the reason."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from sluicegate.engine import load_model
from sluicegate.engine.memory.kv import LayerShape
from sluicegate.engine.model.checks import verify
from sluicegate.plugins import ModelLoadError
from tests.engine.conftest import MakeModel
from tests.engine.driving import a_job, run, serving
from tests.engine.tiny_models import EOS, byte_tokenizer, save_tiny

Folder = Callable[..., Path]


def copied(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to / "copy"))


def edit_json(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def saved(config: object, folder: Path, auto: str = "AutoModelForCausalLM") -> Path:
    torch.manual_seed(0)
    getattr(transformers, auto).from_config(config).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


def test_a_model_knows_what_stages_ask_of_it(tiny: MakeModel) -> None:
    model = tiny("mistral")
    assert (model.name, model.context_length, model.vocab_size) == ("mistral", 512, 266)
    assert model.eos_token_ids == (EOS,)
    assert model.tokenizer.decode(model.tokenizer.encode("hé", add_special_tokens=False)) == "hé"
    assert model.layers == (LayerShape(2, 16, 16, 4, 9),) * 3
    assert model.kv_bytes_per_token == 3 * 2 * (16 + 16) * 4


def test_windows_of_mixed_layers_are_told_apart(tiny: MakeModel) -> None:
    assert [layer.window for layer in tiny("gemma3").layers] == [9, None, 9]
    assert [layer.window for layer in tiny("gemma2").layers] == [9, None, 9]


def test_several_end_tokens_and_the_checkpoints_temperature(tiny_folder: Folder, tmp_path: Path) -> None:
    folder = copied(tiny_folder("llama"), tmp_path)
    edit_json(folder / "generation_config.json", eos_token_id=[7, 9], do_sample=True, temperature=0.6)
    model = load_model(folder)
    assert (model.eos_token_ids, model.default_temperature) == ((7, 9, EOS), 0.6)
    edit_json(folder / "generation_config.json", do_sample=False, temperature=None)
    assert load_model(folder).default_temperature == 0.0


async def test_a_checkpoints_own_sampling_is_that_of_requests_that_leave_it_out(
    tiny_folder: Folder, tmp_path: Path
) -> None:
    """As `generate` of transformers does with the same file; what a request says counts, also where it is nothing."""
    folder = copied(tiny_folder("llama"), tmp_path)
    own = {"top_k": 12, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 3.0}
    edit_json(folder / "generation_config.json", do_sample=True, temperature=0.7, **own)
    model, alone = load_model(folder, name="m"), transformers.AutoModelForCausalLM.from_pretrained(folder)
    assert (model.default_temperature, model.defaults) == (0.7, own)
    told = {"temperature": 0.7, "seed": 3, "max_tokens": 40, "ignore_eos": True}
    async with serving(model) as engine:
        [greedy, drawn, said, off, plain] = await run(
            engine,
            a_job(model, "the cat", ignore_eos=True),
            a_job(model, "the cat", **{**told, "temperature": None}),
            a_job(model, "the cat", **told, **own),
            a_job(model, "the cat", ignore_eos=True, repetition_penalty=1.0),
            a_job(model, "the cat", **told, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0),
        )
    ids = torch.tensor([model.tokenizer.encode("the cat", add_special_tokens=False)])
    asked = {"do_sample": False, "max_new_tokens": 12, "min_new_tokens": 12, "eos_token_id": None}
    for found, penalty in ((greedy, 3.0), (off, 1.0)):
        expected = alone.generate(ids, repetition_penalty=penalty, **asked)[0, ids.shape[1] :]
        assert found.tokens[0] == expected.tolist()
    assert drawn.tokens == said.tokens != plain.tokens
    assert greedy.tokens != off.tokens


@pytest.mark.parametrize(("name", "value"), [
    ("top_p", 1.5), ("top_k", -2), ("top_k", 2.5), ("min_p", "0.1"), ("repetition_penalty", 0), ("temperature", True),
    ("pad_token_id", []), ("bos_token_id", {}),
])  # fmt: skip
def test_a_generation_config_that_nobody_could_ask_for_is_refused(
    name: str, value: object, tiny_folder: Folder, tmp_path: Path
) -> None:
    folder = copied(tiny_folder("llama"), tmp_path)
    edit_json(folder / "generation_config.json", do_sample=True, **{name: value})
    with pytest.raises(ModelLoadError, match=rf"generation_config\.json (cannot be used: .*{name}|says {name} = )"):
        load_model(folder)


async def test_weights_in_several_files_are_one_model(tiny: MakeModel, tmp_path: Path) -> None:
    folder = save_tiny(tmp_path, "llama")
    module = transformers.AutoModelForCausalLM.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    module.save_pretrained(folder, max_shard_size="40KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 2
    sharded = load_model(folder, name="llama")
    answers = []
    for model in (sharded, tiny("llama")):
        async with serving(model) as engine:
            answers.append((await run(engine, a_job(model, "the cat", ignore_eos=True)))[0].tokens)
    assert answers[0] == answers[1]


async def test_each_of_several_end_tokens_ends_an_answer(tiny: MakeModel, tiny_folder: Folder, tmp_path: Path) -> None:
    """Every token of an answer in turn as a second end token: `generate` of transformers ends there, and so do we."""
    async with serving(tiny("llama")) as engine:
        whole = (await run(engine, a_job(tiny("llama"), "the cat", ignore_eos=True, max_tokens=6)))[0].tokens[0]
    folder = copied(tiny_folder("llama"), tmp_path)
    for token in whole[1:5:2]:
        edit_json(folder / "generation_config.json", eos_token_id=[EOS, token])
        model = load_model(folder)
        async with serving(model) as engine:
            result = (await run(engine, a_job(model, "the cat")))[0]
        assert result.tokens[0] == whole[: whole.index(token)]
        assert result.reasons == ["stop"]


def test_padded_columns_are_counted_apart(tmp_path: Path) -> None:
    model = load_model(save_tiny(tmp_path, "llama", vocab_size=320))
    assert (model.vocab_size, model.usable_vocab) == (320, 266)


def test_the_version_follows_weights_and_configuration_but_not_the_place(tiny_folder: Folder, tmp_path: Path) -> None:
    folder = copied(tiny_folder("llama"), tmp_path)
    version = load_model(tiny_folder("llama")).version
    assert load_model(folder).version == version
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"][0] += 1
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    changed = load_model(folder).version
    assert changed != version
    edit_json(folder / "config.json", rms_norm_eps=1e-5)
    assert load_model(folder).version not in (version, changed)


def test_a_dtype_can_be_asked_for(tiny_folder: Folder) -> None:
    assert load_model(tiny_folder("llama"), dtype="bfloat16").dtype == torch.bfloat16
    with pytest.raises(ModelLoadError, match=r"int8.*use float32"):
        load_model(tiny_folder("llama"), dtype="int8")


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="could not be loaded"):
        load_model(tmp_path / "nothing")


def test_a_checkpoint_without_a_tokenizer_is_refused(tiny_folder: Folder, tmp_path: Path) -> None:
    folder = copied(tiny_folder("llama"), tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    with pytest.raises(ModelLoadError, match="tokenizer"):
        load_model(folder)


def test_an_encoder_decoder_is_refused(tmp_path: Path) -> None:
    config = transformers.T5Config(d_model=32, d_kv=8, d_ff=32, num_layers=1, num_heads=4, vocab_size=266)
    with pytest.raises(ModelLoadError, match="encoder-decoder"):
        load_model(saved(config, tmp_path, "AutoModelForSeq2SeqLM"))


def test_a_model_of_speech_is_refused(tiny_folder: Folder, tmp_path: Path) -> None:
    """Moshi's text alone is not what its own `generate` answers: it is drawn beside codes of sound."""
    folder = copied(tiny_folder("llama"), tmp_path)
    edit_json(folder / "config.json", model_type="moshi")
    with pytest.raises(ModelLoadError, match="model of speech"):
        load_model(folder)


def test_a_recurrent_model_is_refused(tmp_path: Path) -> None:
    config = transformers.MambaConfig(hidden_size=32, num_hidden_layers=2, vocab_size=266, state_size=4)
    with pytest.raises(ModelLoadError):
        load_model(saved(config, tmp_path))


def test_linear_attention_layers_are_refused_by_name(tiny_folder: Folder, tmp_path: Path) -> None:
    folder = copied(tiny_folder("qwen3"), tmp_path)
    edit_json(folder / "config.json", layer_types=["linear_attention", "full_attention", "full_attention"])
    with pytest.raises(ModelLoadError, match="linear_attention"):
        load_model(folder)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_that_runs_a_layer_twice_in_a_pass_is_refused(tiny_folder: Folder, dtype: torch.dtype) -> None:
    """Its later keys would take the place of its earlier ones: a difference that the trial in half precision allows."""
    folder = tiny_folder("qwen3")
    module = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager")
    module.model.layers[2].self_attn.layer_idx = 1
    with pytest.raises(ModelLoadError, match="1 layers of Qwen3ForCausalLM attend several times in a pass"):
        verify(module, module.config, "looped")


def test_position_biases_outside_the_interface_are_refused(tmp_path: Path) -> None:
    """Falcon's ALiBi is added inside attention of its own."""
    config = transformers.FalconConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=266,
        alibi=True,
        max_position_embeddings=64,
    )
    with pytest.raises(ModelLoadError):
        load_model(saved(config, tmp_path))


@pytest.mark.parametrize("heads", [4, 6, 8])
def test_alibi_slopes_are_those_of_transformers(heads: int) -> None:
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    from sluicegate.engine.model.bloom import _slopes

    expected = build_alibi_tensor(torch.ones(1, 2), heads, torch.float32).view(heads, 2)[:, 1]
    assert torch.allclose(_slopes(heads), expected)


def test_a_rotary_scaling_that_depends_on_the_batch_is_served_up_to_where_it_switches(tmp_path: Path) -> None:
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0, "original_max_position_embeddings": 64}
    model = load_model(save_tiny(tmp_path, "llama", rope_parameters=rope))
    assert model.context_length == 64
