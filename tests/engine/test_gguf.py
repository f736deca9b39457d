"""A GGUF file is the model that was written into it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from sluicegate.engine import load_model
from sluicegate.engine.batching.runner import ModelRunner
from sluicegate.engine.cpu import EIGHT, CpuSmallLinear
from sluicegate.engine.cpu.packing import pack
from sluicegate.engine.model.gguf_tensors import GgufTensor
from sluicegate.plugins import ModelLoadError
from tests.engine.driving import a_job, prompts, run, serving
from tests.engine.tiny_models import EOS, byte_tokenizer, save_tiny

Folder = Callable[..., Path]
needs_gguf = pytest.mark.skipif(
    find_spec("gguf") is None or find_spec("accelerate") is None,
    reason="packages are missing: pip install gguf accelerate",
)
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
}


def write_gguf(
    folder: Path,
    to: Path,
    scaling: Mapping[str, str | float] | None = None,
    extra: Mapping[str, torch.Tensor] | None = None,
    blocks: Callable[[np.ndarray], np.ndarray] | None = None,
    kind: str = "F32",
) -> Path:
    """The Llama or Qwen2 checkpoint in `folder` as one GGUF file, in float32; `scaling`: fields of `rope.scaling`,
    `extra`: tensors beside its own; `blocks` rounds a matrix to the bytes of blocks of `kind`."""
    from gguf import GGMLQuantizationType, GGUFWriter, TokenType

    model = AutoModelForCausalLM.from_pretrained(folder)
    config: Any = model.config
    appender = GGUFWriter(to, config.model_type)
    appender.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    for name, value in (scaling or {}).items():
        key = f"{config.model_type}.rope.scaling.{name}"
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
    for name, tensor in model.state_dict().items():
        turned = _turned(config, name, tensor.float()).numpy()
        if blocks is None or turned.ndim != 2:
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


@needs_gguf
async def test_a_gguf_file_answers_as_the_checkpoint_it_was_made_from(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path, "qwen2", head_dim=12, tie_word_embeddings=False)
    (tmp_path / "gguf").mkdir()
    file = write_gguf(folder, tmp_path / "gguf" / "tiny.gguf")
    answers = []
    for where in (folder, file):
        model = load_model(where, name="m")
        async with serving(model) as engine:
            jobs = [a_job(model, prompt, ignore_eos=True) for prompt in prompts([3, 17, 30])]
            answers.append([result.tokens for result in await run(engine, *jobs)])
        assert model.tokenizer.decode(model.tokenizer.encode("the cat", add_special_tokens=False)) == "the cat"
    assert answers[0] == answers[1]
    assert EOS in load_model(file).eos_token_ids


ROPE = {"rope_theta": 10000.0, "original_max_position_embeddings": 64, "factor": 8.0}
SCALED: dict[str, tuple[dict[str, Any], dict[str, str | float]]] = {
    "linear": ({"rope_type": "linear"}, {"type": "linear", "factor": 8.0}),
    "yarn": ({"rope_type": "yarn"}, {"type": "yarn", "factor": 8.0, "original_context_length": 64}),
    "yarn, other ramps": (
        {"rope_type": "yarn", "beta_fast": 16.0, "beta_slow": 2.0},
        {
            "type": "yarn", "factor": 8.0, "original_context_length": 64, "yarn_beta_fast": 16.0,
            "yarn_beta_slow": 2.0,
        },
    ),
    "factors": ({"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}, {}),
}  # fmt: skip


@needs_gguf
@pytest.mark.parametrize("family", ["llama", "qwen2"])
@pytest.mark.parametrize("case", SCALED)
async def test_scaled_positions_of_a_file_are_those_of_its_checkpoint(case: str, family: str, tmp_path: Path) -> None:
    """Over a prompt longer than the original context; `factors` are written as the Llama 3.1 converter does."""
    rope, fields = SCALED[case]
    shape = {"head_dim": 12, "tie_word_embeddings": False}
    folder = save_tiny(tmp_path, family, rope_parameters=ROPE | rope, **shape)
    whole, plain = load_model(folder, name="m"), load_model(save_tiny(tmp_path / "plain", family, **shape), name="m")
    turned, base = (model.module.model.rotary_emb.inv_freq for model in (whole, plain))
    extra = {"rope_freqs.weight": base / turned} if case == "factors" else None
    (tmp_path / "gguf").mkdir()
    read = load_model(write_gguf(folder, tmp_path / "gguf" / "tiny.gguf", fields, extra), name="m")
    assert torch.allclose(read.module.model.rotary_emb.inv_freq, turned, rtol=1e-5)
    text = np.array(prompts([200])[0])
    scores = [ModelRunner(model, 64, 4).score(text, chunk=64) for model in (whole, read, plain)]
    assert torch.allclose(scores[0], scores[1], atol=1e-3)
    assert (scores[0] - scores[2]).abs().max() > 0.1


@needs_gguf
@pytest.mark.parametrize(
    ("fields", "extra", "message"),
    [
        ({"type": "ntk"}, {}, r"rope\.scaling\.type is 'ntk'"),
        ({"type": "yarn", "factor": 2.0, "yarn_log_multiplier": 0.1}, {}, r"rope\.scaling\.yarn_log_multiplier"),
        ({"type": "linear", "factor": 2.0, "attn_factor": 1.5}, {}, r"attn_factor is 1\.5"),
        ({}, {"rope_freqs.weight": torch.ones(7)}, "has \\[7\\] factors"),
        ({}, {"blk.0.attn_q_norm.weight": torch.ones(12)}, r"no place for: blk\.0\.attn_q_norm\.weight"),
        ({}, {"blk.3.ffn_up.weight": torch.ones(64, 48)}, r"no place for: blk\.3\.ffn_up\.weight"),
    ],
)
def test_what_a_file_says_and_cannot_be_computed_is_refused(
    fields: dict[str, Any], extra: dict[str, torch.Tensor], message: str, tmp_path: Path
) -> None:
    folder = save_tiny(tmp_path, "llama", head_dim=12)
    (tmp_path / "gguf").mkdir()
    with pytest.raises(ModelLoadError, match=message):
        load_model(write_gguf(folder, tmp_path / "gguf" / "tiny.gguf", fields, extra))


@needs_gguf
def test_another_file_in_the_folder_is_another_version(tmp_path: Path) -> None:
    folder = tmp_path / "gguf"
    folder.mkdir()
    files = [
        write_gguf(save_tiny(tmp_path, "qwen2", seed=seed, head_dim=12), folder / f"{seed}.gguf") for seed in (0, 1)
    ]
    assert load_model(files[0]).version != load_model(files[1]).version


def test_without_the_package_the_way_to_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate.engine.model.reading.find_spec", lambda name: None)
    with pytest.raises(ModelLoadError, match=r"pip install 'sluicegate\[gguf\]'"):
        load_model(tmp_path / "x.gguf")


def scales_of_six_bits(packed: np.ndarray) -> tuple[list[int], list[int]]:
    """Q4_K: eight scales and eight minima of 6 bits in 12 bytes, the upper bits of the last four beside the first."""
    low = [int(b) for b in packed]
    scales = [b & 63 for b in low[0:4]] + [(low[8 + j] & 15) | (low[j] >> 6) << 4 for j in range(4)]
    minima = [b & 63 for b in low[4:8]] + [(low[8 + j] >> 4) | (low[4 + j] >> 6) << 4 for j in range(4)]
    return scales, minima


def slow_block(kind: str, block: np.ndarray) -> list[float]:
    """What the bytes of one block stand for, number by number, as ggml defines it."""

    def half(at: int) -> float:
        return float(block[at : at + 2].view(np.float16)[0])

    if kind == "Q8_0":
        return [half(0) * int(number) for number in block[2:].view(np.int8)]
    if kind == "Q4_0":
        return [half(0) * (int(b) & 15) - half(0) * 8 for b in block[2:]] + [
            half(0) * (int(b) >> 4) - half(0) * 8 for b in block[2:]
        ]
    if kind == "Q4_K":
        scales, minima = scales_of_six_bits(block[4:16])
        made = []
        for run in range(4):
            codes = block[16 + 32 * run : 48 + 32 * run]
            for part in range(2):
                scale, least = half(0) * scales[2 * run + part], half(2) * minima[2 * run + part]
                made += [scale * (int(b) >> 4 * part & 15) - least for b in codes]
        return made
    low, high, scales = block[:128], block[128:192], block[192:208].view(np.int8)  # Q6_K
    made = [0.0] * 256
    for at in range(256):
        side, place = divmod(at, 128)
        quarter, column = divmod(place, 32)
        nibble = int(low[64 * side + 32 * (quarter % 2) + column]) >> 4 * (quarter // 2) & 15
        code = nibble | (int(high[32 * side + column]) >> 2 * quarter & 3) << 4
        made[at] = half(208) * int(scales[at // 16]) * (code - 32)
    return made


@needs_gguf
@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_K", "Q6_K"])
def test_weights_in_blocks_are_what_their_numbers_stand_for(kind: str, tmp_path: Path) -> None:
    """Every matrix of a file whose blocks hold random numbers: those of llama.cpp's own definition."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    each, size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    halves = {"Q8_0": (0,), "Q4_0": (0,), "Q4_K": (0, 2), "Q6_K": (208,)}[kind]
    random, written = np.random.default_rng(0), []

    def blocks(matrix: np.ndarray) -> np.ndarray:
        made = random.integers(0, 256, (matrix.size // each, size), dtype=np.uint8)
        for at in halves:
            scales = random.uniform(1e-5, 1e-4, len(made)).astype(np.float16)
            made[:, at : at + 2] = scales[:, None].view(np.uint8)
        written.append(np.array([slow_block(kind, block) for block in made], np.float32).reshape(matrix.shape))
        return made.reshape(len(matrix), -1)

    shape = {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1, "vocab_size": 260}
    folder = save_tiny(tmp_path, "qwen2", head_dim=64, tie_word_embeddings=False, **shape)
    (tmp_path / "gguf").mkdir()
    file = write_gguf(folder, tmp_path / "gguf" / "tiny.gguf", blocks=blocks, kind=kind)
    whole = load_model(file).module.state_dict()
    names = [name for name, one in AutoModelForCausalLM.from_pretrained(folder).state_dict().items() if one.ndim == 2]
    assert len(names) == len(written) == 9
    for name, expected in zip(names, written, strict=True):
        np.testing.assert_allclose(whole[name].numpy(), expected, rtol=1e-6, atol=1e-9)


@needs_gguf
@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_a_file_is_rounded_some_rows_at_a_time_and_no_matrix_is_read_whole(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As what the whole matrix is rounded to, where rows of queries and keys lie in another order in the file, too."""
    folder = save_tiny(tmp_path, family, head_dim=12, tie_word_embeddings=False)
    (tmp_path / "gguf").mkdir()
    file = write_gguf(folder, tmp_path / "gguf" / "tiny.gguf")
    monkeypatch.setattr("sluicegate.engine.model.gguf_tensors.CHUNK", 7 * 48)
    largest, dequantised = [], GgufTensor._dequantised

    def noted(self: GgufTensor, low: int, high: int) -> torch.Tensor:
        found = dequantised(self, low, high)
        largest.append(found.numel())
        return found

    monkeypatch.setattr(GgufTensor, "_dequantised", noted)
    made = load_model(file, weights="int8").module
    assert max(largest) < 48 * 48
    whole = dict(AutoModelForCausalLM.from_pretrained(folder).named_modules())
    rounded = {name: part for name, part in made.named_modules() if isinstance(part, CpuSmallLinear)}
    assert len(rounded) == 22
    for name, part in rounded.items():
        expected = pack(whole[name].weight.detach().float(), EIGHT)
        assert torch.equal(part.packed.data, expected.data), name
        assert torch.equal(part.packed.scales, expected.scales), name
    assert torch.equal(made.model.embed_tokens.weight, whole["model.embed_tokens"].weight)
