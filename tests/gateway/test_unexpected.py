"""What nobody foresaw is answered in the form of its path, and ends the connection."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from sluicegate.gateway.api.body.reader import Reader
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


async def _exhausted(*given: Any) -> Any:
    raise MemoryError


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/cache/purge"])
@pytest.mark.parametrize("broken", [DirectRoutes, KeyGate, Reader])
def test_a_request_without_memory_is_refused_for_now(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, path: str, broken: type
) -> None:
    """It was an `internal_error`, which clients do not send again."""
    with TestApp() as app:
        for name in ("parse", "tree_of") if broken is Reader else ("__call__",):
            monkeypatch.setattr(broken, name, lambda self, *given: _exhausted())
        answer = _asked(app, path)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "5"
    assert "not enough memory for this request now" in answer.json()["error"]["message"]
    assert "not enough memory" in caplog.text


def test_json_that_there_is_no_memory_to_read_is_not_called_invalid() -> None:
    """A child whose memory is limited reads 60 MB of valid JSON."""
    code = (
        "import resource\n"
        "from sluicegate.plugins import exact_json\n"
        "text = b'[' + b'\"' + b'x' * 60_000_000 + b'\"]'\n"
        "size = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (size + 70_000_000,) * 2)\n"
        "try:\n"
        "    exact_json.read(text)\n"
        "except MemoryError:\n"
        "    print('no memory')\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.stdout == "no memory\n", found.stderr
