"""Checkpoints that others quantised: each weight is what its numbers stand for, without the library that wrote them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from sluicegate.engine import load_model
from sluicegate.engine.checkpoints.dequantise import mxfp4
from sluicegate.engine.cpu.small_layers import CpuSmallLinear, SmallEmbedding
from sluicegate.engine.model import files
from sluicegate.plugins import ModelLoadError
from tests.engine.driving import a_job, prompts, run, serving
from tests.engine.foreign_formats import (
    E2M1,
    eight_bits,
    four_bits,
    fp8_blocks,
    fp8_rows,
    fp8_tensor,
    int8_rows,
    int8_zeros,
    packed_four,
    write_foreign,
    written,
)
from tests.engine.tiny_models import save_tiny

Folder = Callable[..., Path]


def compressed(kind: str, **weights: Any) -> dict[str, Any]:
    groups = {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "int", **weights}}}
    return {"quant_method": "compressed-tensors", "format": kind, "config_groups": groups}


BNB = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
FORMATS: dict[str, tuple[Any, dict[str, Any]]] = {
    "fp8 blocks": (fp8_blocks, {"quant_method": "fp8", "weight_block_size": [48, 48]}),
    "fp8 tensor": (fp8_tensor, {"quant_method": "fp8", "activation_scheme": "static"}),
    "modelopt fp8": (fp8_tensor, {"quant_method": "modelopt", "quant_algo": "FP8"}),
    "compressed fp8": (fp8_rows, compressed("float-quantized", type="float")),
    "compressed fp8 blocks": (
        partial(fp8_blocks, end="weight_scale"),
        compressed("float-quantized", type="float", block_structure=[48, 48]),
    ),
    "W8A8": (int8_rows, compressed("int-quantized")),
    "W8A8, zero points": (int8_zeros, compressed("int-quantized", symmetric=False)),
    "W4A16": (packed_four, compressed("pack-quantized", num_bits=4, group_size=32)),
    "W4A16, zero points": (
        partial(packed_four, zeros=True), compressed("pack-quantized", num_bits=4, symmetric=False),
    ),
    "W4A16, by order": (partial(packed_four, shuffled=True), compressed("pack-quantized", num_bits=4)),
    "NF4": (four_bits, BNB),
    "NF4, scales in 8 bits": (partial(four_bits, nested=True, kind="bfloat16"), BNB),
    "LLM.int8": (eight_bits, {"quant_method": "bitsandbytes", "load_in_8bit": True}),
}  # fmt: skip


@pytest.mark.parametrize("case", FORMATS)
def test_weights_are_what_their_numbers_stand_for(case: str, tmp_path: Path) -> None:
    write, said = FORMATS[case]
    packed, whole = write_foreign(tmp_path, write, said)
    found, expected = load_model(packed).module.state_dict(), load_model(whole).module.state_dict()
    assert found.keys() == expected.keys()
    for name, one in expected.items():
        torch.testing.assert_close(found[name], one, rtol=2e-7, atol=0)


async def test_answers_are_those_of_the_weights_also_rounded_once_more(tmp_path: Path) -> None:
    for at, case in enumerate(("fp8 blocks", "NF4")):
        packed, whole = write_foreign(tmp_path / str(at), *FORMATS[case])
        for weights in ("full", "int8"):
            answers = []
            for folder in (packed, whole):
                model = load_model(folder, name="m", weights=weights)  # type: ignore[arg-type]
                async with serving(model, forward="transformers") as engine:
                    jobs = [a_job(model, prompt, ignore_eos=True) for prompt in prompts([3, 17])]
                    answers.append([result.tokens for result in await run(engine, *jobs)])
            assert answers[0] == answers[1]


def test_experts_in_mxfp4_are_what_their_numbers_stand_for(tmp_path: Path) -> None:
    """As GPT-OSS keeps them; the oracle goes through the numbers one by one."""
    base = save_tiny(tmp_path, "gpt_oss", hidden_size=64, intermediate_size=32)
    packed, whole = {}, {}
    generator = torch.Generator().manual_seed(0)
    for name, tensor in load_file(base / "model.safetensors").items():
        packed[name] = whole[name] = tensor
        if not name.endswith(("gate_up_proj", "down_proj")):
            continue
        experts, inputs, outputs = tensor.shape
        blocks = torch.randint(0, 256, (experts, outputs, inputs // 32, 16), generator=generator, dtype=torch.uint8)
        powers = torch.randint(118, 125, blocks.shape[:-1], generator=generator, dtype=torch.uint8)
        del packed[name]
        packed |= {f"{name}_blocks": blocks, f"{name}_scales": powers}
        whole[name] = torch.zeros(experts, inputs, outputs)
        for e, o, g, i in torch.cartesian_prod(*(torch.arange(size) for size in blocks.shape)).tolist():
            for half, code in enumerate((int(blocks[e, o, g, i]) & 15, int(blocks[e, o, g, i]) >> 4)):
                number = (-1 if code > 7 else 1) * E2M1[code % 8] * 2.0 ** (int(powers[e, o, g]) - 127)
                whole[name][e, 32 * g + 2 * i + half, o] = number
    one, other = written(tmp_path, base, packed, whole, {"quant_method": "mxfp4"})
    found, expected = load_model(one).module.state_dict(), load_model(other).module.state_dict()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_mxfp4_numbers_are_those_of_transformers() -> None:
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    generator = torch.Generator().manual_seed(1)
    blocks = torch.randint(0, 256, (2, 8, 3, 16), generator=generator, dtype=torch.uint8)
    scales = torch.randint(100, 140, (2, 8, 3), generator=generator, dtype=torch.uint8)
    expected = convert_moe_packed_tensors(blocks.clone(), scales.clone(), dtype=torch.float32)
    assert torch.equal(mxfp4(blocks, scales).transpose(1, 2), expected)


UP = "model.layers.0.mlp.up_proj"


def widen(state: dict[str, torch.Tensor]) -> None:
    for name, one in list(state.items()):
        state[name] = one.float() if one.dtype == torch.float8_e4m3fn else one


BROKEN: dict[str, tuple[str, Callable[[dict[str, torch.Tensor]], Any], str]] = {
    "no scale": ("fp8 blocks", lambda s: s.pop(f"{UP}.weight_scale_inv"), f"'{UP}.weight' is in FP8 and has no scale"),
    "another block": (
        "fp8 blocks",
        lambda s: s.update({f"{UP}.weight_scale_inv": torch.ones(2, 3)}),
        f"parts of '{UP}.weight' do not fit",
    ),
    "no scale of int8": ("W8A8", lambda s: s.pop(f"{UP}.weight_scale"), f"'{UP}' has no weight_scale"),
    "cut words": (
        "W4A16",
        lambda s: s.update({f"{UP}.weight_packed": torch.ones(192, 15, dtype=torch.int32)}),
        r"words of shape \[192, 15\] for \[192, 128\] weights",
    ),
    "no table": ("NF4", lambda s: s.pop(f"{UP}.weight.quant_map"), "lacks its numbers, absmax or quant_map"),
    "few scales": ("NF4", lambda s: s.update({f"{UP}.weight.absmax": torch.ones(9)}), r"\[9\] scales"),
    "nothing": ("fp8 blocks", widen, "none of its layers is"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_parts_that_do_not_fit_together_are_refused_by_name(case: str, tmp_path: Path) -> None:
    kind, spoil, message = BROKEN[case]
    packed, _ = write_foreign(tmp_path, *FORMATS[kind])
    state = load_file(packed / "model.safetensors")
    spoil(state)
    save_file(state, packed / "model.safetensors")
    with pytest.raises(ModelLoadError, match=message):
        load_model(packed)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (compressed("nvfp4-pack-quantized"), r"quantization_config\.format is 'nvfp4-pack-quantized'; read are"),
        (compressed("marlin-24"), r"format is 'marlin-24'"),
        (
            compressed("int-quantized") | {"sparsity_config": {"format": "sparse-24-bitmask"}},
            r"sparsity_config\.format",
        ),
        (compressed("int-quantized") | {"transform_config": {"config_groups": {"R1": {}}}}, "transform_config"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, r"quant_algo is 'NVFP4'; read are 'FP8'"),
    ],
)
def test_forms_that_are_not_read_are_refused_by_the_field(said: dict[str, Any], message: str, tmp_path: Path) -> None:
    packed, _ = write_foreign(tmp_path, int8_rows, said)
    with pytest.raises(ModelLoadError, match=message):
        load_model(packed)


@pytest.mark.parametrize("weights", ["int8", "int4"])
@pytest.mark.parametrize("family", ["llama", "gemma3", "mixtral", "gpt2", "phi"])
@pytest.mark.parametrize("tied", [True, False])
def test_weights_rounded_as_they_are_read_are_those_rounded_afterwards(
    family: str, tied: bool, weights: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of whatever form a layer is, in runs of a few rows; progress is reported to the end."""
    monkeypatch.setattr("sluicegate.engine.checkpoints.stored_tensors.CHUNK", 1000)
    monkeypatch.setattr("sluicegate.engine.model.loading._key_of_load", lambda asked: None)  # both by `transformers`
    folder, seen = save_tiny(tmp_path, family, tie_word_embeddings=tied), []
    early = load_model(folder, weights=weights, on_progress=seen.append).module
    monkeypatch.setattr("sluicegate.engine.model.reading._FORMS", {})
    late = load_model(folder, weights=weights).module
    assert (seen[-1].done, {one.total for one in seen}) == (seen[-1].total, {seen[-1].total})
    pairs = list(zip(early.modules(), late.modules(), strict=True))
    assert [type(one) for one, _ in pairs] == [type(other) for _, other in pairs]
    for one, other in pairs:
        if isinstance(one, CpuSmallLinear | SmallEmbedding):
            assert torch.equal(one.packed.data, other.packed.data)
            assert torch.equal(one.packed.scales, other.packed.scales)
    assert all(torch.equal(a, b) for a, b in zip(early.parameters(), late.parameters(), strict=True))


@pytest.mark.parametrize("extra", ["model.layers.0.self_attn.bias", "lm_head.weight"])
def test_matrices_that_are_passed_over_do_not_have_the_model_made_twice(
    extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill, made = files.filled, []

    def filled(*given: Any) -> Any:
        made.append(1)
        return fill(*given)

    folder = save_tiny(tmp_path, "llama", tie_word_embeddings=True)
    state = load_file(folder / "model.safetensors")
    save_file(state | {extra: state["model.embed_tokens.weight"].clone()}, folder / "model.safetensors")
    monkeypatch.setattr(files, "filled", filled)
    load_model(folder, weights="int8")
    assert made == [1]


@pytest.mark.parametrize("damage", ["cut", "header", "offsets", "dtype"])
def test_a_damaged_file_is_refused_by_name(damage: str, tiny_folder: Folder, tmp_path: Path) -> None:
    folder = save_tiny(tmp_path, "llama")
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    first = next(name for name in header if name != "__metadata__")
    if damage == "offsets":
        header[first]["data_offsets"][1] += 4
    elif damage == "dtype":
        header[first]["dtype"] = "F4"
    text = json.dumps(header).encode()
    made = len(text).to_bytes(8, "little") + text + whole[8 + length :]
    cuts = {"cut": whole[:-100], "header": whole[:40], "offsets": made, "dtype": made}
    path.write_bytes(cuts[damage])
    with pytest.raises(ModelLoadError, match=r"model\.safetensors is no whole safetensors file"):
        load_model(folder)


LAYER = "model.layers.0.self_attn.q_proj"
Parts = dict[str, torch.Tensor]


def of_layer(part: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Parts], Parts]:
    return lambda parts: parts | {f"{LAYER}.{part}": change(parts[f"{LAYER}.{part}"]).contiguous()}


def without(part: str) -> Callable[[Parts], Parts]:
    return lambda parts: {name: one for name, one in parts.items() if name != f"{LAYER}.{part}"}


MISFITS: list[tuple[str, dict[str, Any], Callable[[Parts], Parts], str]] = [
    ("fp8 blocks", {}, of_layer("weight_scale_inv", lambda one: one.int()), r"has scales in torch\.int32"),
    ("fp8 blocks", {}, of_layer("weight_scale_inv", lambda one: -one), "has scales below 0"),
    ("fp8 blocks", {"weight_block_size": None}, dict, r"scales of shape .* do not belong to"),
    ("fp8 blocks", {"weight_block_size": [0, 0]}, dict, "ZeroDivisionError"),
    ("fp8 blocks", {"weight_block_size": [48]}, dict, "IndexError"),
    ("fp8 tensor", {}, of_layer("weight_scale", lambda one: one.int()), r"has scales in torch\.int32"),
    ("compressed fp8", {}, of_layer("weight_scale", lambda one: one.T), "are one for each input"),
    ("compressed fp8 blocks", {"config_groups": {}}, dict, r"scales of shape .* do not belong to"),
    ("W8A8", {}, of_layer("weight_scale", lambda one: one.int()), r"has scales in torch\.int32"),
    ("W8A8", {"config_groups": 5}, dict, "AttributeError: 'int' object"),
    ("W8A8, zero points", {}, without("weight_zero_point"), "has no weight_zero_point, and its quantization_config"),
    (
        "W8A8, zero points",
        {},
        of_layer("weight_zero_point", lambda one: one.view(torch.uint8)),
        "zero points in torch.uint8",
    ),
    ("W4A16", {}, of_layer("weight_scale", lambda one: one[:, :-1]), r"scales of shape .* do not belong to"),
    ("W4A16", {}, of_layer("weight_scale", lambda one: -one), "has scales below 0"),
    ("W4A16, zero points", {}, of_layer("weight_zero_point", lambda one: one[:, :-1]), "has zero points of shape"),
    ("W4A16, zero points", {}, of_layer("weight_zero_point", lambda one: one.float()), "has zero points of shape"),
    ("W4A16, zero points", {}, without("weight_zero_point"), "has no weight_zero_point, and its quantization_config"),
    ("W4A16, by order", {}, of_layer("weight_g_idx", lambda one: one[:-1]), r"order \(weight_g_idx\) of shape"),
    ("NF4", {}, of_layer("weight.absmax", lambda one: one.int()), r"has scales in torch\.int32"),
    ("NF4", {}, of_layer("weight.absmax", lambda one: -one), "has scales below 0"),
    ("NF4", {}, of_layer("weight.quant_map", lambda one: one.int()), r"a quant_map in torch\.int32"),
    ("NF4", {}, of_layer("weight", lambda one: one.float()), r"has numbers in torch\.float32"),
    ("NF4, scales in 8 bits", {}, of_layer("weight.absmax", lambda one: one.float()), "says that they are in 8 bits"),
    ("NF4, scales in 8 bits", {}, of_layer("weight.nested_absmax", lambda one: one[:0]), r"has \[0\] scales for"),
    ("LLM.int8", {}, of_layer("SCB", lambda one: one[None]), "are one for each input"),
    ("LLM.int8", {}, of_layer("SCB", lambda one: one.int()), r"has scales in torch\.int32"),
]


@pytest.mark.parametrize(("case", "said", "change", "message"), MISFITS)
def test_parts_that_are_not_what_a_format_has_are_refused(
    case: str, said: dict[str, Any], change: Callable[[Parts], Parts], message: str, tmp_path: Path
) -> None:
    """Most of these loaded, with other weights than were meant."""
    write, fields = FORMATS[case]
    folder, _ = write_foreign(tmp_path, write, fields)
    parts = load_file(folder / "model.safetensors")
    save_file(change(parts), folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] |= said
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelLoadError, match=message):
        load_model(folder)


def test_a_weight_both_in_blocks_and_whole_is_refused_by_its_name(tmp_path: Path) -> None:
    """The blocks were taken without a word, though the other tensor had other numbers."""
    base = save_tiny(tmp_path, "gpt_oss", hidden_size=64, intermediate_size=32)
    whole = load_file(base / "model.safetensors")
    name = next(name for name in whole if name.endswith("down_proj"))
    experts, inputs, outputs = whole[name].shape
    blocks = torch.zeros(experts, outputs, inputs // 32, 16, dtype=torch.uint8)
    both = whole | {f"{name}_blocks": blocks, f"{name}_scales": torch.zeros(blocks.shape[:-1], dtype=torch.uint8)}
    folder, _ = written(tmp_path, base, both, whole, {"quant_method": "mxfp4"})
    with pytest.raises(ModelLoadError, match=rf"holds {name} both quantised and as whole tensors"):
        load_model(folder)


def test_a_packed_layer_that_is_whole_too_is_refused_by_its_name(tmp_path: Path) -> None:
    folder, whole = write_foreign(tmp_path, *FORMATS["W4A16"])
    state = load_file(folder / "model.safetensors")
    name = next(name for name in state if name.endswith(".weight_packed")).removesuffix("_packed")
    for dtype in (torch.float32, torch.int8):
        save_file(state | {name: load_file(whole / "model.safetensors")[name].to(dtype)}, folder / "model.safetensors")
        with pytest.raises(ModelLoadError, match=rf"holds {name} both quantised and as whole tensors"):
            load_model(folder)
