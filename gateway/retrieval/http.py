"""A retriever behind an address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sluicegate.gateway.retrieval.address import Address
from sluicegate.gateway.retrieval.settings import HttpRetrieverSettings
from sluicegate.plugins import Caller, Document, Request, question_of
from sluicegate.plugins.addresses import key_in

WHERE = "stages.retrieve.http"


class HttpRetriever:
    """Slot `retrieve`. What the service answers is bounded and checked; who may read what is for the service to
    decide."""

    def __init__(self, settings: HttpRetrieverSettings) -> None:
        self._settings = settings
        key = key_in(settings.key_env, WHERE, "key_env")
        self._address = Address(settings.url, api_key=key, max_bytes=settings.max_bytes)

    async def start(self) -> None:
        """Do nothing: nothing is asked before the first question."""

    async def close(self) -> None:
        await self._address.close()

    async def retrieve(self, request: Request, caller: Caller) -> Sequence[Document]:
        """Ask the address for documents. Raises `httpx.HTTPError`, and `ValueError` for an answer of another shape."""
        asked: dict[str, Any] = {"query": question_of(request), "top_k": self._settings.count}
        if self._settings.send_tenant:
            asked["tenant"] = caller.tenant
        return read_documents(await self._address.ask(asked))


def read_documents(found: Any) -> list[Document]:
    """Read documents. Raises `ValueError` for anything but a list of objects with a `text`."""
    rows = found.get("documents") if isinstance(found, dict) else None
    if not isinstance(rows, list):
        raise ValueError("it answered no list `documents`")
    return [_document(row) for row in rows]


def _document(row: Any) -> Document:
    if not isinstance(row, dict):
        raise ValueError("a document is no object")
    text, source, score = row.get("text"), row.get("source", ""), row.get("score", 0.0)
    if not isinstance(text, str) or not isinstance(source, str):
        raise ValueError("`text` and `source` of a document must be texts")
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise ValueError("`score` of a document must be a number")
    return Document(text, source, float(score))


def http_retriever(own: HttpRetrieverSettings) -> HttpRetriever:
    return HttpRetriever(own)
