"""A GGUF file is read from the places it means, with the fields that change its answers, or refused by what is odd."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sluicegate.engine import load_model
from sluicegate.plugins import ModelLoadError
from tests.engine.gguf_bytes import ALIGNMENT, BOOL, FLOAT32, INT32, LIST, TEXT, UINT32, GgufParts
from tests.engine.gguf_files import write_gguf
from tests.engine.tiny_models import save_tiny

Q, K = b"blk.0.attn_q.weight", b"blk.0.attn_k.weight"
EOS_ID = "tokenizer.ggml.eos_token_id"


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> GgufParts:
    folder = tmp_path_factory.mktemp("gguf")
    return GgufParts.of(write_gguf(save_tiny(folder, "llama", hidden_size=64, head_dim=None), folder / "m.gguf"))


def at(parts: GgufParts, name: bytes, offset: int) -> GgufParts:
    sizes, kind, _ = parts.tensors[name]
    return replace(parts, tensors=parts.tensors | {name: (sizes, kind, offset)})


def test_parts_put_together_again_are_the_file(parts: GgufParts, tmp_path: Path) -> None:
    assert GgufParts.of(parts.write(tmp_path / "m.gguf")) == parts
    assert load_model(tmp_path / "m.gguf").notes == ("its GGUF file was widened: all weights are in full precision",)


PLACES: dict[str, tuple[Callable[[GgufParts], GgufParts], str]] = {
    "overlap": (lambda p: at(p, Q, p.tensors[K][2]), r"attn_\w\.weight lies at \d+, and the tensor before it ends at"),
    "off its place": (lambda p: at(p, Q, p.tensors[Q][2] + 4), r"attn_q\.weight lies at"),
    "before all": (lambda p: at(p, Q, 2**64 - ALIGNMENT), r"lies at \d+|no GGUF file that can be read"),
    "behind all": (lambda p: at(p, Q, 2**40), r"no GGUF file that can be read|lies at"),
    "a gap": (
        lambda p: replace(p, data=bytes(64) + p.data),
        r"and the file 64 bytes behind that",
    ),
    "a rest": (lambda p: replace(p, data=p.data + bytes(999)), r"and the file 999 bytes behind that"),
    "one tensor less": (lambda p: replace(p, tensor_count=len(p.tensors) - 1), r"bytes behind that"),
    "one of three": (lambda p: p.saying("split.count", 2, 3), r"is one of 3 parts of a model"),
}


@pytest.mark.parametrize("case", PLACES)
def test_tensors_that_do_not_fill_the_file_are_refused(case: str, parts: GgufParts, tmp_path: Path) -> None:
    """Some of these loaded, with numbers of another tensor."""
    change, message = PLACES[case]
    with pytest.raises(ModelLoadError, match=message):
        load_model(change(parts).write(tmp_path / "m.gguf"))


FIELDS: list[tuple[str, int, Any, str]] = [
    ("llama.attention.key_length", UINT32, 8, r"attention\.key_length is 8, and the model's heads are 16 wide"),
    ("llama.attention.value_length", UINT32, 8, r"attention\.value_length is 8"),
    ("llama.attention.sliding_window", UINT32, 4, r"attention\.sliding_window is 4, and LlamaConfig has nothing like"),
    ("llama.logit_scale", FLOAT32, 0.5, r"logit_scale is 0\.5"),
    ("llama.embedding_scale", FLOAT32, 12.0, r"embedding_scale is 12\.0"),
    ("llama.final_logit_softcapping", FLOAT32, 5.0, r"final_logit_softcapping is 5\.0"),
    ("llama.attention.causal", BOOL, False, r"attention\.causal is False"),
    ("llama.attention.max_alibi_bias", FLOAT32, 8.0, r"max_alibi_bias is 8\.0"),
    ("llama.expert_count", UINT32, 4, r"expert_count is 4"),
    ("llama.rope.freq_base", FLOAT32, float("nan"), r"rope_theta is nan; expected finite"),
    ("llama.context_length", UINT32, 1, r"max_position_embeddings is 1; expected 2 or more"),
    ("llama.vocab_size", UINT32, 2**31, r"describes a model of [\d,]+ numbers"),
    ("llama.block_count", UINT32, 10**7, r"describes a model of [\d,]+ numbers"),
    (EOS_ID, INT32, -1, r"eos_token_id is -1, and the file has 266 tokens"),
    (EOS_ID, UINT32, 5000, r"eos_token_id is 5000, and the file has 266 tokens"),
    ("tokenizer.ggml.bos_token_id", UINT32, 2**32 - 1, r"bos_token_id is 4294967295, and"),
    ("tokenizer.ggml.tokens", LIST, (TEXT, [b"a", b"b"]), r"eos_token_id is 257, and the file has 2 tokens"),
]


@pytest.mark.parametrize(("name", "kind", "value", "message"), FIELDS)
def test_fields_that_mean_something_are_heeded_or_refused_by_name(
    name: str, kind: int, value: Any, message: str, parts: GgufParts, tmp_path: Path
) -> None:
    """`transformers` passed over most of these, took a token counted from the end, or the end token of its own
    default."""
    with pytest.raises(ModelLoadError, match=message):
        load_model(parts.saying(name, kind, value).write(tmp_path / "m.gguf"))


@pytest.mark.parametrize("name", ["logit_scale", "attention.max_alibi_bias", "attention.clamp_kqv", "expert_count"])
def test_fields_that_ask_for_nothing_are_not_refused(name: str, parts: GgufParts, tmp_path: Path) -> None:
    load_model(parts.saying(f"llama.{name}", FLOAT32, 0.0).write(tmp_path / "m.gguf"))


def test_a_file_that_names_no_end_is_refused(parts: GgufParts, tmp_path: Path) -> None:
    """The default of the architecture was taken: token 2, which is `#` here."""
    with pytest.raises(ModelLoadError, match=r"does not say which token ends an answer"):
        load_model(parts.without(EOS_ID).write(tmp_path / "m.gguf"))


@pytest.mark.parametrize("factor", [-4.0, float("nan"), float("inf")])
@pytest.mark.parametrize("kind", ["linear", "yarn"])
def test_a_scaling_by_no_number_is_refused(kind: str, factor: float, parts: GgufParts, tmp_path: Path) -> None:
    scaled = parts.saying("llama.rope.scaling.type", TEXT, kind.encode())
    with pytest.raises(ModelLoadError, match=r"rope_parameters\.factor is .*; expected finite numbers above 0"):
        load_model(scaled.saying("llama.rope.scaling.factor", FLOAT32, factor).write(tmp_path / "m.gguf"))


def test_a_factor_without_a_rule_scales_linearly(parts: GgufParts, tmp_path: Path) -> None:
    """As in llama.cpp; it was passed over."""
    found = []
    for name, scaled in (
        ("named", parts.saying("llama.rope.scaling.type", TEXT, b"linear")),
        ("unnamed", parts),
        ("none", parts.saying("llama.rope.scaling.type", TEXT, b"none")),
    ):
        path = scaled.saying("llama.rope.scaling.factor", FLOAT32, 4.0).write(tmp_path / f"{name}.gguf")
        model = load_model(path)
        with torch.inference_mode():
            found.append(model.module.model.rotary_emb.inv_freq.clone())
    assert torch.equal(found[0], found[1])
    assert torch.allclose(found[2], 4 * found[1])


@pytest.mark.parametrize(
    ("rule", "said"), [(b"nope", "names the rule 'nope', which is not known here,"), (None, "names no rule")]
)
def test_texts_that_are_cut_by_another_rule_are_said(
    rule: bytes | None, said: str, parts: GgufParts, tmp_path: Path
) -> None:
    changed = parts.without("tokenizer.ggml.pre")
    changed = changed if rule is None else changed.saying("tokenizer.ggml.pre", TEXT, rule)
    notes = load_model(changed.write(tmp_path / "m.gguf")).notes
    assert f"its GGUF file {said} by which texts are cut into words: they are cut as GPT-2 does" in notes
