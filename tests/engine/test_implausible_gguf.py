"""A GGUF file is read from the places it means, with the fields that change its answers, or refused by what is odd."""

from __future__ import annotations

import re
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
    "off its place": (lambda p: at(p, Q, p.tensors[Q][2] + 4), r"attn_q\.weight' lies at \d+; expected a multiple"),
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
    ("tokenizer.ggml.tokens", LIST, (TEXT, [b"a", b"b"]), r"token_type has 266 items, and the file 2 tokens"),
    (
        "tokenizer.ggml.tokens",
        LIST,
        (UINT32, [1, 2]),
        r"tokens is a list of 2 items \(type 9\); expected a list",
    ),
    ("tokenizer.ggml.tokens", TEXT, b"abc", r"tokens is 'abc' \(type 8\); expected a list of texts"),
    ("tokenizer.ggml.tokens", LIST, (TEXT, []), r"tokens is a list of 0 items"),
    ("tokenizer.ggml.merges", UINT32, 7, r"merges is 7 \(type 4\); expected a list of texts"),
    ("tokenizer.ggml.token_type", LIST, (UINT32, [1, 2]), r"token_type has 2 items, and the file 266 tokens"),
    (
        "tokenizer.ggml.token_type",
        LIST,
        (FLOAT32, [1.0]),
        r"token_type is a list of 1 items .*a list of whole",
    ),
    ("tokenizer.ggml.pre", LIST, (TEXT, []), r"tokenizer\.ggml\.pre is a list of 0 items \(type 9\); expected a text"),
    ("tokenizer.ggml.model", UINT32, 7, r"tokenizer\.ggml\.model is 7 \(type 4\); expected a text"),
    (EOS_ID, FLOAT32, 2.0, r"eos_token_id is 2\.0, and the file has 266 tokens"),
    (EOS_ID, BOOL, True, r"eos_token_id is True, and the file has 266 tokens"),
    ("general.architecture", UINT32, 7, r"general\.architecture is 7 \(type 4\); expected the name of an architecture"),
    ("general.architecture", TEXT, b"", r"general\.architecture is '' \(type 8\)"),
    (
        "general.architecture",
        TEXT,
        b"no_such",
        r"'no_such', which the installed transformers cannot read",
    ),
    ("llama.embedding_length", FLOAT32, 64.0, r"llama\.embedding_length is 64\.0 \(type 6\); expected a whole number"),
    ("llama.block_count", INT32, -1, r"llama\.block_count is -1 \(type 5\); expected a whole number above 0"),
    ("llama.attention.head_count", UINT32, 0, r"attention\.head_count is 0"),
    ("llama.attention.head_count_kv", TEXT, b"2", r"attention\.head_count_kv is '2' \(type 8\)"),
    (
        "llama.rope.freq_base",
        LIST,
        (UINT32, [1]),
        r"rope\.freq_base is a list of 1 items .*expected a number",
    ),
    ("llama.attention.layer_norm_rms_epsilon", UINT32, 1, r"epsilon is 1 \(type 4\); expected a number with a point"),
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


def test_a_file_without_an_architecture_is_refused(parts: GgufParts, tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"does not say its architecture \(general\.architecture\)\. Name the"):
        load_model(parts.without("general.architecture").write(tmp_path / "m.gguf"))


def test_what_only_the_library_finds_is_said_to_be_what_the_file_says(parts: GgufParts, tmp_path: Path) -> None:
    """No advice to fetch a file anew that is whole."""
    changed = parts.saying("llama.attention.head_count", UINT32, 7).write(tmp_path / "m.gguf")
    with pytest.raises(ModelLoadError, match=r"no model can be made of what this GGUF file says \(.* attention heads"):
        load_model(changed)


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


def test_a_field_whose_name_is_damaged_is_missed_or_said(parts: GgufParts, tmp_path: Path) -> None:
    """One bit of a name makes a field that no program knows, and a default of the field that was meant."""
    name = "llama.attention.layer_norm_rms_epsilon"
    changed = parts.without(name).saying("llama.attention.layer_norm_rms_epsimon", FLOAT32, 1e-5)
    with pytest.raises(ModelLoadError, match=rf"says no {re.escape(name)} nor llama\.attention\.layer_norm_epsilon, "):
        load_model(changed.write(tmp_path / "m.gguf"))
    with pytest.raises(ModelLoadError, match=r"says no llama\.context_length, without which"):
        load_model(parts.without("llama.context_length").write(tmp_path / "m.gguf"))
    changed = parts.without("llama.rope.freq_base").saying("lmama.rope.freq_base", FLOAT32, 1e4)
    notes = load_model(changed.write(tmp_path / "m.gguf")).notes
    assert "its GGUF file has fields that are not known here, and not used: lmama.rope.freq_base" in notes


@pytest.mark.parametrize("name", ["attention.sliding_window", "rope.freq_base"])
def test_gemma_3_needs_fields_whose_defaults_differ_between_programs(
    name: str, parts: GgufParts, tmp_path: Path
) -> None:
    """`transformers` takes a window of 4096 where llama.cpp has none, and a base of 1,000,000 where it has 10,000."""
    fields = {key.replace(b"llama.", b"gemma3."): value for key, value in parts.fields.items()}
    fields |= {b"general.architecture": (TEXT, b"gemma3"), b"gemma3.attention.sliding_window": (UINT32, 512)}
    changed = replace(parts, fields=fields).without(f"gemma3.{name}")
    with pytest.raises(ModelLoadError, match=rf"says no gemma3\.{re.escape(name)}, without which"):
        load_model(changed.write(tmp_path / "m.gguf"))
