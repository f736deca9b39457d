"""Documents in a vector set of a real Redis: found by likeness, kept apart by tenant."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.retrieval.settings import VectorSetSettings
from sluicegate.gateway.retrieval.vector_set import VectorSetRetriever
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Caller, ConfigurationError, Document, Registry
from sluicegate.plugins.testing import make_request
from tests.cache.redis_server import RedisServer, needs_redis

BINARY = os.environ.get("SLUICEGATE_REDIS8")
needs_redis8 = pytest.mark.skipif(
    BINARY is None, reason="SLUICEGATE_REDIS8 names no Redis 8 server; `python -m tests.cache.redis8 FOLDER` gets one"
)
DOCUMENTS = [
    Document("Parcel 17 was left at the harbour office in Aarhus.", "log.md"),
    Document("The ferry from Gothenburg sails on Sundays.", "ferry.md"),
    Document("Invoices are due after thirty days.", "terms.md"),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    found = RedisServer(tmp_path, binary=BINARY)
    found.start()
    yield found
    found.kill()


async def filled(url: str, *documents: Document, tenant: str = "", **settings: Any) -> VectorSetRetriever:
    found = VectorSetRetriever(VectorSetSettings(url=url, **settings))
    await found.start()
    assert await found.put(documents, tenant) == len(documents)
    return found


async def sources(found: VectorSetRetriever, text: str, tenant: str = "anonymous") -> list[str]:
    return [one.source for one in await found.retrieve(make_request(text), Caller(tenant=tenant))]


@needs_redis8
async def test_the_nearest_documents_come_first_with_their_cosines(server: RedisServer) -> None:
    found = await filled(server.url, *DOCUMENTS, count=2)
    documents = await found.retrieve(make_request("Where is parcel 17?"), Caller())
    assert documents[0].source == "log.md"
    assert len(documents) == 2
    query = await found.embedder.embed("Where is parcel 17?")
    expected = float(query @ await found.embedder.embed(DOCUMENTS[0].text))
    assert documents[0].score == pytest.approx(expected, abs=0.02)  # the server keeps 8 bits
    await found.put(DOCUMENTS)
    assert len(await sources(found, "Where is parcel 17?")) == 2, "equal documents replace each other"
    await found.close()


@needs_redis8
async def test_tenants_have_sets_of_their_own_where_the_key_says_so(server: RedisServer) -> None:
    found = await filled(server.url, DOCUMENTS[0], tenant="a", key="docs:{tenant}")
    await found.put(DOCUMENTS[1:2], "b")
    assert await sources(found, "parcel ferry", "a") == ["log.md"]
    assert await sources(found, "parcel ferry", "b") == ["ferry.md"]
    assert await sources(found, "parcel ferry", "c") == []
    await found.close()


@needs_redis8
async def test_elements_that_are_no_documents_are_refused(server: RedisServer) -> None:
    found = await filled(server.url, DOCUMENTS[0])
    with pytest.raises(ValueError, match="document 0 has no text"):
        await found.put([Document(" ")])
    vector = (await found.embedder.embed("parcel")).astype("<f4").tobytes()
    server.ask("VADD", "sluicegate:documents", "FP32", vector, "strange", "SETATTR", '{"title": "x"}')
    with pytest.raises(ValueError, match="no attribute `text`"):
        await sources(found, "parcel")
    await found.close()


@needs_redis8
def test_a_gateway_answers_from_the_set_and_fails_closed_without_it(server: RedisServer) -> None:
    import asyncio

    async def fill() -> None:
        await (await filled(server.url, *DOCUMENTS)).close()

    asyncio.run(fill())
    stages = {"retrieve": {"vector-set": {"url": server.url}}}
    ours = {"sluicegate": {"retrieve": True}, "stream": False}
    with TestApp(pipeline={"retrieve": ["vector-set"]}, stages=stages) as gateway:
        found = gateway.ask("Where is parcel 17?", **ours)
        assert found.body["sluicegate"]["retrieval"]["documents"][0]["source"] == "log.md"
        server.freeze()
        assert gateway.ask("Where is parcel 18?", **ours).error["code"] == "retrieval_failed"
        server.thaw()
        server.wait_for(b"PONG", "PING")
        assert gateway.ask("Where is parcel 19?", **ours).status == 200


@needs_redis
def test_a_redis_without_vector_sets_ends_the_request_with_a_typed_error(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    server.start()
    stages = {"retrieve": {"vector-set": {"url": server.url}}}
    try:
        with TestApp(pipeline={"retrieve": ["vector-set"]}, stages=stages) as gateway:
            found = gateway.ask("Where?", stream=False, sluicegate={"retrieve": True})
            assert (found.status, found.error["code"]) == (502, "retrieval_failed")
    finally:
        server.kill()


@pytest.mark.parametrize(
    "table", [{"url": "http://a"}, {"embedder": "https://a/v1/embeddings"}, {"embedder": "no_such:thing"}, {"count": 0}]
)
def test_settings_that_cannot_work_are_refused_at_the_start(table: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        TestApp(pipeline={"retrieve": ["vector-set"]}, stages={"retrieve": {"vector-set": table}})
    assert Registry().names("retrieve") == []
