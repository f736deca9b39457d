"""Adapters in peft's format, and what a model computes with one, by arithmetic of the tests' own."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

TARGETS = {
    "llama": ("model.layers.0.self_attn.q_proj", "model.layers.2.mlp.down_proj", "model.layers.1.self_attn.v_proj"),
    "deepseek_v3": ("model.layers.0.self_attn.q_b_proj", "model.layers.1.self_attn.o_proj"),
    "gpt2": ("transformer.h.0.attn.c_attn", "transformer.h.1.mlp.c_fc"),
}


def write_adapter(
    to: Path, base: Path, targets: tuple[str, ...], *, rank: int = 4, seed: int = 1, size: float = 0.3, **config: Any
) -> Path:
    """Write an adapter in peft's format, with random factors."""
    model = AutoModelForCausalLM.from_pretrained(base)
    generator = torch.Generator().manual_seed(seed)
    tensors: dict[str, torch.Tensor] = {}
    for name in targets:
        layer = model.get_submodule(name)
        turned = type(layer).__name__ == "Conv1D"
        out, into = layer.weight.shape[::-1] if turned else layer.weight.shape
        kind = ("lora_A.weight", "lora_B.weight")
        if isinstance(layer, torch.nn.Embedding):
            out, into, kind = into, out, ("lora_embedding_A", "lora_embedding_B")
        tensors[f"base_model.model.{name}.{kind[0]}"] = torch.randn(rank, into, generator=generator) * size
        tensors[f"base_model.model.{name}.{kind[1]}"] = torch.randn(out, rank, generator=generator) * size
    to.mkdir(parents=True, exist_ok=True)
    save_file(tensors, to / "adapter_model.safetensors")
    values = {"peft_type": "LORA", "r": rank, "lora_alpha": 8, "bias": "none", **config}
    (to / "adapter_config.json").write_text(json.dumps(values))
    return to


def linear_layers(base: Path, *, head: bool = False) -> tuple[str, ...]:
    """Return the names of all linear layers of a checkpoint's decoder; with `head` also of its vocabulary and its
    embedding."""
    model = AutoModelForCausalLM.from_pretrained(base)
    kinds = (torch.nn.Linear, torch.nn.Embedding) if head else torch.nn.Linear
    found = [name for name, layer in model.named_modules() if isinstance(layer, kinds)]
    return tuple(name for name in found if head or name != "lm_head")


@cache
def with_products(base: Path, adapter: Path, scale: float) -> Any:
    """Return the base model with the products computed beside its layers, as peft does while it trains."""
    model = AutoModelForCausalLM.from_pretrained(base, attn_implementation="eager").eval()
    tensors = load_file(adapter / "adapter_model.safetensors")
    for key, down in tensors.items():
        if "A" not in key.rpartition("lora_")[2]:
            continue
        name = key.removeprefix("base_model.model.").rpartition(".lora_")[0]
        up = tensors[key.replace("lora_A", "lora_B").replace("embedding_A", "embedding_B")]

        def add(_: Any, args: Any, out: torch.Tensor, a: torch.Tensor = down, b: torch.Tensor = up) -> Any:
            inner = args[0] @ a.T if args[0].is_floating_point() else a.T[args[0]]
            return out + scale * inner @ b.T

        model.get_submodule(name).register_forward_hook(add)
    return model


@torch.inference_mode()
def beside(base: Path, adapter: Path, scale: float, ids: list[int]) -> torch.Tensor:
    """Logits [T, V]."""
    logits: torch.Tensor = with_products(base, adapter, scale)(torch.tensor([ids])).logits[0]
    return logits


@torch.inference_mode()
def greedy(model: Any, prompt: list[int], tokens: int) -> list[int]:
    """Return the likeliest `tokens` tokens, whatever they are, each from a pass over all before it."""
    ids = list(prompt)
    for _ in range(tokens):
        ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[len(prompt) :]
