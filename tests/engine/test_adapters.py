"""A LoRA adapter is what peft says it is: the base model's layers, each with a low-rank product beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from engine import load_model
from plugins import ModelLoadError
from tests.engine.driving import a_job, run, serving
from tests.engine.tiny_models import save_tiny

Folder = Callable[..., Path]
TARGETS = {
    "llama": ("model.layers.0.self_attn.q_proj", "model.layers.2.mlp.down_proj", "model.layers.1.self_attn.v_proj"),
    "gpt2": ("transformer.h.0.attn.c_attn", "transformer.h.1.mlp.c_fc"),
}


def write_adapter(to: Path, base: Path, targets: tuple[str, ...], *, rank: int = 4, **config: Any) -> Path:
    """An adapter in peft's format, with random factors."""
    model = AutoModelForCausalLM.from_pretrained(base)
    generator = torch.Generator().manual_seed(1)
    tensors: dict[str, torch.Tensor] = {}
    for name in targets:
        weight = model.get_submodule(name).weight
        out, into = weight.shape[::-1] if type(model.get_submodule(name)).__name__ == "Conv1D" else weight.shape
        tensors[f"base_model.model.{name}.lora_A.weight"] = torch.randn(rank, into, generator=generator) * 0.3
        tensors[f"base_model.model.{name}.lora_B.weight"] = torch.randn(out, rank, generator=generator) * 0.3
    to.mkdir(parents=True, exist_ok=True)
    save_file(tensors, to / "adapter_model.safetensors")
    values = {"peft_type": "LORA", "r": rank, "lora_alpha": 8, "bias": "none", **config}
    (to / "adapter_config.json").write_text(json.dumps(values))
    return to


@torch.inference_mode()
def beside(base: Path, adapter: Path, scale: float, ids: list[int]) -> torch.Tensor:
    """Logits [T, V] of the base model with the products computed beside its layers, as peft does while it trains."""
    model = AutoModelForCausalLM.from_pretrained(base, attn_implementation="eager").eval()
    tensors = load_file(adapter / "adapter_model.safetensors")
    for key, factor in tensors.items():
        if key.endswith("lora_A.weight"):
            name = key.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
            other = tensors[key.replace("lora_A", "lora_B")]

            def add(_: Any, args: Any, out: torch.Tensor, a: torch.Tensor = factor, b: torch.Tensor = other) -> Any:
                return out + scale * (args[0] @ a.T) @ b.T

            model.get_submodule(name).register_forward_hook(add)
    return model(torch.tensor([ids])).logits[0]


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
    ],
)
def test_what_a_merge_cannot_express_is_refused(
    config: dict[str, Any], targets: tuple[str, ...], message: str, tiny_folder: Folder, tmp_path: Path
) -> None:
    adapter = write_adapter(tmp_path / "adapter", tiny_folder("llama"), targets, **config)
    with pytest.raises(ModelLoadError, match=message):
        load_model(tiny_folder("llama"), adapter=str(adapter))


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
