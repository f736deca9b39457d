"""A gateway on which one request went wrong in each way that an operator is woken for."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import torch

from sluicegate.engine.failures import as_failure
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Job
from tests.gateway.upstream.servers import Act, ScriptedServer, Send, answers
from tests.gateway.upstream.servers import running as serving
from tests.waiting import LIMIT_S, until

KEY = "night-operator-key"
MARKUP = '<img src=x onerror="window.pwned=1"></script><b>x</b>\u05e9\u05dc\u05d5\u05dd' + "w" * 90
PATH = "/v1/chat/completions"
SAID = f"the disk of shard 7 is full {MARKUP}"
"""What a server tells when it fails."""


OUT_OF_MEMORY = "a step of the engine ran out of the device's memory"


def hangs() -> Act:
    async def act(server: ScriptedServer, send: Send) -> None:
        await asyncio.sleep(LIMIT_S)

    return act


def upstream(url: str, **settings: Any) -> dict[str, Any]:
    return {"url": url, "allow_private": True, "retries": 0, "attempts": 1, **settings}


def exhausted(job: Job) -> list[str]:
    """Fail as an engine does when nothing fits into its memory any more, where the message speaks of memory."""
    if "memory" in (job.request.messages[-1].content if job.request else ""):
        raise as_failure(torch.OutOfMemoryError("tried to allocate 2.00 GiB"), "a step of the engine")
    return ["Hello"]


@contextmanager
def night(folder: Path) -> Iterator[TestApp]:
    """Run a gateway to which each request names, as its feature, what becomes of it."""
    with ExitStack() as stack:
        broken, silent, busy = (
            stack.enter_context(serving(ScriptedServer(act)))
            for act in (answers(500, {"error": {"message": SAID}}), hangs(), hangs())
        )
        keys: list[dict[str, Any]] = [
            {"id": "op", "key": KEY, "scopes": ["admin", "review"]},
            {"id": "spent", "key": "spent-key", "limits": {"budget_day": 0.000001}},
            {"id": "eager", "key": "eager-key", "limits": {"requests_per_minute": 1}},
        ]
        models = {
            "broken": upstream(broken),
            "silent": upstream(silent, first_s=0.2, whole_s=0.2),
            "busy": upstream(busy),
        }
        app = TestApp(
            script=exhausted,
            pipeline={
                "admit": ["api-keys", "limits"],
                "screen": ["blocklist"],
                "generate": ["scripted", "upstream"],
                "record": ["ledger"],
            },
            stages={
                "screen": {"blocklist": {"phrases": ["halberd"], "action": "block"}},
                "generate": {"upstream": {"models": models}},
            },
            keys=keys,
            accounts={"path": str(folder / "books.sqlite3"), "prices": {"scripted": {"input": 100, "output": 100}}},
            settings={
                "telemetry": {"content": True},
                "routing": {"queues": {"busy": {"max_running": 1, "max_waiting": 0, "wait_s": 1.0}}},
            },
        )
        stack.enter_context(app)
        go_wrong(app)
        yield app


def go_wrong(app: TestApp) -> None:
    send(app, "hello", model="broken", feature="server-fails")
    send(app, "hello", model="silent", feature="server-is-silent")
    send(app, f"the halberd {MARKUP}", feature="rail-blocks")
    shape = {"name": "x", "schema": {"type": "object", "properties": {MARKUP: {"type": 7}}}}
    send(app, "hello", feature="schema-refused", response_format={"type": "json_schema", "json_schema": shape})
    for _ in range(2):
        send(app, "hello", key="spent-key", feature="over-budget")
        send(app, "hello", key="eager-key", feature="rate-limit")
    send(app, "memory", feature="out-of-memory")
    hang_up(app)


def hang_up(app: TestApp) -> None:
    """Hold the only place of a model until another caller was refused, then leave."""
    sent = json.dumps(body("hello", model="busy")).encode()
    heads = {**headers(KEY, "hung-up"), "host": "localhost", "content-type": "application/json"}
    lines = [f"POST {PATH} HTTP/1.1", *(f"{k}: {v}" for k, v in heads.items()), f"content-length: {len(sent)}", "", ""]
    address = httpx.URL(app.url)
    with socket.create_connection((address.host, address.port or 80)) as connection:
        connection.sendall("\r\n".join(lines).encode() + sent)
        until(lambda: kept(app)["live"])
        send(app, "hello", model="busy", feature="no-place")
    until(lambda: kept(app, outcome="left")["recent"])


def headers(key: str, feature: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}", "x-sluicegate-feature": feature}


def body(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": "scripted", "messages": [{"role": "user", "content": text}], **fields}


def send(app: TestApp, text: str, *, key: str = KEY, feature: str, **fields: Any) -> int:
    return int(app.client.post(PATH, json=body(text, **fields), headers=headers(key, feature)).status_code)


def kept(app: TestApp, **params: Any) -> Any:
    answer = app.client.get("/admin/console/requests", params=params, headers={"authorization": f"Bearer {KEY}"})
    assert answer.status_code == 200, answer.text
    return answer.json()
