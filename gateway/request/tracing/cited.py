"""Answer `sluicegate.retrieval` and `sluicegate.citations`: which documents were read, and where they are quoted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sluicegate.gateway.answer.citations import Citation, citations_of
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.request.tracing.confidence import OF_JSON
from sluicegate.plugins import Answer


async def cite(exchange: Exchange, answers: Sequence[Answer]) -> None:
    """Find the citations of `answers`, as they left, in a thread where there is much to read."""
    found, stages = exchange.retrieved, exchange.stages
    if found is None or not found.documents or not stages.retrieval.citations:
        return
    texts = [one.text for one in found.documents]
    structured = exchange.request.constraint is not None and exchange.request.constraint.kind in OF_JSON
    whole = [(answer.index, answer.text) for answer in answers if answer.refusal is None and answer.text]

    def work() -> list[tuple[int, Citation]]:
        return [(i, one) for i, text in whole for one in citations_of(text, texts, structured=structured)]

    size = sum(map(len, texts)) + sum(len(text) for _, text in whole)
    exchange.citations = await stages.workers.run(exchange.caller.tenant, size, work)


def cited(exchange: Exchange) -> dict[str, Any]:
    """Return both fields; of a request that asked for no documents, none."""
    found = exchange.retrieved
    if found is None:
        return {}
    documents = [
        {
            "index": i,
            **({"source": one.source} if one.source else {}),
            "score": one.score,
            "characters": len(one.text),
            "retriever": one.retriever,
            **({"cut": True} if one.cut else {}),
        }
        for i, one in enumerate(found.documents)
    ]
    said: dict[str, Any] = {"documents": documents}
    if found.dropped:
        said["dropped"] = [dict(one) for one in found.dropped]
    if found.failed:
        said["failed"] = list(found.failed)
    spans = [_span(exchange, index, one) for index, one in exchange.citations]
    return {"retrieval": said, **({"citations": spans} if spans else {})}


def _span(exchange: Exchange, index: int, one: Citation) -> dict[str, Any]:
    assert exchange.retrieved is not None
    source = exchange.retrieved.documents[one.document].source
    return {
        "index": index,
        **({"pointer": one.pointer} if one.pointer else {}),
        "start": one.start,
        "end": one.end,
        "document": one.document,
        **({"source": source} if source else {}),
        "document_start": one.document_start,
        "document_end": one.document_end,
        "kind": one.kind,
    }
