"""Checkpoints that bitsandbytes wrote answer as through bitsandbytes, which is not needed to serve them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM

from sluicegate.engine import load_model
from tests.engine.driving import a_job, prompts, run, serving
from tests.engine.lora import greedy, write_adapter
from tests.engine.tiny_models import byte_tokenizer, save_tiny

NEEDED = "pip install bitsandbytes: it loads NF4 and LLM.int8 checkpoints, on CPUs too"
SHAPE: dict[str, Any] = {"hidden_size": 128, "intermediate_size": 256, "head_dim": 32, "initializer_range": 0.1}


def quantised(folder: Path, **asked: Any) -> tuple[Path, Any]:
    """Write a checkpoint as bitsandbytes does; return it and the model that it was written from."""
    pytest.importorskip("bitsandbytes", reason=NEEDED)
    config = transformers.BitsAndBytesConfig(**asked)
    base = save_tiny(folder, "llama", **SHAPE)
    model = AutoModelForCausalLM.from_pretrained(base, quantization_config=config, dtype=torch.float32)
    model.save_pretrained(folder / "small")
    byte_tokenizer().save_pretrained(folder / "small")
    return folder / "small", model


async def test_an_nf4_checkpoint_answers_as_in_transformers_also_with_an_adapter(tmp_path: Path) -> None:
    kind = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": torch.float32}
    folder, alone = quantised(tmp_path, **kind)
    model = load_model(folder, name="base")
    layer = "model.layers.1.mlp.up_proj"
    path = write_adapter(tmp_path / "a", tmp_path / "llama-0", (layer,))
    asked = prompts([3, 9, 26])
    async with serving(model, max_batch_size=8, max_batch_tokens=20) as engine:
        await engine.add_model({"path": str(path), "base": "base", "name": "a"})
        jobs = [a_job(model, prompt, ignore_eos=True) for prompt in asked]
        found = await run(engine, *jobs, *(replace(job, model="a") for job in jobs))
    expected = [greedy(alone, prompt, 12) for prompt in asked]
    _stand_beside(alone.get_submodule(layer), path, layer)
    expected += [greedy(alone, prompt, 12) for prompt in asked]
    assert [result.tokens[0] for result in found] == expected


def _stand_beside(layer: Any, path: Path, name: str) -> None:
    from safetensors.torch import load_file

    tensors = load_file(path / "adapter_model.safetensors")
    down, up = (tensors[f"base_model.model.{name}.lora_{side}.weight"] for side in "AB")
    layer.register_forward_hook(lambda _, given, out: out + 2.0 * (given[0] @ down.T) @ up.T)


def test_an_int8_checkpoint_is_the_weights_that_it_stands_for(tmp_path: Path) -> None:
    """LLM.int8 itself takes a column out of the rounding for all rows of a pass if one row is large there: a neighbour
    would change an answer. The weights alone do not."""
    folder, alone = quantised(tmp_path, load_in_8bit=True, llm_int8_threshold=0.5)
    found = load_model(folder).module.get_submodule(layer := "model.layers.1.mlp.up_proj").weight
    kept = alone.get_submodule(layer).weight
    torch.testing.assert_close(found, kept.CB.float() * kept.SCB[:, None] / 127)
