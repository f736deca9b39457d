"""A GGUF file is the model that was written into it."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM

from sluicegate.engine import load_model
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


def write_gguf(folder: Path, to: Path) -> Path:
    """The Qwen2 checkpoint in `folder` as one GGUF file, in float32."""
    from gguf import GGUFWriter, TokenType

    model = AutoModelForCausalLM.from_pretrained(folder)
    config: Any = model.config
    appender = GGUFWriter(to, "qwen2")
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
        appender.add_tensor(_renamed(name), tensor.float().numpy())
    appender.write_header_to_file()
    appender.write_kv_data_to_file()
    appender.write_tensors_to_file()
    appender.close()
    return to


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


@needs_gguf
def test_another_file_in_the_folder_is_another_version(tmp_path: Path) -> None:
    folder = tmp_path / "gguf"
    folder.mkdir()
    files = [
        write_gguf(save_tiny(tmp_path, "qwen2", seed=seed, head_dim=12), folder / f"{seed}.gguf") for seed in (0, 1)
    ]
    assert load_model(files[0]).version != load_model(files[1]).version


def test_without_the_package_the_way_to_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate.engine.model.loading.find_spec", lambda name: None)
    with pytest.raises(ModelLoadError, match=r"pip install 'sluicegate\[gguf\]'"):
        load_model(tmp_path / "x.gguf")
