"""Which form a suite has: our own, or one of other tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from sluicegate.gateway.commands.eval.bfcl import bfcl
from sluicegate.gateway.commands.eval.cases import Suite, suite_of, text_of
from sluicegate.gateway.commands.eval.lm_eval import lm_eval
from sluicegate.gateway.commands.eval.promptfoo import promptfoo
from sluicegate.gateway.commands.eval.reading import table_of


def read_suite(path: Path, form: str = "auto") -> Suite:
    """Read a suite of the `form`, or of the one that its name and content show. Raises `ConfigurationError`."""
    return FORMS[_shown(path) if form == "auto" else form](path)


def _shown(path: Path) -> str:
    if path.suffix in (".yaml", ".yml"):
        return (
            "lm-eval"
            if {"doc_to_text", "dataset_path", "output_type", "include"}.intersection(table_of(path))
            else "promptfoo"
        )
    if path.suffix in (".jsonl", ".json"):
        try:
            first = json.loads(text_of(path).lstrip().partition("\n")[0])
        except ValueError:
            return "cases"
        return "bfcl" if isinstance(first, dict) and "function" in first else "cases"
    return "cases"


FORMS: Mapping[str, Callable[[Path], Suite]] = {
    "cases": suite_of,
    "promptfoo": promptfoo,
    "lm-eval": lm_eval,
    "bfcl": bfcl,
}
