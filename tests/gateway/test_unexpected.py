"""What nobody foresaw is answered in the form of its path, and ends the connection."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from sluicegate.gateway.api.direct import DirectRoutes
from sluicegate.gateway.http.key_gate import KeyGate
from sluicegate.gateway.testing import TestApp

BODY = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}


async def _fails(*given: Any) -> Any:
    raise RuntimeError("secret detail")


def _asked(app: TestApp, path: str) -> httpx.Response:
    client = TestClient(app.app, base_url="http://127.0.0.1", raise_server_exceptions=False)
    return client.post(path, json=BODY)


@pytest.mark.parametrize(("path", "named"), [("/v1/chat/completions", "x-request-id"), ("/v1/messages", "request-id")])
@pytest.mark.parametrize("broken", [DirectRoutes, KeyGate])
def test_it_is_a_500_in_the_form_of_its_path(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, path: str, named: str, broken: type
) -> None:
    with TestApp() as app:
        monkeypatch.setattr(broken, "__call__", lambda self, *given: _fails())
        answer = _asked(app, path)
    assert answer.status_code == 500
    assert answer.headers["connection"] == "close"
    assert answer.headers[named]
    assert "the log of the gateway says why" in answer.json()["error"]["message"]
    assert "secret detail" not in answer.text
    assert "secret detail" in caplog.text
    assert (answer.json().get("type") == "error") is (path == "/v1/messages")
