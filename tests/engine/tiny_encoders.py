"""Encoders made on the spot: random weights, a word-piece tokenizer of letters, nothing downloaded."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

WORDS = ["the", "cat", "sat", "on", "mat", "dog", "river", "bank", "money", "##s", "##ing"]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
VOCABULARY = {
    word: at
    for at, word in enumerate(
        dict.fromkeys([*SPECIAL, *WORDS, *string.ascii_lowercase, *(f"##{c}" for c in string.ascii_lowercase)])
    )
}
SHAPE: dict[str, Any] = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 66,
    "initializer_range": 0.4,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertConfig", {"type_vocab_size": 2}),
    "roberta": ("RobertaConfig", {"type_vocab_size": 1}),
    "xlm-roberta": ("XLMRobertaConfig", {"type_vocab_size": 1}),
    "mpnet": ("MPNetConfig", {}),
    "distilbert": ("DistilBertConfig", {"dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4}),
    "modernbert": ("ModernBertConfig", {"global_attn_every_n_layers": 2, "local_attention": 8, "sep_token_id": 2}),
    "qwen3": ("Qwen3Config", {"num_key_value_heads": 2, "head_dim": 8}),
}


def save_encoder(folder: Path, family: str, *, scores: bool = False, **config: Any) -> Path:
    """Save a folder as `transformers` writes it: an encoder, or with `scores` a cross-encoder of one number."""
    name, own = FAMILIES[family]
    made = getattr(transformers, name)(**{**SHAPE, **own, **({"num_labels": 1} if scores else {}), **config})
    torch.manual_seed(7)
    kind = transformers.AutoModelForSequenceClassification if scores else transformers.AutoModel
    kind.from_config(made).save_pretrained(folder)
    has_segments = family == "bert"
    _tokenizer(has_segments).save_pretrained(folder)
    return folder


def save_sentence_model(
    folder: Path, family: str, *modules: str, pooling: dict[str, Any] | None = None, **config: Any
) -> Path:
    """Save a sentence-transformers folder with these modules behind the transformer."""
    save_encoder(folder, family, **config)
    kinds = ["Transformer", *modules]
    rows = [
        {
            "idx": i,
            "name": str(i),
            "path": "" if i == 0 else f"{i}_{kind}",
            "type": f"sentence_transformers.models.{kind}",
        }
        for i, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(rows))
    for row, kind in list(zip(rows, kinds, strict=True))[1:]:
        _save_module(folder / str(row["path"]), kind, pooling)
    return folder


def _save_module(folder: Path, kind: str, pooling: dict[str, Any] | None) -> None:
    folder.mkdir()
    torch.manual_seed(11)
    if kind == "Pooling":
        said = {"word_embedding_dimension": 32, **(pooling or {"pooling_mode_mean_tokens": True})}
        (folder / "config.json").write_text(json.dumps(said))
    elif kind == "Dense":
        activation = "torch.nn.modules.activation.Tanh"
        said = {"in_features": 32, "out_features": 24, "bias": True, "activation_function": activation}
        (folder / "config.json").write_text(json.dumps(said))
        save_file({"linear.weight": torch.randn(24, 32), "linear.bias": torch.randn(24)}, folder / "model.safetensors")
    elif kind == "LayerNorm":
        (folder / "config.json").write_text(json.dumps({"dimension": 32}))
        save_file({"norm.weight": torch.randn(32), "norm.bias": torch.randn(32)}, folder / "model.safetensors")


def _tokenizer(has_segments: bool) -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.WordPiece(VOCABULARY, unk_token="<unk>"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    second = ":1" if has_segments else ""
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair=f"<s> $A </s> $B{second} </s>{second}", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    backend.enable_truncation(16)  # as published folders have it: neither may be heeded
    backend.enable_padding(length=16, pad_id=1, pad_token="<pad>")
    names = ["input_ids", *(["token_type_ids"] if has_segments else []), "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<s>",
        eos_token="</s>",
        cls_token="<s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token="<mask>",
        model_max_length=64,
        model_input_names=names,
    )
