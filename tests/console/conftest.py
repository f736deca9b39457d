"""One gateway and one browser for all tests of the console, and what they ask of both."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from sluicegate.gateway.testing import TestApp
from tests.console.browser import CHROMIUM, MISSING, Browser, chromium
from tests.gateway.conftest import RunningGateway, running

KEY = "operator-key-for-tests"
HOSTILE = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>"\'><svg onload="window.pwned=1">'
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "city": {"type": "string"}},
    "required": ["name"],
}
SETTINGS: dict[str, Any] = {
    "telemetry": {"content": True},
    "keys": [
        {"id": "op", "key": KEY, "scopes": ["admin"]},
        {"id": "plain", "key": "plain-key-for-tests"},
        {"id": "<b>bold</b>", "key": "hostile-key-for-tests", "tenant": HOSTILE[:60]},
    ],
}
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)


@pytest.fixture(scope="session")
def gateway() -> Iterator[RunningGateway]:
    with running(SETTINGS) as found:
        for key, text in ((KEY, "Clara Winther lives in Aarhus."), ("hostile-key-for-tests", HOSTILE)):
            answer = httpx.post(
                f"{found.url}/v1/chat/completions", json=body(text), headers={"authorization": f"Bearer {key}"}
            )
            assert answer.status_code == 200, answer.text
        yield found


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        found.size(1400, 1000)
        yield found


def body(text: str, **fields: Any) -> dict[str, Any]:
    shape = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
    messages = [{"role": "user", "content": text}]
    return {"model": "bundled", "messages": messages, "response_format": shape, "max_tokens": 60, **fields}


def ask(gateway: RunningGateway, path: str, key: str | None = KEY) -> httpx.Response:
    return httpx.get(f"{gateway.url}{path}", headers={"authorization": f"Bearer {key}"} if key else {})


def enter(gateway: RunningGateway | TestApp, browser: Browser, place: str = "overview") -> None:
    """Open the console signed in."""
    browser.go(f"{gateway.url}/console")
    browser.js(f"sessionStorage.setItem('sluicegate.admin', {json.dumps(KEY)})")
    browser.go(f"{gateway.url}/console?{time.monotonic_ns()}#/{place}")
    browser.until("document.querySelector('#main h1')")
