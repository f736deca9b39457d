"""GPTQ and AWQ checkpoints are read without their libraries, and say what their numbers stand for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from sluicegate.engine import load_model
from sluicegate.engine.batching.runner import ModelRunner
from sluicegate.engine.cpu.packing import fits_four, unpack
from sluicegate.engine.cpu.small_layers import CpuSmallLinear
from sluicegate.plugins import ModelLoadError
from tests.engine.driving import a_job, greedy_by_transformers, logprobs_by_transformers, prompts, run, serving
from tests.engine.lora import write_adapter
from tests.engine.packing import SHAPE, say, write_packed

KINDS: dict[str, dict[str, Any]] = {
    "gptq": {"method": "gptq"},
    "gptq without symmetry": {"method": "gptq", "symmetric": False},
    "gptq v2": {"method": "gptq", "symmetric": False, "checkpoint_format": "gptq_v2", "pack_dtype": "int32"},
    "gptq in order of activations": {"method": "gptq", "symmetric": False, "act_order": True, "desc_act": True},
    "gptq, 8 bits": {"method": "gptq", "bits": 8, "symmetric": False},
    "gptq, 2 bits in groups of 32": {"method": "gptq", "bits": 2, "group": 32, "symmetric": False},
    "gptq, one group": {"method": "gptq", "group": -1},
    "gptq, its head too": {"method": "gptq", "leave": (), "shape": SHAPE | {"vocab_size": 272}, "lm_head": True},
    "awq": {"method": "awq", "symmetric": False, "version": "gemm", "zero_point": True},
    "gptq of mixtral": {"method": "gptq", "family": "mixtral", "leave": ("lm_head", "gate.weight")},
    "awq of qwen2": {"method": "awq", "symmetric": False, "family": "qwen2", "group": 64},
}


def scores(folder: Path, weights: Any = "full") -> torch.Tensor:
    return ModelRunner(load_model(folder, weights=weights), 16, 4).score(np.array(prompts([40])[0]), chunk=16)


def expected_scores(folder: Path) -> torch.Tensor:
    ids = prompts([40])[0]
    return logprobs_by_transformers(folder, ids)[:-1].gather(1, torch.tensor(ids[1:])[:, None])[:, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_logprobs_are_those_of_the_weights_that_the_codes_stand_for(kind: str, tmp_path: Path) -> None:
    packed, whole = write_packed(tmp_path, **KINDS[kind])
    assert torch.allclose(scores(packed), expected_scores(whole), atol=1e-4)


async def test_a_packed_checkpoint_answers_as_transformers_does_with_its_weights(tmp_path: Path) -> None:
    packed, whole = write_packed(tmp_path, "awq", symmetric=False)
    model, asked = load_model(packed), prompts([3, 9, 26])
    assert model.eos_token_ids == load_model(whole).eos_token_ids
    async with serving(model) as engine:
        found = await run(engine, *[a_job(model, prompt, max_tokens=8) for prompt in asked])
    assert [result.tokens[0] for result in found] == [greedy_by_transformers(whole, prompt, 8) for prompt in asked]


@pytest.mark.parametrize("group", [32, 64, 128, -1])
def test_symmetric_4_bits_stay_the_same_4_bits(group: int, tmp_path: Path) -> None:
    """With weights = 'int4' nothing is rounded a second time, and nothing is kept in full."""
    packed, whole = write_packed(tmp_path, "gptq", group=group)
    model, state = load_model(packed, weights="int4"), load_file(whole / "model.safetensors")
    for name, layer in model.module.named_modules():
        if isinstance(layer, CpuSmallLinear) and name != "lm_head":
            assert torch.equal(unpack(layer.packed), state[f"{name}.weight"])
    assert model.weight_bytes < 0.3 * load_model(packed).weight_bytes
    again = ModelRunner(load_model(whole, weights="int4"), 16, 4).score(np.array(prompts([40])[0]), chunk=16)
    expected = expected_scores(whole)
    rounded_anew = 0.1 if group == 32 else float((again - expected).abs().mean())  # those codes are found again
    assert (scores(packed, "int4") - expected).abs().mean() < min(0.1, rounded_anew)


def test_scales_that_float16_does_not_have_are_not_kept() -> None:
    """Those of a checkpoint in bfloat16: its codes are rounded again, with scales for fewer inputs."""
    assert fits_four(torch.tensor([[0.25, 1e-4]]).half().float(), 64)
    assert not fits_four(torch.tensor([[0.25, 1e-4]]), 64)
    assert not fits_four(torch.tensor([[1e6]]), 64)
    assert not fits_four(torch.tensor([[0.25]]), 16)


@pytest.mark.parametrize(
    ("method", "weights", "limit"), [("awq", "int8", 0.1), ("awq", "int4", 1), ("gptq", "int8", 0.1)]
)
def test_other_codes_are_rounded_again_and_stay_near(method: str, weights: str, limit: float, tmp_path: Path) -> None:
    packed, whole = write_packed(tmp_path, method, symmetric=False)
    distance = (scores(packed, weights) - expected_scores(whole)).abs().mean()
    assert 0 < distance < limit


def test_an_adapter_is_merged_into_what_the_codes_stand_for(tmp_path: Path) -> None:
    """In 4 bits too: codes that the adapter changed are not taken for the layer."""
    packed, whole = write_packed(tmp_path, "gptq")
    adapter = str(write_adapter(tmp_path / "a", whole, ("model.layers.1.mlp.up_proj",)))
    alone, merged = (load_model(whole, adapter=adapter), load_model(packed, adapter=adapter))
    name = "model.layers.1.mlp.up_proj"
    assert torch.equal(merged.module.get_submodule(name).weight, alone.module.get_submodule(name).weight)
    small = load_model(packed, adapter=adapter, weights="int4").module.get_submodule(name)
    plain = load_model(packed, weights="int4").module.get_submodule(name)
    assert not torch.equal(unpack(small.packed), unpack(plain.packed))


def test_shards_and_layers_with_more_bits_are_read(tmp_path: Path) -> None:
    """`dynamic` rules give some layers 8 bits: that shows in their shapes."""
    packed, whole = write_packed(tmp_path / "four", "gptq")
    eight, whole8 = write_packed(tmp_path / "eight", "gptq", bits=8)
    rest, other = load_file(packed / "model.safetensors"), load_file(eight / "model.safetensors")
    moved = {name: other[name] for name in other if ".layers.1." in name}
    kept = {name: tensor for name, tensor in rest.items() if name not in moved}
    (packed / "model.safetensors").unlink()
    names = {}
    for at, part in enumerate((kept, moved), 1):
        save_file(part, packed / f"model-{at}.safetensors")
        names |= dict.fromkeys(part, f"model-{at}.safetensors")
    (packed / "model.safetensors.index.json").write_text(f'{{"weight_map": {names}}}'.replace("'", '"'))
    say(packed, dynamic={r"+:.*\.1\..*": {"bits": 8}})
    both = load_file(whole / "model.safetensors")
    both |= {name: tensor for name, tensor in load_file(whole8 / "model.safetensors").items() if ".layers.1." in name}
    save_file(both, whole / "model.safetensors", metadata={"format": "pt"})
    assert torch.allclose(scores(packed), expected_scores(whole), atol=1e-4)


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "3 bits": ("gptq", {"bits": 3}, r"quantization_config\.bits is 3; read are 2, 4, 8"),
    "marlin": ("gptq", {"checkpoint_format": "marlin"}, r"quantization_config\.checkpoint_format is 'marlin'"),
    "marlin, said otherwise": ("gptq", {"is_marlin_format": True}, r"quantization_config\.is_marlin_format is True"),
    "bitblas": ("gptq", {"checkpoint_format": None, "format": "bitblas"}, r"quantization_config\.format is 'bitblas'"),
    "other words": ("gptq", {"pack_dtype": "int16"}, r"quantization_config\.pack_dtype is 'int16'"),
    "exllama": ("awq", {"version": "exllama"}, r"quantization_config\.version is 'exllama'; read are 'gemm'"),
    "gemv": ("awq", {"version": "GEMV"}, r"quantization_config\.version is 'gemv'"),
    "awq in 8 bits": ("awq", {"bits": 8}, r"quantization_config\.bits is 8; read are 4"),
    "awq without zeros": ("awq", {"zero_point": False}, r"quantization_config\.zero_point is False"),
    "unknown": ("awq", {"quant_method": "aqlm"}, r"quantization_config\.quant_method is 'aqlm'.*none is known"),
    "a library": ("awq", {"quant_method": "hqq"}, r"quantization_config\.quant_method is 'hqq'.*pip install hqq"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_by_the_field_that_says_so(case: str, tmp_path: Path) -> None:
    method, fields, message = REFUSED[case]
    packed, _ = write_packed(tmp_path, method)
    say(packed, **fields)
    with pytest.raises(ModelLoadError, match=message):
        load_model(packed)


@pytest.mark.parametrize("broken", ["missing", "shape", "strange", "plain", "files"])
def test_a_checkpoint_whose_tensors_do_not_fit_is_refused(broken: str, tmp_path: Path) -> None:
    packed, whole = write_packed(tmp_path, "gptq")
    path = packed / "model.safetensors"
    state, layer = load_file(path), "model.layers.0.self_attn.q_proj"
    if broken == "missing":
        del state[f"{layer}.qzeros"]
    elif broken == "shape":
        state[f"{layer}.scales"] = state[f"{layer}.scales"][:, :-8].contiguous()
    elif broken == "strange":
        state["model.layers.0.mlp.act.scales"] = torch.ones(256)
    elif broken == "plain":
        state = load_file(whole / "model.safetensors")
    save_file(state, path if broken != "files" else packed / "model-2.safetensors")
    if broken == "files":
        path.rename(packed / "model-1.safetensors")
    message = {
        "missing": "lacks qzeros or scales",
        "shape": "do not fit together as 4 bits of gptq",
        "strange": "1 that LlamaForCausalLM has no place for: model.layers.0.mlp.act.scales",
        "plain": "none of its layers is",
        "files": "2 safetensors files and no model.safetensors.index.json",
    }[broken]
    with pytest.raises(ModelLoadError, match=message):
        load_model(packed)


def test_a_layer_both_packed_and_whole_is_refused_by_its_name(tmp_path: Path) -> None:
    folder, _ = write_packed(tmp_path, "gptq")
    state = load_file(folder / "model.safetensors")
    name = next(name for name in state if name.endswith(".qweight")).removesuffix("qweight") + "weight"
    save_file(state | {name: torch.ones(2, 2)}, folder / "model.safetensors")
    with pytest.raises(ModelLoadError, match=rf"holds {name} both quantised and as whole tensors"):
        load_model(folder)
