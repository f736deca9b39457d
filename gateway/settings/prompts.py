"""What the model reads besides the messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from sluicegate.gateway.settings.numbers import Part
from sluicegate.plugins import Within
from sluicegate.plugins.addresses import check_address


@dataclass(frozen=True, slots=True)
class PromptSettings:
    """Templates and context documents."""

    folder: str = ""
    """Files `NAME@VERSION.toml`."""
    templates: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By `NAME@VERSION`, as in those files."""
    order: Literal["edges", "score", "given"] = "edges"
    """Of documents: `edges` (best first and last), `score` (best first), `given`."""
    context_share: Part = 0.5
    """Share of a model's context that documents get where nobody says more."""
    summarise: str = ""
    """Of what does not fit: `extractive`, or `module:function`; empty = left out."""


@dataclass(frozen=True, slots=True)
class RetrievalSettings:
    """Documents that retrievers find for a question."""

    always: bool = False
    """For every question, unless the request says `retrieve: false`; otherwise for requests that say
    `retrieve: true`."""
    documents: Annotated[int, Within(1, 1000)] = 8
    """That a model reads at most."""
    candidates: Annotated[int, Within(1, 1024)] = 32
    """The best of all retrievers together, which are reranked and screened."""
    max_chars: Annotated[int, Within(1, 10_000_000)] = 40_000
    """Of all documents together; what does not fit is dropped."""
    max_document_chars: Annotated[int, Within(1, 10_000_000)] = 8000
    """Of one document; its end is cut."""
    timeout_s: Annotated[float, Within(0.001, 3600)] = 2.0
    """For each retriever; they are asked at the same time."""
    rerank: str = ""
    """A cross-encoder that is served here, or the URL of an API in Jina's shape, with its model behind `#`."""
    rerank_key_env: str = ""
    """The variable that holds the key of that API."""
    rerank_timeout_s: Annotated[float, Within(0.001, 3600)] = 5.0
    """How long the reranker may take."""
    min_score: float | None = None
    """Documents below it are left out: the reranker's score, else the retriever's."""
    on_failure: Literal["refuse", "without"] = "refuse"
    """What becomes of a request when a retriever or the reranker fails: a 502, or an answer without, which says so."""
    on_blocked: Literal["drop", "refuse"] = "drop"
    """What becomes of a document that a rail refuses: it is left out, or the request is refused."""
    citations: bool = True
    """Say in the answer which of its spans stand in which document."""

    def __post_init__(self) -> None:
        if "://" in self.rerank:
            check_address("rerank", self.rerank)
