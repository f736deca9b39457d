"""A request whose grammar is told what its answer must not say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sluicegate.plugins import Request

SHORTEST = 3
"""Characters; to forbid less would forbid half of all words."""


def without(request: Request, texts: Sequence[str]) -> Request | None:
    """`request` with `texts` on the blocklist of its grammar; None where that would change nothing."""
    constraint = request.constraint
    if constraint is None:
        return None
    listed = [str(text) for text in constraint.options.get("blocklist", ())]
    fresh = [text for text in dict.fromkeys(texts) if len(text.strip()) >= SHORTEST and text not in listed]
    if not fresh:
        return None
    options = {**constraint.options, "blocklist": [*listed, *fresh]}
    return replace(request, constraint=replace(constraint, options=options))
