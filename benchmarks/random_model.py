"""A Llama with random weights and the bundled tokenizer: it babbles, so only the masks can make its answers valid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PretrainedConfig

from sluicegate import engine

BUNDLED = Path(engine.__file__).parent / "bundled"


def save_random_model(folder: Path, *, context_length: int = 2048, seed: int = 7) -> Path:
    """Write a checkpoint of some thousand parameters that `--model` can name; returns `folder`."""
    tokenizer = AutoTokenizer.from_pretrained(BUNDLED)
    torch.manual_seed(seed)
    LlamaForCausalLM(small_config(LlamaConfig, tokenizer, context_length)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def small_config(kind: type[PretrainedConfig], tokenizer: Any, context_length: int, **own: Any) -> Any:
    """Return the configuration of a model of some thousand parameters. `own`: fields of its kind."""
    return kind(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=context_length,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **own,
    )
