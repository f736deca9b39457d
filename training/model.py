"""The shape of the bundled model, and how it is written to a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

CONTEXT = 1024


def build_model(tokenizer: Any, width: int, layers: int, heads: int, context: int = CONTEXT) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=context,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        attn_implementation="sdpa",
    )
    return LlamaForCausalLM(config).float()


def export(model: LlamaForCausalLM, folder: Path) -> None:
    """Write `config.json`, `generation_config.json` and float32 `model.safetensors`; leave the tokenizer's files
    alone."""
    model.generation_config = GenerationConfig(
        eos_token_id=model.config.eos_token_id, pad_token_id=model.config.pad_token_id, do_sample=False
    )
    model.config.dtype = torch.float32
    model.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
