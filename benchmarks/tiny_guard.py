"""A guard of some ten thousand parameters whose weights are written down: it calls an answer unsafe that says "poison".

One attention head looks for the word wherever it stands; the next token is one of two answers, each a token of its
own, and then the end. The tokenizer is the bundled one with three tokens more. It shows that prompts, labels and the
reuse of KV blocks work; of real recall it says nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from sluicegate import engine

BUNDLED = Path(engine.__file__).parent / "bundled"
BAD = "poison"
ANSWERS = {
    "llama_guard": ("safe", "unsafe\nS9"),
    "qwen3_guard": ("Safety: Safe\nCategories: None", "Safety: Unsafe\nCategories: Violent"),
    "shield_gemma": ("No", "Yes"),
    "granite_guardian": ("No", "Yes"),
    "chat_model": ("No", "Yes"),
}
"""By form: what the guard says of a harmless answer, and of one with the word."""
HIDDEN, HEAD = 32, 16
CONSTANT, WORD, ANSWERED, FOUND = range(4)
"""Places of the hidden state: always 1, this token is the word, this token is an answer, the word was seen."""
FAR = HEAD // 2 - 1
"""The place of a head that its position turns least."""


def save_tiny_guard(folder: Path, form: str, *, context_length: int = 8192) -> Path:
    """Write the checkpoint; returns `folder`."""
    tokenizer = AutoTokenizer.from_pretrained(BUNDLED)
    tokenizer.chat_template = None
    tokenizer.add_tokens([BAD, *ANSWERS[form]])
    word, fine, bad = (tokenizer.convert_tokens_to_ids(text) for text in (BAD, *ANSWERS[form]))
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=HIDDEN,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=HIDDEN // HEAD,
        num_key_value_heads=HIDDEN // HEAD,
        max_position_embeddings=context_length,
        rope_theta=1e6,
        tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model: Any = LlamaForCausalLM(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.fill_(1.0 if "norm" in name else 0.0)
        embedding, head, layer = model.model.embed_tokens.weight, model.lm_head.weight, model.model.layers[0]
        embedding[:, CONSTANT] = 1.0
        embedding[word, WORD] = 1.0
        embedding[[fine, bad], ANSWERED] = 4.0
        layer.self_attn.q_proj.weight[FAR, CONSTANT] = 10.0
        layer.self_attn.k_proj.weight[FAR, WORD] = 10.0
        layer.self_attn.v_proj.weight[0, WORD] = 1.0
        layer.self_attn.o_proj.weight[FOUND, 0] = 1.0
        head[fine, CONSTANT] = 4.0
        head[bad, FOUND] = 8.0
        head[tokenizer.eos_token_id, ANSWERED] = 40.0
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
