"""A gateway whose every name is hostile markup, and steps that a person takes in the console."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sluicegate.gateway.testing import TestApp
from tests.console.browser import Browser

KEY = "secret-op"
MARKUP = '<img src=x onerror="window.pwned=1"><b>x</b>'
SHORT = "<b>x</b>"
KEYS = [
    {"id": "op", "key": KEY, "scopes": ["admin"]},
    {"id": SHORT, "key": "secret-a", "tenant": MARKUP, "team": MARKUP},
]
PRICES = {"scripted": {"input": 1000.0, "output": 2000.0}}
PIPELINE: dict[str, Any] = {
    "admit": ["api-keys", "limits"],
    "screen": ["pii", "injection", "blocklist"],
    "recall": ["memory"],
    "moderate": ["secrets", "pii"],
    "record": ["ledger"],
}


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@contextmanager
def operated(folder: Path, **settings: Any) -> Iterator[TestApp]:
    """Run a gateway with books, a cache, rails with hostile labels, and a policy of a hostile name."""
    tables = {
        "audit": {"path": str(folder / "audit.jsonl")},
        "review": {"path": str(folder / "reviews.sqlite3")},
        "policies": {MARKUP: {"teams": ["nobody"], "screen": {"injection": {"mode": "shadow"}}}},
        **settings,
    }
    with TestApp(
        script=["write to jane.doe@example.org"],
        pipeline=PIPELINE,
        stages={"screen": {"blocklist": {"phrases": ["walrus"], "label": SHORT, "action": "block"}}},
        keys=KEYS,
        accounts={"path": str(folder / "books.sqlite3"), "prices": PRICES},
        settings=tables,
    ) as app:
        yield app


def say(app: TestApp, text: str, key: str = "secret-a", **fields: Any) -> int:
    body = {"model": "scripted", "messages": [{"role": "user", "content": text}], "temperature": 0, **fields}
    return int(app.client.post("/v1/chat/completions", json=body, headers=bearer(key)).status_code)


def audited(app: TestApp) -> list[tuple[str, str]]:
    """Return (action, what it was about) of every change that was done, in order."""
    lines = Path(app.runtime.settings.audit.path).read_text("utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return [(entry["action"], entry["target"]) for entry in found if entry["state"] == "done"]


def enter(browser: Browser, app: TestApp, place: str) -> None:
    """Open a page of the console, signed in, and wait for its heading."""
    browser.go(f"{app.url}/console")
    browser.js(f"sessionStorage.setItem('sluicegate.admin', {json.dumps(KEY)})")
    browser.go("about:blank")
    browser.go(f"{app.url}/console#/{place}")
    browser.until("document.querySelector('#main h1') && !document.querySelector('#key')")


def fill(browser: Browser, id: str, value: str) -> None:
    """Fill a field as typing does: the page gets its `input` event."""
    found = f"document.getElementById({json.dumps(id)})"
    event = "new Event('input', { bubbles: true })"
    browser.js(f"{found}.value = {json.dumps(value)}, {found}.dispatchEvent({event}), true")


def choose(browser: Browser, id: str, value: str) -> None:
    found = f"document.getElementById({json.dumps(id)})"
    event = "new Event('change', { bubbles: true })"
    browser.js(f"{found}.value = {json.dumps(value)}, {found}.dispatchEvent({event}), true")


def press(browser: Browser, name: str, within: str = "document") -> None:
    """Click the button of this accessible name."""
    find = f"[...{within}.querySelectorAll('button')].find(b => (b.ariaLabel ?? b.textContent) === {json.dumps(name)})"
    browser.until(f"{find} && !({find}).disabled")
    browser.js(f"{find}.click()")


def answer(browser: Browser, button: str) -> None:
    """Wait for the question, and answer it."""
    browser.until("document.querySelector('dialog[open]')")
    press(browser, button, "document.querySelector('dialog')")
    browser.until("!document.querySelector('dialog')")


def shows(browser: Browser, text: str) -> None:
    browser.until(f"document.body.innerText.includes({json.dumps(text)})")


def is_harmless(browser: Browser) -> None:
    """Assert that nothing that somebody wrote became markup."""
    assert browser.js("window.pwned === undefined")
    assert browser.js("document.querySelectorAll('#main img, #main script, #main b').length") == 0
