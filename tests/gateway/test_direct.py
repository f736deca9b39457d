"""The routes that generate are reached past the router, and nobody can tell."""

from __future__ import annotations

from typing import Any

import pytest

from sluicegate.gateway.api.builtin_dialects import DIALECTS
from sluicegate.gateway.testing import TestApp

CHAT = "/v1/chat/completions"
BODY = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}
KEY = {"id": "a", "key": "sk-a", "limits": {"requests_per_minute": 5}}


class Router:
    """Counts what reaches it."""

    def __init__(self, app: TestApp) -> None:
        self.seen: list[str] = []
        inner = app.app.router.app

        async def counted(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                self.seen.append(scope["path"])
            await inner(scope, receive, send)

        app.app.router.middleware_stack = counted  # type: ignore[attr-defined]


@pytest.fixture
def app() -> Any:
    with TestApp() as made:
        yield made


@pytest.mark.parametrize("path", [dialect.path for dialect in DIALECTS])
def test_every_direct_path_is_a_documented_route(app: TestApp, path: str) -> None:
    assert "post" in app.client.get("/openapi.json").json()["paths"][path]


def test_a_request_does_not_pass_the_router(app: TestApp) -> None:
    router = Router(app)
    assert app.client.post(CHAT, json=BODY).status_code == 200
    assert router.seen == []
    assert app.client.get("/healthz").status_code == 200
    assert router.seen == ["/healthz"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "invalid_json"),
        (b'{"model": 3, "messages": []}', 400, "invalid_parameter"),
        (b'{"model": "nobody", "messages": [{"role": "user", "content": "hi"}]}', 404, "model_not_found"),
    ],
)
def test_errors_are_those_of_the_route(app: TestApp, body: bytes, status: int, code: str) -> None:
    answer = app.client.post(CHAT, content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.headers["x-request-id"]


def test_errors_on_the_other_dialects_path_have_its_shape(app: TestApp) -> None:
    assert app.client.post("/v1/messages", content=b"{").json()["type"] == "error"


def test_another_method_is_refused_by_the_router(app: TestApp) -> None:
    answer = app.client.get(CHAT)
    assert (answer.status_code, answer.json()["error"]["code"]) == (405, "method_not_allowed")


def test_limits_are_told_and_held() -> None:
    headers = {"authorization": "Bearer sk-a"}
    pipeline = {"admit": ["api-keys", "limits"], "record": ["ledger"]}
    with TestApp(keys=[KEY], pipeline=pipeline) as app:
        first = app.client.post(CHAT, json=BODY, headers=headers)
        assert first.headers["x-ratelimit-remaining-requests"] == "4"
        statuses = [app.client.post(CHAT, json=BODY, headers=headers).status_code for _ in range(5)]
        assert statuses == [200] * 4 + [429]


def test_a_failure_nobody_foresaw_is_hidden_and_logged(app: TestApp, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*arguments: Any, **named: Any) -> Any:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(app.runtime.pipeline, "open", broken)
    answer = app.client.post(CHAT, json=BODY)
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.json()["error"]["type"] == "server_error"
