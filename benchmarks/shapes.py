"""Checkpoints of a given shape with random weights, made once in the folder for temporary files."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from sluicegate.engine import LoadedModel, load_model
from sluicegate.plugins import ModelLoadError

SHAPES = {
    # hidden, layers, heads, KV heads, head width, intermediate, vocabulary
    "llama-1m": (128, 4, 4, 2, 32, 384, 1024),
    "llama-100m-128k": (512, 10, 8, 4, 64, 2304, 128256),
    "llama-60m": (512, 10, 8, 4, 64, 2304, 32000),
    "llama-0.5b": (896, 24, 14, 2, 64, 4864, 151936),
}


def loaded(name: str, max_positions: int = 8192, /, **options: Any) -> LoadedModel:
    """Load the model that `--data` names, a shape, a folder or `bundled`. `options` are those of `load_model`. End with
    one line if there is no model."""
    try:
        return load_model(folder_of(name, max_positions), **options)
    except ModelLoadError as error:
        raise SystemExit(f"{name}: {error.message}; name a checkpoint with --data") from None


def folder_of(name: str, max_positions: int = 8192) -> str:
    """Return the folder of a checkpoint of shape `name`, which is made where it is missing. Any other name is returned
    as it is."""
    if name not in SHAPES:
        return name
    folder = Path(tempfile.gettempdir()) / f"sluicegate-{name}-{max_positions}"
    if not (folder / "tokenizer.json").exists():
        _make(name, folder, max_positions)
    return str(folder)


def _make(name: str, folder: Path, max_positions: int) -> None:
    hidden, layers, heads, kv_heads, dim, intermediate, vocab = SHAPES[name]
    config = LlamaConfig(
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=dim,
        intermediate_size=intermediate,
        vocab_size=vocab,
        tie_word_embeddings=True,
        max_position_embeddings=max_positions,
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(folder)
    numbered_words(vocab).save_pretrained(folder)


def numbered_words(size: int) -> PreTrainedTokenizerFast:
    """Make a tokenizer for models that have none: token i is the word `wi`."""
    tokenizer = Tokenizer(models.WordLevel({f"w{i}": i for i in range(size)}, unk_token="w0"))
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)
