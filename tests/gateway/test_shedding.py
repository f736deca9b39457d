"""Load is shed before anybody waits for nothing, and what `Retry-After` says comes true."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from tests.gateway.conftest import RunningGateway, running

CHAT = "/v1/chat/completions"
SHED_S = 0.3
LONG: dict[str, Any] = {
    "model": "bundled",
    "messages": [{"role": "user", "content": "Tell me a long story."}],
    "max_tokens": 200,
    "ignore_eos": True,
}
SHORT = {**LONG, "max_tokens": 1}


def post(gateway: RunningGateway, body: dict[str, Any]) -> httpx.Response:
    return httpx.post(gateway.url + CHAT, json=body, timeout=120)


def test_who_comes_back_when_told_is_admitted() -> None:
    """Two places, eight long answers: newcomers get a 503 that names the seconds; after as many there is a place."""
    engine = {"max_batch_size": 2}
    overrides = {"server": {"shed_s": SHED_S}, "stages": {"generate": {"engine": engine}}}
    with running(overrides) as gateway, ThreadPoolExecutor(8) as pool:
        for seed in range(2):  # what an answer takes is known from the last ones
            post(gateway, {**LONG, "seed": seed})
        flood = [pool.submit(post, gateway, {**LONG, "seed": 10 + seed}) for seed in range(8)]
        refused = until_refused(gateway)
        told_s = int(refused.headers["retry-after"])
        assert refused.json()["error"]["code"] == "overloaded"
        assert told_s >= 1
        assert gateway.metric("sluicegate_routing_shed_total") >= 1
        time.sleep(told_s)
        assert post(gateway, SHORT).status_code == 200
        statuses = [answer.result().status_code for answer in flood]
        assert set(statuses) <= {200, 503}
        assert statuses.count(200) >= 2


def until_refused(gateway: RunningGateway) -> httpx.Response:
    """The first that is shed while the flood runs."""
    deadline = time.monotonic() + 30
    while True:
        answer = post(gateway, SHORT)
        if answer.status_code == 503:
            return answer
        assert time.monotonic() < deadline, "nothing was ever shed"
        time.sleep(0.01)
