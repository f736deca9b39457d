"""Checkpoints made on the spot: random weights, a byte-level tokenizer, a few kilobytes, nothing downloaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

EOS = 257
SHAPE: dict[str, Any] = {
    "vocab_size": 266,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "initializer_range": 0.4,
    "bos_token_id": 256,
    "eos_token_id": EOS,
    "pad_token_id": 0,
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {}),
    "qwen2": ("Qwen2Config", {}),
    "qwen3": ("Qwen3Config", {}),
    "mistral": ("MistralConfig", {"sliding_window": 9}),
    "gemma2": ("Gemma2Config", {"sliding_window": 9, "attn_logit_softcapping": 5.0, "query_pre_attn_scalar": 16}),
    "gemma3": ("Gemma3TextConfig", {"sliding_window": 9, "sliding_window_pattern": 2, "query_pre_attn_scalar": 16}),
}
WIDE: dict[str, Any] = {"hidden_size": 64, "head_dim": None}
"""Of configurations that work out the width of a head."""
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "phi": ("PhiConfig", {}),
    "mixtral": ("MixtralConfig", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen3_moe": (
        "Qwen3MoeConfig",
        {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "decoder_sparse_step": 1},
    ),
    "gpt_oss": (
        "GptOssConfig",
        {
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "sliding_window": 9,
            "rope_parameters": {
                "rope_type": "yarn",
                "factor": 4.0,
                "rope_theta": 10000.0,
                "original_max_position_embeddings": 128,
            },
        },
    ),
    "phimoe": ("PhimoeConfig", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "llama4": (
        "Llama4TextConfig",
        {
            "attention_chunk_size": 7,
            "floor_scale": 5,
            "no_rope_layers": [1, 0, 1],
            "intermediate_size_mlp": 64,
            "num_local_experts": 4,
            "num_experts_per_tok": 1,
            "interleave_moe_layer_step": 2,
        },
    ),
    "nemotron": ("NemotronConfig", {}),
    "stablelm": ("StableLmConfig", {"hidden_size": 64}),
    "gpt2": ("GPT2Config", {"n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 512}),
    "bloom": ("BloomConfig", {}),
    "gptj": ("GPTJConfig", {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 512, "rotary_dim": 8}),
    "codegen": ("CodeGenConfig", {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 512, "rotary_dim": 8}),
    "falcon": (
        "FalconConfig",
        {**WIDE, "new_decoder_architecture": True, "num_kv_heads": 2},
    ),
    "falcon_7b": ("FalconConfig", {**WIDE, "multi_query": True}),
    "falcon_heads": (
        "FalconConfig",
        {**WIDE, "multi_query": False, "parallel_attn": False},
    ),
    "mpt": ("MptConfig", {"d_model": 72, "n_layers": 3, "n_heads": 6, "max_seq_len": 512}),
    "llama_yarn": (
        "LlamaConfig",
        {
            "rope_parameters": {
                "rope_type": "yarn",
                "factor": 4.0,
                "rope_theta": 10000.0,
                "original_max_position_embeddings": 128,
            }
        },
    ),
    "llama3_rope": (
        "LlamaConfig",
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "factor": 8.0,
                "rope_theta": 10000.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            }
        },
    ),
}
COMPRESSED: dict[str, Any] = {
    "num_key_value_heads": 4,
    "head_dim": None,
    "kv_lora_rank": 20,
    "q_lora_rank": 24,
    "qk_nope_head_dim": 10,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
}
"""Of layers with multi-head latent attention: 28 numbers a token in place of 4 heads of 30."""
SPARSE: dict[str, Any] = {
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "n_group": 2,
    "topk_group": 1,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
}
LATENT: dict[str, tuple[str, dict[str, Any]]] = {
    "deepseek_v2": ("DeepseekV2Config", {**COMPRESSED, **SPARSE, "q_lora_rank": None, "initializer_range": 0.2}),
    "deepseek_v3": ("DeepseekV3Config", {**COMPRESSED, **SPARSE}),
    "minicpm3": ("MiniCPM3Config", COMPRESSED),
    "glm4_moe_lite": ("Glm4MoeLiteConfig", {**COMPRESSED, **SPARSE}),
}
"""Those whose keys and values are compressed."""
RECURRENT: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3_next": (
        "Qwen3NextConfig",
        {
            "layer_types": ["linear_attention", "full_attention", "linear_attention"],
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 12,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 32,
        },
    ),
    "lfm2": (
        "Lfm2Config",
        {"layer_types": ["conv", "full_attention", "conv"], "block_auto_adjust_ff_dim": False, **WIDE},
    ),
    "falcon_h1": (
        "FalconH1Config",
        {"mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 12, "mamba_chunk_size": 8},
    ),
    "zamba": (  # Mamba's first kind, and one attention for several layers
        "ZambaConfig",
        {
            **WIDE,
            "num_key_value_heads": 4,
            "layers_block_type": ["linear_attention", "hybrid", "hybrid"],
            "n_mamba_heads": 2,
            "mamba_d_state": 12,
            "mamba_dt_rank": 8,
        },
    ),
    "granitemoehybrid": (
        "GraniteMoeHybridConfig",
        {
            **WIDE,
            "layer_types": ["mamba", "attention", "mamba"],
            "mamba_n_heads": 8,
            "mamba_d_head": 16,
            "mamba_d_state": 12,
            "mamba_n_groups": 1,
            "mamba_chunk_size": 8,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "shared_intermediate_size": 64,
        },
    ),
}
"""Those with layers that keep a state of each sequence."""


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Make a tokenizer of 256 byte tokens, then `<s>`, `</s>` and a few merges, so that text has more than one
    tokenisation."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {char: i for i, char in enumerate(alphabet)}
    for special in ("<s>", "</s>"):
        vocab[special] = len(vocab)
    merges = [("t", "h"), ("i", "n"), ("e", "r"), ("a", "n"), ("th", "e"), ("Ġ", "the"), ('"', ":"), ("{", '"')]
    for left, right in merges:
        vocab[left + right] = len(vocab)
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")


MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "olmo": ("OlmoConfig", {}),
    "qwen2_moe": (
        "Qwen2MoeConfig",
        {
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 32,
            "decoder_sparse_step": 1,
        },
    ),
}
"""For tests that name them."""


def save_tiny(folder: Path, family: str = "llama", seed: int = 0, **changes: Any) -> Path:
    """Write a checkpoint of `family` with seeded random weights; returns its folder."""
    kind, extra = (FAMILIES | OTHERS | LATENT | RECURRENT | MORE)[family]
    said = {**SHAPE, **extra, **changes}
    config = getattr(transformers, kind)(**{name: value for name, value in said.items() if value is not None})
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    path = folder / f"{family}-{seed}"
    model.save_pretrained(path)
    byte_tokenizer().save_pretrained(path)
    return path
