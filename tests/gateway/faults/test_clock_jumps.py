"""A clock that is set an hour forward or back, as by a machine that wakes up: nothing is opened, blocked or lost."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from sluicegate.gateway.accounts import accounts
from sluicegate.gateway.accounts.limits.lease_script import LeaseQuestion, LeaseReply
from sluicegate.gateway.accounts.limits.leases import SharedMeter
from sluicegate.gateway.accounts.limits.meter import Meter, UsageEstimate
from sluicegate.gateway.settings import Limits
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import RateLimited
from tests.altered import altered
from tests.waiting import until

HOUR_S = 3600.0
Jump = Callable[[float], None]


@pytest.fixture
def jump(monkeypatch: pytest.MonkeyPatch) -> Jump:
    """Return a function that sets the time that our own modules read, from then on, by so many seconds."""
    steps: list[float] = []
    other = altered(time, time=lambda: time.time() + sum(steps), time_ns=lambda: time.time_ns() + int(sum(steps) * 1e9))
    for name, module in list(sys.modules.items()):
        if name.startswith("sluicegate.") and getattr(module, "time", None) is time:
            monkeypatch.setattr(module, "time", other)
    return steps.append


def app(limits: dict[str, Any] | None = None, **more: Any) -> TestApp:
    key = {"id": "a", "sha256": hashlib.sha256(b"secret").hexdigest(), "limits": limits or {}}
    pipeline = {"admit": ["api-keys", "limits"], "record": ["ledger"], **more.pop("pipeline", {})}
    return TestApp(pipeline=pipeline, keys=[key], **more)


def ask(gateway: TestApp, text: str = "hi") -> httpx.Response:
    body = {"model": "scripted", "messages": [{"role": "user", "content": text}], "max_tokens": 10, "temperature": 0}
    sent: httpx.Response = gateway.client.post("/v1/chat/completions", json=body, headers=HEADERS)
    return sent


HEADERS = {"authorization": "Bearer secret"}


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S])
def test_a_minute_is_a_minute_whatever_the_clock_does(step_s: float, jump: Jump) -> None:
    """Set forward, it let in the next minute's requests at once."""
    with app({"requests_per_minute": 2, "tokens_per_minute": 1000}) as gateway:
        assert [ask(gateway).status_code for _ in range(3)] == [200, 200, 429]
        for step in (step_s, -step_s):
            jump(step)
            refused = ask(gateway)
            assert refused.status_code == 429
            assert 0 < int(refused.headers["retry-after"]) <= 61
            assert refused.headers["x-ratelimit-remaining-requests"] == "0"
            assert 0 < float(refused.headers["x-ratelimit-reset-requests"].removesuffix("s")) <= 61


def now_s() -> float:
    return float(vars(accounts)["time"].time())


class Store:
    """Leases everything that is asked for."""

    is_alive = True

    async def renew_presence(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""

    def next_number(self) -> int:
        return 1

    async def ask(self, limit: str, question: LeaseQuestion) -> LeaseReply:
        return LeaseReply(question.want, 0, 0, "", 0.0, 0)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S])
async def test_a_jump_while_a_request_runs_tells_nobody_to_come_back_in_minutes(
    step_s: float, shared: bool, jump: Jump
) -> None:
    """`Retry-After` of a full key is what its requests usually take, to which a tenth of the hour was added."""
    limits, need = Limits(concurrency=1), UsageEstimate(1, 0)
    meter = (
        SharedMeter("key", "a", limits, Store(), time.monotonic) if shared else Meter("a", limits, 0, 0, time.monotonic)
    )
    for step in (step_s, 0.0):
        if isinstance(meter, SharedMeter):
            await meter.refill(need, now_s())
        meter.check(need, now_s())
        taken = meter.take(need, now_s())
        jump(step)
        with pytest.raises(RateLimited) as refused:
            meter.check(need, now_s())
        assert 0 < (refused.value.retry_after_s or 0) < 10
        meter.settle(taken, 1, 0, now_s())


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S])
def test_kept_answers_outlive_a_jump(step_s: float, jump: Jump) -> None:
    with app(pipeline={"recall": ["memory"]}) as gateway:
        kept = [ask(gateway).headers["x-sluicegate-cache"]]
        for step in (step_s, -step_s):
            jump(step)
            kept.append(ask(gateway).headers["x-sluicegate-cache"])
    assert kept == ["miss", "hit", "hit"]


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S])
def test_a_batch_runs_to_its_end_over_a_jump(step_s: float, jump: Jump, tmp_path: Path) -> None:
    runs, goes_on = threading.Semaphore(0), threading.Event()

    def script(job: Any) -> list[str]:
        runs.release()
        assert goes_on.wait(60)
        return ["ok"]

    body = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}
    rows = [{"custom_id": str(at), "method": "POST", "url": "/v1/chat/completions", "body": body} for at in range(4)]
    with app(script=script, settings={"batches": {"path": str(tmp_path / "b")}}) as gateway:
        lines = "\n".join(map(json.dumps, rows)).encode()
        sent = {"file": ("in.jsonl", lines), "purpose": (None, "batch")}
        file_id = gateway.client.post("/v1/files", files=sent, headers=HEADERS).json()["id"]
        asked = {"input_file_id": file_id, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        batch = gateway.client.post("/v1/batches", json=asked, headers=HEADERS).json()
        assert runs.acquire(timeout=60)
        jump(step_s)
        goes_on.set()

        def done() -> dict[str, Any] | None:
            found = gateway.client.get(f"/v1/batches/{batch['id']}", headers=HEADERS).json()
            return found if found["status"] not in ("validating", "in_progress", "finalizing") else None

        until(lambda: done() is not None)
        ended = done()
        assert ended is not None
        assert (ended["status"], ended["request_counts"]["completed"]) == ("completed", 4)
