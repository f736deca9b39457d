"""What the model reads besides the messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from sluicegate.gateway.settings.numbers import Part
from sluicegate.plugins import Within
from sluicegate.plugins.addresses import check_address
from sluicegate.plugins.contract.disk_paths import ReadFolder


@dataclass(frozen=True, slots=True)
class PromptSettings:
    """Templates and context documents."""

    folder: ReadFolder = ""
    """Folder of files `NAME@VERSION.toml`."""
    templates: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Templates by `NAME@VERSION`, with the fields of those files."""
    order: Literal["edges", "score", "given"] = "edges"
    """Order of documents: `edges` (best first and last), `score` (best first), `given`."""
    context_share: Part = 0.5
    """Share of a model's context that documents may fill by default."""
    summarise: str = ""
    """How to summarise documents that do not fit: `extractive`, or `module:function`; empty = leave them out."""


@dataclass(frozen=True, slots=True)
class RetrievalSettings:
    """Documents that retrievers find for a question."""

    always: bool = False
    """Retrieve for every question unless the request says `retrieve: false`; otherwise only for requests that say
    `retrieve: true`."""
    documents: Annotated[int, Within(1, 1000)] = 8
    """Most documents that a model reads."""
    candidates: Annotated[int, Within(1, 1024)] = 32
    """Most candidates from all retrievers together that are reranked and screened; the best are kept."""
    max_chars: Annotated[int, Within(1, 10_000_000)] = 40_000
    """Most characters of all documents together; what does not fit is dropped."""
    max_document_chars: Annotated[int, Within(1, 10_000_000)] = 8000
    """Most characters of one document; its end is cut."""
    timeout_s: Annotated[float, Within(0.001, 3600)] = 2.0
    """Time limit of each retriever; all are called at the same time."""
    rerank: str = ""
    """A cross-encoder served here, or the URL of an API in Jina's format followed by `#` and its model."""
    rerank_key_env: str = ""
    """Environment variable with the key of that API."""
    rerank_timeout_s: Annotated[float, Within(0.001, 3600)] = 5.0
    """Time limit of the reranker."""
    min_score: float | None = None
    """Least score of a document: the reranker's score, else the retriever's."""
    on_failure: Literal["refuse", "without"] = "refuse"
    """What happens when a retriever or the reranker fails: `refuse` with a 502, or answer `without` documents and say
    so."""
    on_blocked: Literal["drop", "refuse"] = "drop"
    """What happens to a document that a rail blocks: `drop` it, or `refuse` the request."""
    citations: bool = True
    """Report which spans of the answer occur in which document."""

    def __post_init__(self) -> None:
        if "://" in self.rerank:
            check_address("rerank", self.rerank)
