"""Numbers in config.json that no model can have are refused by name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from sluicegate.engine import load_model
from sluicegate.engine.cuda.memory import fitting
from sluicegate.engine.failures import typed_loading
from sluicegate.plugins import ModelLoadError
from tests.engine.tiny_models import save_tiny


def rewrite(path: Path, fields: dict[str, Any]) -> None:
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | fields), "utf-8")


@pytest.mark.parametrize(
    ("family", "window"), [("gemma2", 0), ("gpt_oss", 0), ("gpt_oss", -1), ("mistral", 0), ("mistral", -1)]
)
def test_a_window_that_hides_a_token_from_itself_is_refused_by_name(family: str, window: int, tmp_path: Path) -> None:
    """`gpt_oss` was loaded with it, whose own `generate` cannot run; `gemma2` was said to have damaged weights."""
    folder = save_tiny(tmp_path, family)
    rewrite(folder / "config.json", {"sliding_window": window})
    with pytest.raises(ModelLoadError, match=f"sliding_window = {window}:"):
        load_model(folder)


@pytest.mark.parametrize("scalar", [0, -1])
def test_scores_divided_by_no_root_are_refused_by_name(scalar: int, tmp_path: Path) -> None:
    """With -1 they are complex numbers: `gemma2` was loaded, and each request failed."""
    folder = save_tiny(tmp_path, "gemma2")
    rewrite(folder / "config.json", {"query_pre_attn_scalar": scalar})
    with pytest.raises(ModelLoadError, match=f"query_pre_attn_scalar, which is {scalar} in"):
        load_model(folder)


STRANGE: list[tuple[str, dict[str, Any], str]] = [
    ("llama", {"hidden_act": "bogus"}, r"says hidden_act = 'bogus', where .* is 'silu': no llama .*one of .*gelu"),
    ("llama", {"num_attention_heads": 0}, r"says num_attention_heads = 0, where transformers' own is 32"),
    ("llama", {"head_dim": -1}, r"says head_dim = -1"),
    ("llama", {"vocab_size": True}, r"says vocab_size = True; expected a whole number"),
    ("llama", {"hidden_size": [48]}, r"says hidden_size = \[48\]; expected a whole number"),
    ("llama", {"pad_token_id": "x"}, r"says pad_token_id = 'x'; expected a whole number or null"),
    ("llama", {"rms_norm_eps": float("nan")}, r"says rms_norm_eps = nan; expected a number"),
    ("llama", {"quantization_config": [1]}, r"says quantization_config = \[1\]; expected an object"),
    ("llama", {"model_type": "lama"}, r"says model_type = 'lama'; expected a kind of model that transformers has"),
    ("llama", {"model_type": [1]}, r"says model_type = \[1\]; expected a kind"),
    ("llama", {"architectures": 7}, r"says architectures = 7; expected a list of names"),
    ("llama", {"dtype": "x"}, r"says dtype = 'x'; expected 'float32'"),
    ("llama", {"rope_parameters": {"rope_type": "x"}}, r"rope_parameters\.rope_type = 'x'.*expected one of .*yarn"),
    ("llama", {"hidden_size": 47}, r"hidden_size = 47|hidden size \(47\)|of another shape"),
    ("mixtral", {"num_experts_per_tok": 5}, r"says num_experts_per_tok = 5 and .*from 1 to 4"),
    ("mixtral", {"num_experts_per_tok": 0}, r"says num_experts_per_tok = 0 and .*from 1 to 4"),
    ("deepseek_v3", {"topk_group": 3}, r"says topk_group = 3 and .*from 1 to 2"),
    (
        "falcon_h1",
        {"embedding_multiplier": 1e300},
        r"NaN or infinite.* config\.json says embedding_multiplier = 1e\+300",
    ),
    ("falcon_h1", {"mlp_multipliers": []}, r"says mlp_multipliers = \[\]"),
    ("llama", {"num_hidden_layers": 2**70}, r"describes a model of .*num_hidden_layers"),
    ("qwen3_moe", {"moe_intermediate_size": 2**31}, r"describes a model of .* of them in \S+experts"),
]


@pytest.mark.parametrize(("family", "fields", "message"), STRANGE)
def test_a_field_that_no_model_can_have_is_refused_by_its_name(
    family: str, fields: dict[str, Any], message: str, tmp_path: Path
) -> None:
    """By its value and by what is allowed, whatever a library raised over it."""
    folder = save_tiny(tmp_path, family)
    rewrite(folder / "config.json", fields)
    with pytest.raises(ModelLoadError, match=message) as found:
        load_model(folder)
    assert not re.search(r"\w+Error: ", str(found.value))


def test_what_no_memory_holds_is_refused_with_what_to_lower_on_a_cpu_too() -> None:
    """It was torch's bare RuntimeError."""
    with pytest.raises(ModelLoadError, match=r"the steps does not fit into memory .* lower num_"), fitting("the steps"):
        torch.empty(2**52)
    with pytest.raises(ModelLoadError, match="fit into memory"), fitting("x"), typed_loading("x"):  # not a damaged file
        torch.empty(2**52)
