"""Summarise what did not fit: the hook, and a summariser that only quotes."""

from __future__ import annotations

import importlib
import re
from collections.abc import Awaitable, Callable, Sequence

from sluicegate.cache.semantic.embedder import HashedNgrams
from sluicegate.gateway.prompts.documents import Count
from sluicegate.plugins import ConfigurationError, Document

Summarise = Callable[[Sequence[Document], str, int, Count], Awaitable[str]]
"""Maps (documents, question, tokens allowed, token counter) to a text; '' = nothing worth saying."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
MAX_SENTENCES = 2000
MAX_CHARS = 200_000
"""About a second of comparing words."""


def summariser(name: str) -> Summarise | None:
    """Return the summariser by its setting: `""` = none, `extractive`, or `module:function`. Raises
    `ConfigurationError`."""
    if not name:
        return None
    if name == "extractive":
        return extractive
    module, colon, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function) if colon else None
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"[prompts] summarise: {name!r} cannot be imported: {error}") from error
    if not callable(found):
        raise ConfigurationError(f"[prompts] summarise is 'extractive' or module:function, found {name!r}")
    return found  # type: ignore[no-any-return]


async def extractive(documents: Sequence[Document], question: str, budget: int, count: Count) -> str:
    return nearest(documents, question, budget, count)


def nearest(documents: Sequence[Document], question: str, budget: int, count: Count) -> str:
    """Return the sentences nearest to the question, by shared words, in their order; only the first `MAX_CHARS` of all
    documents together are read."""
    embedder = HashedNgrams()
    asked = embedder.vector(question[:MAX_CHARS])
    sentences = _sentences(documents)
    near = sorted(range(len(sentences)), key=lambda i: -float(embedder.vector(sentences[i]) @ asked))
    kept: list[int] = []
    for index in near:
        size = count(sentences[index]) + 1
        if size <= budget:
            kept.append(index)
            budget -= size
    return " ".join(sentences[index] for index in sorted(kept))


def _sentences(documents: Sequence[Document]) -> list[str]:
    found: list[str] = []
    left = MAX_CHARS
    for document in documents:
        read = document.text[:left]
        found += (s.strip() for s in _SENTENCE.split(read) if s.strip())
        left -= len(read)
        if left <= 0 or len(found) >= MAX_SENTENCES:
            break
    return found[:MAX_SENTENCES]
