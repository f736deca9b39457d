"""A retriever over a vector set in Redis 8: the server searches, each element brings its text.

    key                 vector set    an element a document, named by a digest of its text and source
    its attribute       JSON          {"text": ..., "source": ...}

Not covered: exactness (the server's HNSW graph over 8-bit vectors may miss a near document), documents without a
text, and cutting long ones into passages, which is done before they are put here.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from sluicegate.cache.construction import make_embedder
from sluicegate.cache.semantic.embedder import Embedder
from sluicegate.cache.stores.redis_client import Tls, connect
from sluicegate.gateway.retrieval.settings import VectorSetSettings
from sluicegate.plugins import Caller, Document, Lifecycle, Request, question_of
from sluicegate.plugins.addresses import key_in

WHERE = "stages.retrieve.vector-set"


class VectorSetRetriever:
    """Slot `retrieve`. `put` fills it."""

    def __init__(self, settings: VectorSetSettings) -> None:
        """Prepare the embedder and the client. Nothing is connected yet. Raises `ConfigurationError`."""
        self._settings = settings
        key = key_in(settings.embedder_key_env, WHERE, "embedder_key_env")
        self.embedder: Embedder = make_embedder(WHERE, settings.embedder, key)
        self._client = connect(settings.url, Tls(ca_file=settings.tls_ca_file))

    async def start(self) -> None:
        if isinstance(self.embedder, Lifecycle):
            await self.embedder.start()

    async def close(self) -> None:
        if isinstance(self.embedder, Lifecycle):
            await self.embedder.close()
        await self._client.aclose()

    async def retrieve(self, request: Request, caller: Caller) -> Sequence[Document]:
        """Return the documents nearest to the question. Raises what Redis and the embedder raise, and `ValueError` for
        elements that are not documents."""
        vector = await self.embedder.embed(question_of(request))
        key, blob = self._key(caller.tenant), vector.astype("<f4").tobytes()
        command = ("VSIM", key, "FP32", blob, "WITHSCORES", "COUNT", self._settings.count)
        found = await self._sent(*command)
        names, scores = found[::2], [2 * float(score) - 1 for score in found[1::2]]  # the server says (1 + cosine) / 2
        pipe = self._client.pipeline(transaction=False)
        for name in names:
            pipe.execute_command("VGETATTR", key, name)
        attributes = await pipe.execute() if names else []
        return [_document(read, score) for read, score in zip(attributes, scores, strict=True) if read is not None]

    async def put(self, documents: Iterable[Document], tenant: str = "") -> int:
        """Add documents, or replace equal ones; return how many. Those without a text have no vector and are refused by
        a `ValueError`."""
        count, key = 0, self._key(tenant)
        for document in documents:
            if not document.text.strip():
                raise ValueError(f"document {count} has no text")
            vector = await self.embedder.embed(document.text)
            said = orjson.dumps({"text": document.text, "source": document.source})
            name = hashlib.sha256(said).hexdigest()
            blob = vector.astype("<f4").tobytes()
            await self._sent("VADD", key, "FP32", blob, name, "SETATTR", said)
            count += 1
        return count

    async def _sent(self, *command: Any) -> Any:
        """Send a command to Redis. Raises `ValueError` for a Redis that does not know the command: Redis's own message
        repeats the vector, which tells of the question, and would stand in the log."""
        try:
            return await self._client.execute_command(*command)
        except importlib.import_module("redis.exceptions").ResponseError as error:
            if "unknown command" not in str(error):
                raise
        raise ValueError("this Redis has no vector sets; name one of version 8 or newer")

    def _key(self, tenant: str) -> str:
        return self._settings.key.replace("{tenant}", tenant)


def _document(read: Any, score: float) -> Document:
    said = orjson.loads(read)
    if not isinstance(said, dict) or not isinstance(said.get("text"), str):
        raise ValueError("an element of the set has no attribute `text`")
    source = said.get("source", "")
    return Document(said["text"], source if isinstance(source, str) else "", score)


def vector_set(own: VectorSetSettings) -> VectorSetRetriever:
    return VectorSetRetriever(own)
