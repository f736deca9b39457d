"""What retrieval found for a request, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RetrievedDocument:
    """As the rails left it. `score`: the reranker's, else the retriever's; `cut`: its end was too much."""

    text: str
    source: str
    score: float
    retriever: str
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Retrieved:
    """`dropped`: what the answer says of documents that were found and not used; `failed`: retrievers, or `rerank`,
    without which it was answered."""

    documents: tuple[RetrievedDocument, ...] = ()
    dropped: tuple[Mapping[str, Any], ...] = ()
    failed: tuple[str, ...] = ()
