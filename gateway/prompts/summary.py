"""What did not fit, in few words: the hook, and a summariser that only quotes."""

from __future__ import annotations

import importlib
import re
from collections.abc import Awaitable, Callable, Sequence

from cache.semantic.embedder import HashedNgrams
from gateway.prompts.documents import Count
from plugins import ConfigurationError, Document

Summarise = Callable[[Sequence[Document], str, int, Count], Awaitable[str]]
"""(documents, question, tokens it may have, how to count them) -> text; "" for nothing worth saying."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
MAX_SENTENCES = 2000


def summariser(name: str) -> Summarise | None:
    """`""`: none; `extractive`; or `module:function` of the operator's own. Raises `ConfigurationError`."""
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
    """The sentences nearest to the question, by shared words, in the order in which they stood."""
    embedder = HashedNgrams()
    asked = embedder.vector(question)
    sentences = [s.strip() for d in documents for s in _SENTENCE.split(d.text) if s.strip()][:MAX_SENTENCES]
    near = sorted(range(len(sentences)), key=lambda i: -float(embedder.vector(sentences[i]) @ asked))
    kept: list[int] = []
    for index in near:
        size = count(sentences[index]) + 1
        if size <= budget:
            kept.append(index)
            budget -= size
    return " ".join(sentences[index] for index in sorted(kept))
