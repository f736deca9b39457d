"""Gateways and engines on Ray Serve, with PostgreSQL and Redis behind them: what a caller and an operator count on."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cache.redis_server import RedisServer, free_port, needs_redis
from tests.gateway.stores.postgres_server import PostgresServer, needs_postgres
from tests.scale.ray_cluster import RayCluster, needs_ray
from tests.waiting import until

pytestmark = [pytest.mark.scale, needs_ray, needs_redis, needs_postgres]
CONFIG = """
[server]
port = {port}
drain_s = 60

[database]
url = "{database}"

[stages.generate.engine]
max_batch_size = 4

[pipeline]
recall = ["redis"]

[stages.recall.redis]
url = "{redis}"

[accounts]
url = "{redis}"
journal = "{folder}/journal"

[accounts.prices.bundled]
input = 100.0
output = 100.0

[[keys]]
id = "operator"
key = "operator"
scopes = ["admin"]

[[keys]]
id = "poor"
key = "poor"
limits = {{ budget_day = 0.4 }}

[[keys]]
id = "narrow"
key = "narrow"
limits = {{ concurrency = 2 }}

[[keys]]
id = "counted"
key = "counted"

[ray]
up_s = 1
down_s = 2
window_s = 3

[ray.gateway]
replicas = 2
cpus = 0.1

[ray.engine]
replicas = 2
most_replicas = 3
cpus = 0.1
waiting = 1
first_text_s = 0.05
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    folder = tmp_path_factory.mktemp("ray")
    database, redis = PostgresServer(), RedisServer(tmp_path_factory.mktemp("redis"))
    found = RayCluster(
        tmp_path_factory.mktemp("cluster"),
        CONFIG.format(port=free_port(), database=database.url(), redis=redis.url, folder=folder),
    )
    try:
        database.start()
        redis.start()
        found.start()
        yield found
    finally:
        found.remove()
        redis.kill()
        database.remove()


@dataclass
class Stream:
    """What a caller got."""

    status: int = 0
    pieces: list[str] = field(default_factory=list)
    reads: int = 0
    error: dict[str, Any] | None = None
    finish: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "".join(self.pieces)


def long_body(number: int, items: int = 120) -> dict[str, Any]:
    """Ask for an answer of some hundred tokens, whatever the model thinks."""
    schema = {
        "type": "array",
        "items": {"enum": ["north", "south", "east", "west"]},
        "minItems": items,
        "maxItems": items,
    }
    return {
        "model": "bundled",
        "messages": [{"role": "user", "content": f"Numbers, list {number}."}],
        "max_tokens": 900,
        "seed": number,
        "sluicegate": {"cache": False},
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
    }


def streamed(client: httpx.Client, body: dict[str, Any], begun: threading.Event | None = None) -> Stream:
    found = Stream()
    asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
    with client.stream("POST", "/v1/chat/completions", json=asked) as answer:
        found.status = answer.status_code
        rest = b""
        for data in answer.iter_raw():
            found.reads += 1
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if line.startswith(b"data: {"):
                    _take(found, json.loads(line[6:]))
                if found.text and begun is not None:
                    begun.set()
    return found


def _take(found: Stream, event: dict[str, Any]) -> None:
    found.error = found.error or event.get("error")
    found.usage = event.get("usage") or found.usage
    for choice in event.get("choices", ()):
        found.pieces.append(choice["delta"].get("content") or "")
        found.finish = choice["finish_reason"] or found.finish


def usage_of(cluster: RayCluster, key: str) -> dict[str, Any]:
    """Return the sums of a key, once every gateway has written its own down."""
    with cluster.client("operator") as client:
        rows = client.get("/admin/usage", params={"by": "key_id"}).raise_for_status().json()["data"]
        return next((row for row in rows if row["key_id"] == key), {})


def test_a_stream_comes_piece_by_piece(cluster: RayCluster) -> None:
    with cluster.client("counted") as client:
        found = streamed(client, long_body(1))
    assert (found.status, found.finish, len(json.loads(found.text))) == (200, "stop", 120)
    assert found.reads > 10


def test_the_probes_answer(cluster: RayCluster) -> None:
    assert httpx.get(f"{cluster.url}/readyz").status_code == 200
    assert httpx.get(f"{cluster.url}/-/healthz").status_code == 200
    assert (len(cluster.replicas("gateway")), len(cluster.replicas("engine")) >= 2) == (2, True)


def test_what_one_gateway_answered_another_recalls(cluster: RayCluster) -> None:
    """Once it is kept, which is after the answer; where Redis is slow to say so a question is computed again, alike."""
    body = {"model": "bundled", "temperature": 0, "messages": [{"role": "user", "content": "Only once, please."}]}
    with cluster.client("operator") as client:
        first = client.post("/v1/chat/completions", json=body).raise_for_status()
    said = first.json()["choices"][0]["message"]["content"]

    def again(_: int) -> tuple[str, str]:
        with cluster.client("operator") as client:  # a connection of its own: Serve chooses a gateway for each request
            answer = client.post("/v1/chat/completions", json=body).raise_for_status()
            return answer.headers["x-sluicegate-cache"], answer.json()["choices"][0]["message"]["content"]

    def all_recall() -> bool:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(again, range(20)))
        assert {text for _, text in found} == {said}
        return "miss" not in {cache for cache, _ in found}

    until(all_recall)


def test_a_budget_holds_over_all_gateways(cluster: RayCluster) -> None:
    def ask(number: int) -> int:
        with cluster.client("poor") as client:
            return client.post("/v1/chat/completions", json=long_body(number, 60)).status_code

    with ThreadPoolExecutor(6) as pool:
        statuses = list(pool.map(ask, range(24)))
    assert set(statuses) == {200, 429}
    until(lambda: usage_of(cluster, "poor").get("requests", 0) >= statuses.count(200))
    assert usage_of(cluster, "poor")["cost"] <= 0.4


def test_places_hold_over_all_gateways(cluster: RayCluster) -> None:
    """While a key's two requests run, no gateway takes a third."""

    def ask(number: int, begun: threading.Event | None = None, items: int = 120) -> Stream:
        with cluster.client("narrow") as client:
            return streamed(client, long_body(number, items), begun)

    def others_refused() -> bool:
        """Return whether six more were asked while both still ran."""
        begun = [threading.Event(), threading.Event()]
        with ThreadPoolExecutor(8) as pool:
            running = [pool.submit(ask, number, begun[number]) for number in range(2)]
            assert all(one.wait(120) for one in begun)
            statuses = [one.result().status for one in [pool.submit(ask, number, None, 5) for number in range(6)]]
            conclusive = not any(one.done() for one in running)
            assert all(one.result().finish == "stop" for one in running)
        assert not conclusive or statuses == [429] * 6
        return conclusive

    until(others_refused)


def test_an_engine_killed_in_mid_stream_is_an_error_event_and_a_retry_answers(cluster: RayCluster) -> None:
    """And what was charged is what was answered: no request counts twice, no token of a lost try."""
    before = usage_of(cluster, "counted")
    until(lambda: len(cluster.replicas("engine")) >= 2)
    begun = [threading.Event() for _ in range(6)]

    def ask(number: int) -> Stream:
        with cluster.client("counted") as client:
            return streamed(client, long_body(100 + number), begun[number])

    with ThreadPoolExecutor(6) as pool:
        streams = [pool.submit(ask, number) for number in range(6)]
        assert all(one.wait(120) for one in begun)
        for pid in cluster.replicas("engine"):
            os.kill(pid, signal.SIGKILL)
        found = [stream.result() for stream in streams]
    broken = [one for one in found if one.error is not None]
    assert broken
    assert all(one.finish is None and one.error["code"] == "upstream_failed" for one in broken if one.error)
    assert all(one.finish == "stop" for one in found if one.error is None)
    with cluster.client("counted") as client:
        retried = [streamed(client, long_body(200 + number)) for number in range(len(broken))]
    assert [one.finish for one in retried] == ["stop"] * len(broken)
    whole = [one for one in (*found, *retried) if one.error is None]

    def charged(name: str) -> int:
        return int(usage_of(cluster, "counted").get(name, 0)) - int(before.get(name, 0))

    until(lambda: charged("requests") >= len(found) + len(retried))
    assert charged("requests") == len(found) + len(retried)
    answered = sum(one.usage["completion_tokens"] for one in whole)
    assert answered <= charged("completion_tokens") <= answered + sum(900 for _ in broken)


def test_load_makes_engines_and_quiet_takes_them_away(cluster: RayCluster) -> None:
    """No request fails on the way up or down."""
    until(lambda: len(cluster.replicas("engine")) == 2)
    over, statuses = threading.Event(), []

    def keep_asking(number: int) -> None:
        with cluster.client("operator") as client:
            while not over.is_set():
                statuses.append(streamed(client, long_body(number, 100)).finish)

    with ThreadPoolExecutor(12) as pool:
        callers = [pool.submit(keep_asking, number) for number in range(12)]
        try:
            until(lambda: len(cluster.replicas("engine")) == 3 or any(caller.done() for caller in callers))
        finally:
            over.set()
        for caller in callers:
            caller.result()
    assert set(statuses) == {"stop"}
    until(lambda: len(cluster.replicas("engine")) == 2)
    with cluster.client("operator") as client:
        assert streamed(client, long_body(7, 20)).finish == "stop"


def test_at_the_end_what_has_begun_is_answered(cluster: RayCluster) -> None:
    """The last one: it stops the cluster."""
    begun = threading.Event()
    with cluster.client("operator") as client, ThreadPoolExecutor(1) as pool:
        stream = pool.submit(streamed, client, long_body(300), begun)
        assert begun.wait(120)
        assert cluster.stop() == 0
        assert stream.result().finish == "stop"
    until(lambda: not cluster.replicas("gateway") and not cluster.replicas("engine"))
    assert not list(Path(cluster.log).parent.glob("core*"))
