"""A guard with heads on tokens, in the layout of Qwen3Guard-Stream, whose weights are written down.

A token of an answer is unsafe that is the word "poison", and controversial that is "dubious"; a question is what it
holds, found by one attention head. The tokenizer is the bundled one with these words as tokens of their own. It shows
that loading, holding and reuse work; of real recall it says nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

from sluicegate import engine

BUNDLED = Path(engine.__file__).parent / "bundled"
BAD, DOUBTFUL = "poison", "dubious"
HIDDEN, HEAD, INNER = 64, 32, 16
CONSTANT, WORD, DOUBT = range(3)
"""Places of the hidden state: always 1, this token is bad, this token is doubtful."""
LEVELS = ("Safe", "Unsafe", "Controversial")
CATEGORIES = ("Violent", "Sexual Content", "Self-Harm", "Political", "PII", "Copyright", "Illegal Acts", "Unethical")
MAPS: dict[str, tuple[str, ...]] = {
    "response_risk_level_map": LEVELS,
    "response_category_map": CATEGORIES,
    "query_risk_level_map": LEVELS,
    "query_category_map": (*CATEGORIES, "Jailbreak"),
}
TEMPLATE = (
    "{% for message in messages %}{{ '<|start|>' + message.role + '\n' + message.content + '<|end|>\n' }}{% endfor %}"
)
SIDES = (("", "response"), ("query_", "query"))


def save_tiny_token_guard(folder: Path, *, context_length: int = 1024, chance: int | None = None) -> Path:
    """Write the checkpoint; returns `folder`. `chance`: a seed for random weights in place of those that are known."""
    tokenizer = AutoTokenizer.from_pretrained(BUNDLED)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|start|>", "<|end|>"]})
    tokenizer.add_tokens([BAD, DOUBTFUL])
    tokenizer.chat_template = TEMPLATE
    if chance is not None:
        torch.manual_seed(chance)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=HIDDEN,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=HIDDEN // HEAD,
        num_key_value_heads=1,
        head_dim=HEAD,
        max_position_embeddings=context_length,
        initializer_range=0.3,
        tie_word_embeddings=True,
    )
    model: Any = Qwen3ForCausalLM(config)
    heads = _random_heads() if chance is not None else _known(model, tokenizer)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    _as_guard(folder, heads)
    return folder


def _random_heads() -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for query, kind in SIDES:
        found[f"{query}risk_level_category_pre.weight"] = torch.randn(INNER, HIDDEN)
        found[f"{query}risk_level_category_layernorm.weight"] = torch.rand(INNER) + 0.5
        found[f"{query}risk_level_head.weight"] = torch.randn(len(MAPS[f"{kind}_risk_level_map"]), INNER)
        found[f"{query}category_head.weight"] = torch.randn(len(MAPS[f"{kind}_category_map"]), INNER)
    return found


@torch.no_grad()
def _known(model: Any, tokenizer: Any) -> dict[str, Tensor]:
    """Let every token say what it is, the end of a question what was asked, and the heads repeat it."""
    bad, doubtful, end = tokenizer.convert_tokens_to_ids([BAD, DOUBTFUL, "<|end|>"])
    for name, weight in model.named_parameters():
        weight.fill_(1.0 if "norm" in name else 0.0)
    embedding, attention = model.model.embed_tokens.weight, model.model.layers[0].self_attn
    embedding[:, CONSTANT] = 1.0
    embedding[bad, WORD] = embedding[doubtful, DOUBT] = 4.0
    embedding[end, 3] = 4.0
    # The end of a question looks for the words, whatever their places: only places that turn least are used.
    least = HEAD // 2 - 1
    attention.q_proj.weight[least, 3] = 30.0
    attention.k_proj.weight[least, WORD] = attention.k_proj.weight[least, DOUBT] = 30.0
    attention.v_proj.weight[0, WORD], attention.v_proj.weight[1, DOUBT] = 4.0, 4.0
    attention.o_proj.weight[4, 0], attention.o_proj.weight[5, 1] = 4.0, 4.0
    found: dict[str, Tensor] = {}
    for query, kind in SIDES:
        pre, levels = torch.zeros(INNER, HIDDEN), torch.zeros(3, INNER)
        pre[0, CONSTANT] = 1.0
        pre[1, 4 if query else WORD] = pre[2, 5 if query else DOUBT] = 4.0
        levels[0, 0], levels[1, 1], levels[2, 2] = 4.0, 8.0, 7.0
        named = torch.zeros(len(MAPS[f"{kind}_category_map"]), INNER)
        named[-1 if query else 0, 1], named[3, 2] = 1.0, 1.0
        found[f"{query}risk_level_category_pre.weight"] = pre
        found[f"{query}risk_level_category_layernorm.weight"] = torch.ones(INNER)
        found[f"{query}risk_level_head.weight"], found[f"{query}category_head.weight"] = levels, named
    return found


def _as_guard(folder: Path, heads: dict[str, Tensor]) -> None:
    """Turn a saved decoder into a guard: its tensors and fields as published ones have them."""
    save_file({**load_file(folder / "model.safetensors"), **heads}, folder / "model.safetensors", {"format": "pt"})
    said = json.loads((folder / "config.json").read_text())
    said |= {
        "architectures": ["Qwen3ForGuardModel"],
        "auto_map": {"AutoModel": "modeling_qwen3_guard.Qwen3ForGuardModel"},
        "guard_inner_size": INNER,
        "num_risk_level": 3,
        "num_category": 8,
        "num_query_risk_level": 3,
        "num_query_category": 9,
    }
    said |= {name: {str(at): named for at, named in enumerate(names)} for name, names in MAPS.items()}
    (folder / "config.json").write_text(json.dumps(said, indent=2))
