"""No prompt, answer or key is in a log line, metric or error: planted, and looked for everywhere. (Spans are looked at
in `test_telemetry.py`, as they leave.)"""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest

from sluicegate.gateway.testing import TestApp
from tests.gateway.upstream.servers import Act, ScriptedServer, answers, running, says

KEY, PROMPT, ANSWER, THEIRS = (
    "sk-planted-key-7Qx",
    "planted prompt 8Wy",
    "planted answer 9Ez",
    "sk-planted-upstream-3Rt",
)
PLANTED = (KEY, PROMPT, ANSWER, THEIRS)
HEADERS = {"authorization": f"Bearer {KEY}"}


def everything_said(app: TestApp, log: pytest.LogCaptureFixture) -> str:
    """Return what leaves the process beside answers."""
    lines = [f"{record.getMessage()} {record.exc_text or ''} {record.exc_info or ''}" for record in log.records]
    return "\n".join([*lines, app.client.get("/metrics").text])


def leaks(said: str) -> list[str]:
    return [planted for planted in PLANTED if planted in said]


def ask(app: TestApp, **fields: Any) -> httpx.Response:
    body = {"model": "far", "messages": [{"role": "user", "content": PROMPT}], **fields}
    answer: httpx.Response = app.client.post("/v1/chat/completions", json=body, headers=HEADERS)
    return answer


@pytest.mark.parametrize(
    "act",
    [says(ANSWER), answers(500, {"error": {"message": f"{ANSWER} {THEIRS}"}}), answers(401), says("{", ANSWER)],
    ids=["answer", "failure", "refusal", "broken"],
)
def test_nothing_planted_is_said_anywhere(
    act: Act, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys with limits, rails, an upstream with a key of its own; requests that work, fail, are refused, are cut."""
    monkeypatch.setenv("THEIR_KEY", THEIRS)
    caplog.set_level(logging.DEBUG)
    for name in ("httpx", "httpcore", "asyncio"):  # the test's own client
        caplog.set_level(logging.CRITICAL, name)
    with running(ScriptedServer(act)) as url:
        model = {"url": url, "allow_private": True, "api_key_env": "THEIR_KEY", "retries": 0}
        app = TestApp(
            pipeline={
                "admit": ["api-keys", "limits"],
                "screen": ["secrets", "pii"],
                "moderate": ["secrets"],
                "generate": ["upstream"],
                "constrain": ["grammar"],
                "record": ["ledger", "metrics", "log"],
            },
            stages={"generate": {"upstream": {"models": {"far": model}}}},
            keys=[{"id": "a", "key": KEY, "limits": {"requests_per_minute": 4}}],
        )
        with app:
            schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
            refused = [
                ask(app),
                ask(app, response_format=schema),
                ask(app, temperature=9, user=PROMPT),
                ask(app, top_k=3),
                ask(app),
                ask(app),
                app.client.post("/v1/chat/completions", content=PROMPT.encode(), headers=HEADERS),
                app.client.post("/v1/chat/completions", json={}, headers={"authorization": f"Bearer {KEY}x"}),
            ]
            errors = "\n".join(answer.text for answer in refused if answer.status_code != 200)
            assert not leaks(errors)
            assert not leaks(everything_said(app, caplog))
            assert not leaks(repr(app.runtime.settings))
