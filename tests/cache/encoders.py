"""Small random encoders, and adapters of the judge for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

from training.sameness.adapter import adapter_of

WORDS = "how do i reset my password is there a way to get new one ? can wash this coat in machine"


def encoder(folder: Path, seed: int, words: str = WORDS) -> tuple[Path, BertModel]:
    """Write a small random encoder and its tokenizer."""
    torch.manual_seed(seed)
    folder.mkdir()
    pieces = tokenizer(folder, words)
    config = BertConfig(
        vocab_size=pieces,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
        initializer_range=0.3,
    )
    model = BertModel(config).eval()
    model.save_pretrained(folder)
    return folder, model


def tokenizer(folder: Path, words: str) -> int:
    """Write a tokenizer of whole words, and return how many pieces it has."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *dict.fromkeys(words.split())]
    (folder / "vocab.txt").write_text("\n".join(pieces), "utf-8")
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    return len(pieces)


def adapter(folder: Path, base: BertModel, tuned: BertModel, threshold: float = 0.0) -> dict[str, Any]:
    """Return an adapter of the encoder in `folder` that turns it into `tuned`, with a random head."""
    torch.manual_seed(3)
    read = BertTokenizerFast.from_pretrained(folder)
    return adapter_of(read, base, tuned, torch.nn.Linear(64, 1), 32, threshold)
