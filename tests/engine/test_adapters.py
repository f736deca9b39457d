"""A LoRA adapter is what peft says it is: the base model's layers, each with a low-rank product beside it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from sluicegate.engine import load_model
from sluicegate.engine.checkpoints.lora import read_adapter
from sluicegate.plugins import ModelLoadError
from tests.engine.driving import a_job, run, serving
from tests.engine.lora import TARGETS, beside, write_adapter
from tests.engine.tiny_models import save_tiny

Folder = Callable[..., Path]


@pytest.mark.parametrize("family", TARGETS)
@pytest.mark.parametrize(
    ("config", "scale"), [({}, 2.0), ({"use_rslora": True}, 4.0), ({"alpha_pattern": {".*": 2}}, 0.5)]
)
async def test_a_merged_adapter_computes_what_stands_beside_the_layers(
    family: str, config: dict[str, Any], scale: float, tiny_folder: Folder, tmp_path: Path
) -> None:
    base = tiny_folder(family)
    adapter = write_adapter(tmp_path / "adapter", base, TARGETS[family], **config)
    model = load_model(base, name=family, adapter=str(adapter))
    async with serving(model) as engine:
        result = (await run(engine, a_job(model, "the cat", logprobs=0, ignore_eos=True)))[0]
    prompt = model.tokenizer.encode("the cat", add_special_tokens=False)
    expected = beside(base, adapter, scale, prompt + result.tokens[0])
    assert result.tokens[0] == expected.argmax(-1)[len(prompt) - 1 : -1].tolist()
    assert model.version != load_model(base).version


@pytest.mark.parametrize(
    ("config", "targets", "message"),
    [
        ({"use_dora": True}, TARGETS["llama"], "use_dora"),
        ({"bias": "all"}, TARGETS["llama"], "bias"),
        ({"modules_to_save": ["lm_head"]}, TARGETS["llama"], "modules_to_save"),
        ({"peft_type": "IA3"}, TARGETS["llama"], "only LORA"),
        ({"init_lora_weights": "pissa_niter_4"}, TARGETS["llama"], "init_lora_weights = 'pissa_niter_4'"),
        ({"target_parameters": ["experts.gate_up_proj"]}, TARGETS["llama"], "target_parameters"),
        ({"alora_invocation_tokens": [3]}, TARGETS["llama"], "alora_invocation_tokens"),
        ({"lora_alpha": "x"}, TARGETS["llama"], "the scale lora_alpha = 'x'"),
        ({"lora_alpha": float("nan")}, TARGETS["llama"], "the scale lora_alpha = nan"),
        ({"alpha_pattern": {"q_proj": None}}, TARGETS["llama"], "the scale q_proj = None"),
        ({"alpha_pattern": {"(": 2}}, TARGETS["llama"], "names layers by"),
        ({"alpha_pattern": [2]}, TARGETS["llama"], "objects of numbers"),
        ({"r": 9}, TARGETS["llama"], "with rank 4, and its adapter_config.json says 9"),
        ({"r": 0}, TARGETS["llama"], "the rank r = 0"),
        ({"rank_pattern": {"v_proj": 2}}, TARGETS["llama"], "v_proj' with rank 4, and its adapter_config.json says 2"),
    ],
)
def test_what_a_merge_cannot_express_is_refused(
    config: dict[str, Any], targets: tuple[str, ...], message: str, tiny_folder: Folder, tmp_path: Path
) -> None:
    adapter = write_adapter(tmp_path / "adapter", tiny_folder("llama"), targets, **config)
    with pytest.raises(ModelLoadError, match=message):
        load_model(tiny_folder("llama"), adapter=str(adapter))


def read_beside(base: Path, adapter: Path) -> Any:
    return read_adapter(load_model(base).module, adapter)


def _cut(adapter: Path) -> None:
    path = adapter / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:-9])


def _with_nan(adapter: Path) -> None:
    path = adapter / "adapter_model.safetensors"
    tensors = load_file(path)
    next(iter(tensors.values()))[0, 0] = float("nan")
    save_file(tensors, path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_cut, "adapter_model.safetensors is no whole safetensors file"),
        (_with_nan, "holds numbers that are NaN"),
        (lambda adapter: (adapter / "adapter_config.json").write_text("{"), "is not JSON"),
        (lambda adapter: (adapter / "adapter_config.json").write_text("[]"), "is no JSON object"),
    ],
    ids=["cut", "nan", "no json", "a list"],
)
@pytest.mark.parametrize("merged", [True, False])
def test_a_damaged_adapter_is_refused_and_named(
    damage: Callable[[Path], Any], message: str, merged: bool, tiny_folder: Folder, tmp_path: Path
) -> None:
    """Beside the layers nothing else would notice: callers would get an error for each answer."""
    base = tiny_folder("llama")
    adapter = write_adapter(tmp_path / "adapter", base, TARGETS["llama"])
    damage(adapter)
    read = partial(load_model, base, adapter=str(adapter)) if merged else partial(read_beside, base, adapter)
    with pytest.raises(ModelLoadError, match=message) as refused:
        read()
    assert str(adapter) in str(refused.value)


def test_an_adapter_of_another_model_is_refused(tiny_folder: Folder, tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"for another model: there is no 'transformer\.h\.0\.attn\.c_attn'"):
        load_model(
            tiny_folder("llama"), adapter=str(write_adapter(tmp_path / "a", tiny_folder("gpt2"), TARGETS["gpt2"]))
        )
    wide = save_tiny(tmp_path, "llama", hidden_size=64)
    with pytest.raises(ModelLoadError, match="in shape"):
        load_model(tiny_folder("llama"), adapter=str(write_adapter(tmp_path / "b", wide, TARGETS["llama"])))
    with pytest.raises(ModelLoadError, match="is no adapter"):
        load_model(tiny_folder("llama"), adapter=str(tmp_path))


@pytest.mark.parametrize(
    ("config", "change", "message"),
    [
        ({}, lambda f: {name: one.int() for name, one in f.items()}, r"numbers in torch\.int32; expected a matrix"),
        ({}, lambda f: {n: one.to(torch.float8_e4m3fn) for n, one in f.items()}, r"numbers in torch\.float8_e4m3fn"),
        ({}, lambda f: {name: one.flatten() for name, one in f.items()}, r"as \[\d+\] numbers"),
        (
            {},
            lambda f: f | {n.removeprefix("base_model.model."): 2 * one for n, one in f.items()},
            r"holds lora_A .*twice",
        ),
        (
            {},
            lambda f: {n: one[:0] if "A" in n[-10:] else one[:, :0] for n, one in f.items()},
            r"with rank 0, so not at",
        ),
        ({}, lambda f: {name: one * 1e30 for name, one in f.items()}, r"by numbers beyond 1e\+20"),
        ({"lora_alpha": 1e308}, dict, r"by numbers beyond 1e\+20"),
        ({"use_bdlora": True}, dict, "uses use_bdlora, which plain LoRA"),
        ({"arrow_config": {"top_k": 2}}, dict, "uses arrow_config, which plain LoRA"),
    ],
)
def test_factors_that_are_no_factors_are_refused_by_name(
    config: dict[str, Any], change: Any, message: str, tiny_folder: Folder, tmp_path: Path
) -> None:
    """Some were served as their codes, or as the last of two; others failed each request with NaN."""
    folder = write_adapter(tmp_path / "a", tiny_folder("llama"), TARGETS["llama"], **config)
    factors = load_file(folder / "adapter_model.safetensors")
    save_file({n: one.contiguous() for n, one in change(factors).items()}, folder / "adapter_model.safetensors")
    with pytest.raises(ModelLoadError, match=message):
        load_model(tiny_folder("llama"), adapter=str(folder))


def test_an_adapter_config_nested_without_end_is_refused(tiny_folder: Folder, tmp_path: Path) -> None:
    folder = write_adapter(tmp_path / "a", tiny_folder("llama"), TARGETS["llama"])
    (folder / "adapter_config.json").write_text("[" * 100_000)
    with pytest.raises(ModelLoadError, match=r"adapter_config\.json of the adapter .* is not JSON"):
        load_model(tiny_folder("llama"), adapter=str(folder))
