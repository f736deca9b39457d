"""Numbers in config.json that no model can have are refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sluicegate.engine import load_model
from sluicegate.plugins import ModelLoadError
from tests.engine.tiny_models import save_tiny


def rewrite(path: Path, fields: dict[str, Any]) -> None:
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | fields), "utf-8")


@pytest.mark.parametrize(("family", "window"), [("gemma2", 0), ("gpt_oss", 0), ("gpt_oss", -1)])
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
