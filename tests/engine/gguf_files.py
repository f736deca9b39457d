"""GGUF files made on the spot, and what the bytes of their blocks stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from tests.engine.tiny_models import EOS, byte_tokenizer

BLOCKS = {
    **{"Q8_0": (32, 34), "Q4_0": (32, 18), "Q4_K": (256, 144), "Q6_K": (256, 210)},
    **{"Q5_0": (32, 22), "IQ4_NL": (32, 18), "Q3_K": (256, 110)},
}
"""Numbers of a block, and its bytes."""
NONLINEAR = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
"""What the codes of IQ4_NL stand for, from ggml-common.h."""
NAMES = {
    "input_layernorm.weight": "attn_norm.weight",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate.weight": "ffn_gate_inp.weight",
    "mlp.shared_expert_gate.weight": "ffn_gate_inp_shexp.weight",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "mlp.experts.down_proj": "ffn_down_exps.weight",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
}
KINDS = {"qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe"}
"""Families by llama.cpp's names, where these are others."""


def write_gguf(
    folder: Path,
    to: Path,
    scaling: Mapping[str, str | float] | None = None,
    extra: Mapping[str, torch.Tensor] | None = None,
    blocks: Callable[[np.ndarray], np.ndarray] | None = None,
    kind: str = "F32",
    kinds: Mapping[str, str] | None = None,
) -> Path:
    """Write the Llama or Qwen checkpoint in `folder` as one GGUF file, in float32. `scaling` holds fields of
    `rope.scaling`, `extra` tensors beside its own; `blocks` rounds a matrix to the bytes of blocks of `kind`. `kinds`
    maps parts of names in the file (`|` before them) to the kind of a matrix whose blocks are random; the first part
    that fits counts."""
    from gguf import GGMLQuantizationType, GGUFWriter, TokenType

    model = AutoModelForCausalLM.from_pretrained(folder)
    config: Any = model.config
    architecture = KINDS.get(config.model_type, config.model_type)
    appender = GGUFWriter(to, architecture)
    appender.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    for name, value in (scaling or {}).items():
        key = f"{architecture}.rope.scaling.{name}"
        if isinstance(value, str):
            appender.add_string(key, value)
        elif isinstance(value, int):
            appender.add_uint32(key, value)
        else:
            appender.add_float32(key, value)
    appender.add_context_length(config.max_position_embeddings)
    appender.add_embedding_length(config.hidden_size)
    appender.add_block_count(config.num_hidden_layers)
    appender.add_feed_forward_length(config.intermediate_size)
    appender.add_head_count(config.num_attention_heads)
    appender.add_head_count_kv(config.num_key_value_heads)
    appender.add_layer_norm_rms_eps(config.rms_norm_eps)
    appender.add_rope_freq_base(10000.0)
    appender.add_vocab_size(config.vocab_size)
    tokenizer = byte_tokenizer()
    vocab = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    appender.add_tokenizer_model("gpt2")
    appender.add_tokenizer_pre("qwen2")
    appender.add_token_list(vocab)
    special = {"<s>", "</s>"}
    appender.add_token_types([TokenType.CONTROL if token in special else TokenType.NORMAL for token in vocab])
    appender.add_token_merges(["t h", "i n", "e r", "a n", "th e", "Ġ the", '" :', '{ "'])
    appender.add_eos_token_id(EOS)
    if experts := getattr(config, "num_experts", None):
        appender.add_expert_count(experts)
        appender.add_expert_used_count(config.num_experts_per_tok)
        appender.add_expert_feed_forward_length(config.moe_intermediate_size)
        if shared := getattr(config, "shared_expert_intermediate_size", None):
            appender.add_expert_shared_feed_forward_length(shared)
        appender.add_key_length(model.model.layers[0].self_attn.head_dim)
        appender.add_value_length(model.model.layers[0].self_attn.head_dim)
    random = np.random.default_rng(0)
    for name, tensor in _split_experts(model.state_dict()):
        if config.tie_word_embeddings and name == "lm_head.weight":
            continue
        turned = _turned(config, name, tensor.float()).numpy()
        own = next((one for part, one in (kinds or {}).items() if part in f"|{_renamed(name)}"), None)
        if own is not None and turned.ndim > 1 and turned.shape[0] > 1:
            made = random_blocks(own, int(np.prod(turned.shape[:-1])), turned.shape[-1], random)
            made = made.reshape(*turned.shape[:-1], made.shape[-1])
            appender.add_tensor(_renamed(name), made, raw_dtype=GGMLQuantizationType[own])
        elif blocks is None or turned.ndim != 2:
            appender.add_tensor(_renamed(name), turned)
        else:
            appender.add_tensor(_renamed(name), blocks(turned), raw_dtype=GGMLQuantizationType[kind])
    for name, tensor in (extra or {}).items():
        appender.add_tensor(name, tensor.numpy())
    appender.write_header_to_file()
    appender.write_kv_data_to_file()
    appender.write_tensors_to_file()
    appender.close()
    return to


def _split_experts(tensors: Mapping[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
    """Give gate and up projections of experts as llama.cpp keeps them: each a tensor, by its name there."""
    for name, tensor in tensors.items():
        if name.endswith("experts.gate_up_proj"):
            for part, weights in zip(("gate", "up"), tensor.chunk(2, 1), strict=True):
                yield name.replace("mlp.experts.gate_up_proj", f"ffn_{part}_exps.weight"), weights
        else:
            yield name, tensor[0] if name.endswith("shared_expert_gate.weight") else tensor


def _turned(config: Any, name: str, weight: torch.Tensor) -> torch.Tensor:
    """Order rows of queries and keys as llama.cpp wants them of the Llama family: pairs beside each other."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    kind = next((kind for kind in heads if f".{kind}." in name), None)
    if config.model_type != "llama" or kind is None:
        return weight
    return weight.unflatten(0, (heads[kind], 2, -1)).transpose(1, 2).reshape(weight.shape).contiguous()


def _renamed(name: str) -> str:
    fixed = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}
    if name in fixed or not name.startswith("model.layers."):
        return fixed.get(name, "output.weight")
    layer, rest = name.removeprefix("model.layers.").split(".", 1)
    for ours, theirs in NAMES.items():
        rest = rest.replace(ours, theirs)
    return f"blk.{layer}.{rest}"


def scales_of_six_bits(packed: np.ndarray) -> tuple[list[int], list[int]]:
    """Unpack Q4_K's scales: eight scales and eight minima of 6 bits in 12 bytes, the upper bits of the last four beside
    the first."""
    low = [int(b) for b in packed]
    scales = [b & 63 for b in low[0:4]] + [(low[8 + j] & 15) | (low[j] >> 6) << 4 for j in range(4)]
    minima = [b & 63 for b in low[4:8]] + [(low[8 + j] >> 4) | (low[4 + j] >> 6) << 4 for j in range(4)]
    return scales, minima


def slow_block(kind: str, block: np.ndarray) -> list[float]:
    """Return what the bytes of one block stand for, number by number, as ggml defines it."""

    def half(at: int) -> float:
        return float(block[at : at + 2].view(np.float16)[0])

    if kind == "Q8_0":
        return [half(0) * int(number) for number in block[2:].view(np.int8)]
    if kind == "Q4_0":
        return [half(0) * (int(b) & 15) - half(0) * 8 for b in block[2:]] + [
            half(0) * (int(b) >> 4) - half(0) * 8 for b in block[2:]
        ]
    if kind == "Q5_0":
        fifth = int(block[2:6].view(np.uint32)[0])
        nibbles = [int(b) & 15 for b in block[6:]] + [int(b) >> 4 for b in block[6:]]
        return [half(0) * ((code | (fifth >> at & 1) << 4) - 16) for at, code in enumerate(nibbles)]
    if kind == "IQ4_NL":
        nibbles = [int(b) & 15 for b in block[2:]] + [int(b) >> 4 for b in block[2:]]
        return [half(0) * NONLINEAR[code] for code in nibbles]
    if kind == "Q4_K":
        scales, minima = scales_of_six_bits(block[4:16])
        made = []
        for run in range(4):
            codes = block[16 + 32 * run : 48 + 32 * run]
            for part in range(2):
                scale, least = half(0) * scales[2 * run + part], half(2) * minima[2 * run + part]
                made += [scale * (int(b) >> 4 * part & 15) - least for b in codes]
        return made
    if kind == "Q3_K":
        return _slow_three_bits(block, half(108))
    low, high, scales = block[:128], block[128:192], block[192:208].view(np.int8)  # Q6_K
    made = [0.0] * 256
    for at in range(256):
        side, place = divmod(at, 128)
        quarter, column = divmod(place, 32)
        nibble = int(low[64 * side + 32 * (quarter % 2) + column]) >> 4 * (quarter // 2) & 15
        code = nibble | (int(high[32 * side + column]) >> 2 * quarter & 3) << 4
        made[at] = half(208) * int(scales[at // 16]) * (code - 32)
    return made


def _slow_three_bits(block: np.ndarray, unit: float) -> list[float]:
    """Follow the loops of ggml's dequantize_row_q3_K: halves of 128, four shifts, two runs of 16."""
    third, twos, packed = block[:32], block[32:96], [int(b) for b in block[96:108]]
    scales = []
    for at in range(16):
        low = packed[at] & 15 if at < 8 else packed[at - 8] >> 4
        scales.append((low | (packed[8 + at % 4] >> 2 * (at // 4) & 3) << 4) - 32)
    made: list[float] = []
    for run in range(16):
        side, shift, part = run // 8, run % 8 // 2, run % 2
        for column in range(16 * part, 16 * part + 16):
            code = int(twos[32 * side + column]) >> 2 * shift & 3
            code -= 0 if int(third[column]) >> run // 2 & 1 else 4
            made.append(unit * scales[run] * code)
    return made


def widened_slowly(kind: str, rows: np.ndarray) -> np.ndarray:
    """Return the matrix that rows of blocks stand for, in float32."""
    each, size = BLOCKS[kind]
    blocks = rows.reshape(-1, size)
    numbers = [slow_block(kind, block) for block in blocks]
    return np.array(numbers, np.float32).reshape(len(rows), rows.shape[1] // size * each)


def random_blocks(kind: str, rows: int, columns: int, random: np.random.Generator) -> np.ndarray:
    """Make rows of blocks that hold random numbers, weights of some .03 to .1."""
    each, size = BLOCKS[kind]
    made = random.integers(0, 256, (rows * columns // each, size), dtype=np.uint8)
    unit = {"Q8_0": 1e-3, "Q4_0": 2e-2, "Q4_K": 4e-4, "Q6_K": 4e-5, "Q5_0": 1e-2, "IQ4_NL": 1e-3, "Q3_K": 1e-3}[kind]
    for at, times in {"Q4_K": {0: 1.0, 2: 7.5}, "Q6_K": {208: 1.0}, "Q3_K": {108: 1.0}}.get(kind, {0: 1.0}).items():
        scales = random.uniform(0.5 * unit * times, unit * times, len(made)).astype(np.float16)
        made[:, at : at + 2] = scales[:, None].view(np.uint8)
    return made.reshape(rows, -1)
