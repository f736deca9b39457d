"""The result of retrieval for a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RetrievedDocument:
    """A document after screening. `score`: the reranker's, else the retriever's; `cut`: it was truncated."""

    text: str
    source: str
    score: float
    retriever: str
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Retrieved:
    """`dropped`: the answer's notes on documents that were found and not used; `failed`: retrievers, or `rerank`, that
    failed."""

    documents: tuple[RetrievedDocument, ...] = ()
    dropped: tuple[Mapping[str, Any], ...] = ()
    failed: tuple[str, ...] = ()
