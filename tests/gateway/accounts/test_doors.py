"""One door for all: what a key may use is the same whichever way it asks, and however much it asks for at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.request.slots import BATCH_PRIORITY
from sluicegate.gateway.testing import TestApp
from tests.gateway.accounts.test_limits import PRICES, app, key
from tests.gateway.test_socket import answer as answer_over_socket
from tests.gateway.test_socket import open_socket
from tests.waiting import until

HEADERS = {"authorization": "Bearer secret-a"}
TURN = [{"role": "user", "content": "hi"}]
CHAT = "/v1/chat/completions"
Door = Callable[[TestApp], str]
"""Asks once; "ok", or the code of the error."""


def over_http(path: str, **body: Any) -> Door:
    def ask(gateway: TestApp) -> str:
        answer = gateway.client.post(path, json={"model": "scripted", **body}, headers=HEADERS)
        return "ok" if answer.status_code == 200 else str(answer.json()["error"]["code"])

    return ask


def over_a_socket(gateway: TestApp) -> str:
    with open_socket(gateway.url, **HEADERS) as socket:
        last = answer_over_socket(socket, {"model": "scripted", "messages": TURN, "max_tokens": 10})[-1]
    return str(last["error"]["code"]) if "error" in last else "ok"


def in_a_batch(gateway: TestApp) -> str:
    """Ask in a batch, where a line that meets a limit waits."""
    body = {"model": "scripted", "messages": TURN, "max_tokens": 10}
    before = len(gateway.outcomes)
    batch = begin_batch(gateway, [body])

    def completed() -> bool:
        return bool(gateway.client.get(f"/v1/batches/{batch}", headers=HEADERS).json()["status"] == "completed")

    def refused() -> bool:
        ends = [outcome for outcome in gateway.outcomes[before:] if outcome.request.priority == BATCH_PRIORITY]
        return any(outcome.error == "rate_limit_exceeded" for outcome in ends)

    until(lambda: completed() or refused())
    if completed():
        return "ok"
    gateway.client.post(f"/v1/batches/{batch}/cancel", headers=HEADERS)
    return "later"


def begin_batch(gateway: TestApp, bodies: list[dict[str, Any]]) -> str:
    rows = [
        json.dumps({"custom_id": str(i), "method": "POST", "url": CHAT, "body": body}) for i, body in enumerate(bodies)
    ]
    form: Any = {"files": {"file": ("in.jsonl", "\n".join(rows).encode())}, "data": {"purpose": "batch"}}
    file = gateway.client.post("/v1/files", headers=HEADERS, **form).json()
    asked = {"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h"}
    return str(gateway.client.post("/v1/batches", json=asked, headers=HEADERS).json()["id"])


DOORS: dict[str, Door] = {
    "chat": over_http(CHAT, messages=TURN, max_tokens=10),
    "stream": over_http(CHAT, messages=TURN, max_tokens=10, stream=True),
    "responses": over_http("/v1/responses", input="hi", max_output_tokens=10),
    "messages": over_http("/v1/messages", messages=TURN, max_tokens=10),
    "completions": over_http("/v1/completions", prompt="hi", max_tokens=10),
    "moderations": over_http("/v1/moderations", input="hi"),
    "socket": over_a_socket,
    "batch": in_a_batch,
}
GENERATING = [name for name in DOORS if name != "moderations"]
MANY: dict[str, dict[str, Any]] = {
    "n": {"n": 4},
    "best_of": {"best_of": 4},
    "beams": {"use_beam_search": True, "best_of": 4},
}


def limited(folder: Path, limits: dict[str, Any], **more: Any) -> TestApp:
    settings = {"batches": {"path": str(folder)}}
    return app(key("a", limits=limits), accounts={"prices": PRICES}, settings=settings, **more)


AT_ONCE = [door for door in DOORS if door != "batch"]
"""Where one call is one request; a batch takes some to upload, begin and watch it as well."""


@pytest.mark.parametrize("door", AT_ONCE)
def test_requests_a_minute_hold_at_every_door(tmp_path: Path, door: str) -> None:
    with limited(tmp_path, {"requests_per_minute": 3}) as gateway:
        found = [DOORS[door](gateway) for _ in range(4)]
    assert found == ["ok", "ok", "ok", "rate_limit_exceeded"]


def test_requests_a_minute_hold_for_the_lines_of_a_batch_and_the_calls_around_it(tmp_path: Path) -> None:
    """Five: an upload, a batch, three lines; a fourth line waits, and so does whoever asks after it."""
    with limited(tmp_path, {"requests_per_minute": 5}) as gateway:
        batch = begin_batch(gateway, [{"model": "scripted", "messages": TURN, "max_tokens": 10}] * 4)
        until(lambda: any(outcome.error == "rate_limit_exceeded" for outcome in gateway.outcomes))
        until(lambda: len([outcome for outcome in gateway.outcomes if outcome.error is None]) == 3)
        asked = gateway.client.get(f"/v1/batches/{batch}", headers=HEADERS)
        assert (asked.status_code, asked.json()["error"]["code"]) == (429, "rate_limit_exceeded")


@pytest.mark.parametrize("door", AT_ONCE)
def test_what_one_door_used_is_gone_for_all(tmp_path: Path, door: str) -> None:
    """After one request through it, chat finds its requests and its tokens gone."""
    limits = {"requests_per_minute": 100, "tokens_per_minute": 10_000}
    with limited(tmp_path, limits, script=["word "] * 10) as gateway:
        assert DOORS[door](gateway) == "ok"
        gateway.wait_for_outcomes(1)
        told = gateway.client.get("/v1/models", headers=HEADERS).headers
        assert told["x-ratelimit-remaining-requests"] == "99"
        used = 10_000 - int(told["x-ratelimit-remaining-tokens"])
        [outcome] = gateway.outcomes
        assert used == outcome.usage.prompt_tokens + outcome.usage.completion_tokens
        assert used > 0 or door == "moderations"  # which reads nothing into a model


@pytest.mark.parametrize("door", GENERATING)
def test_concurrency_holds_while_another_door_is_used(tmp_path: Path, door: str) -> None:
    with limited(tmp_path, {"concurrency": 1}, delay_s=0.4) as gateway, ThreadPoolExecutor(1) as pool:
        running = pool.submit(DOORS[door], gateway)
        until(lambda: gateway.model.generations)
        assert DOORS["chat"](gateway) == "rate_limit_exceeded"
        assert running.result(20) == "ok"
        gateway.wait_for_outcomes(2)
        assert DOORS["chat"](gateway) == "ok"


@pytest.mark.parametrize("door", GENERATING)
def test_a_budget_holds_at_every_door(tmp_path: Path, door: str) -> None:
    """Some are served, then none at any door, and what was spent never passes the budget."""
    with limited(tmp_path, {"budget_day": 0.00035}, script=["word "] * 10) as gateway:
        if door == "batch":
            begin_batch(gateway, [{"model": "scripted", "messages": TURN, "max_tokens": 10}] * 12)
            gateway.wait_for_outcomes(3)
            door = "chat"  # between two lines there may be room for a last one
        else:
            assert DOORS[door](gateway) == "ok"
        found = [DOORS[door](gateway) for _ in range(12)]
        assert found[-1] == DOORS["chat"](gateway) == "insufficient_quota"
        spent = sum(1000 * o.usage.prompt_tokens + 2000 * o.usage.completion_tokens for o in gateway.outcomes)
        assert 0 < spent <= 350_000


@pytest.mark.parametrize("many", MANY)
@pytest.mark.parametrize("limits", [{"tokens_per_minute": 100}, {"budget_day": 0.0004}], ids=["tokens", "budget"])
def test_choices_that_are_generated_count_given_or_not(tmp_path: Path, many: str, limits: dict[str, Any]) -> None:
    """Four of thirty tokens are too many where one is not."""
    with limited(tmp_path, limits) as gateway:
        body = {"messages": TURN, "max_tokens": 30}
        assert over_http(CHAT, **body, **MANY[many])(gateway) in ("request_exceeds_limit", "insufficient_quota")
        assert over_http(CHAT, **body)(gateway) == "ok"


@pytest.mark.parametrize(
    "limits", [{"requests_per_minute": 3}, {"concurrency": 3}, {"tokens_per_minute": 100}], ids=str
)
def test_every_prompt_of_a_completion_counts(tmp_path: Path, limits: dict[str, Any]) -> None:
    with limited(tmp_path, limits, delay_s=0.05) as gateway:
        four = over_http("/v1/completions", prompt=["a", "b", "c", "d"], max_tokens=30)
        assert four(gateway) == "rate_limit_exceeded"


@pytest.mark.parametrize(
    "more",
    [
        {"sluicegate": {"context": [{"text": "word " * 300}]}},
        {"tools": [{"type": "function", "function": {"name": "f", "description": "word " * 300}}]},
    ],
    ids=["documents", "tools"],
)
def test_whatever_the_prompt_is_made_of_counts_against_a_budget(tmp_path: Path, more: dict[str, Any]) -> None:
    with limited(tmp_path, {"budget_day": 0.0009}) as gateway:
        body = {"messages": TURN, "max_tokens": 10}
        assert over_http(CHAT, **body, **more)(gateway) == "insufficient_quota"
        assert over_http(CHAT, **body)(gateway) == "ok"
