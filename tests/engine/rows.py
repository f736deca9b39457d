"""Sequences without an engine around them."""

from __future__ import annotations

from typing import Any

from sluicegate.engine.batching.sample_rows import SampleRow
from sluicegate.engine.sampling.params import draw_rule
from sluicegate.engine.sequences.sequence import Sequence
from sluicegate.plugins import Sampling


def a_sequence(
    tokens: list[int],
    *,
    prompt_length: int | None = None,
    vocab_size: int = 64,
    seed: int = 0,
    max_length: int = 1000,
    tenant: str = "a",
    priority: int = 0,
    root: bytes = b"root",
    matcher: Any = None,
    **sampling: Any,
) -> Sequence:
    asked = Sampling(**{"temperature": 0.0, **sampling})
    unused: Any = None
    return Sequence(
        tokens=list(tokens),
        prompt_length=len(tokens) if prompt_length is None else prompt_length,
        max_length=max_length,
        sampling=asked,
        rule=draw_rule(asked, default_temperature=1.0, vocab_size=vocab_size),
        seed=seed,
        tenant=tenant,
        priority=priority,
        root=root,
        owner=unused,
        output=unused,
        matcher=matcher,
    )


def a_row(tokens: list[int], **fields: Any) -> SampleRow:
    """Make the row for the next token of such a sequence."""
    return SampleRow(a_sequence(tokens, **fields))
