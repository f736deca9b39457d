"""A gateway of which every page of the console has something to show, its names chosen by who asks for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sluicegate.gateway.commands.cli import main
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Job
from tests.console.browser import Browser
from tests.waiting import LIMIT_S, until

KEY = "operator-key-for-tests"
CALLER = "caller-key-for-tests"
MARKUP = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>"\'<b>'
RIGHT_TO_LEFT = "שלום مرحبا"
TURNED = f"\u202e{RIGHT_TO_LEFT}"
"""What follows it is read from right to left, unless somebody stops that; no name may hold it."""
LONG = "x" * 60
OLD, NEW = "assistant@1", "assistant@2"
SECRET = "0" * 64
EMAIL = "jane.doe@example.org"
INVOICE = json.dumps(
    {
        "invoice_number": "TM-40917",
        "supplier": "Tidewater Marine Supply",
        "customer": "Kestrel Boatworks",
        "issue_date": "2026-03-14",
        "total": 1284.5,
        "currency": "EUR",
        "paid": False,
    }
)
"""What the schema of the playground asks for."""


@dataclass(frozen=True)
class Names:
    """Whatever somebody else may choose in the console."""

    key: str
    tenant: str
    team: str
    feature: str
    policy: str
    label: str
    text: str
    suite: str
    model: str
    """Of a server that is not there."""
    asked: str
    """A model that a caller asks for and nobody serves."""
    route: str


HOSTILE = Names(
    key=f"<b>{RIGHT_TO_LEFT}{LONG}"[:64],
    tenant=f"{MARKUP}{LONG}",
    team=f"{RIGHT_TO_LEFT}{MARKUP}",
    feature="search",
    policy=f"{MARKUP}{RIGHT_TO_LEFT}",
    label="<b>x</b>",
    text=f"{MARKUP} {TURNED} {LONG}{LONG}",
    suite=f"{MARKUP}{TURNED}{LONG}",
    model=f"{MARKUP}{RIGHT_TO_LEFT}{LONG}",
    asked=f"{MARKUP}{TURNED}" + "w" * 10_000,
    route=f"</script>{MARKUP}{RIGHT_TO_LEFT}{LONG}",
)
PIPELINE = {
    "admit": ["api-keys", "limits"],
    "screen": ["pii", "injection", "blocklist"],
    "recall": ["memory"],
    "generate": ["scripted", "upstream"],
    "moderate": ["secrets", "pii", "blocklist"],
    "record": ["ledger"],
}
PLACES = (
    "overview",
    "requests",
    "models",
    "rails",
    "reviews",
    "keys",
    "cache",
    "evaluations",
    "playground",
    "trace/{refused}",
    "trace/{failed}",
    "trace/{answered}",
    "evaluations/{report}",
)
"""Every page, and those that show one thing, under the names that `Whole.places` fills in."""


@dataclass(frozen=True)
class Whole:
    app: TestApp
    names: Names

    @property
    def url(self) -> str:
        return self.app.url

    def places(self) -> dict[str, str]:
        """Return the address of each of `PLACES`."""
        found = {outcome: self.rows(outcome=outcome)[0]["id"] for outcome in ("refused", "failed", "answered")}
        reports = self.read("/admin/evaluations")["data"]
        found["report"] = next(one["name"] for one in reports if not one["error"])
        return {place: place.format(**found) for place in PLACES}

    def rows(self, **params: Any) -> list[dict[str, Any]]:
        return list(self.read("/admin/console/requests", **params)["recent"])

    def read(self, path: str, **params: Any) -> Any:
        answer = self.app.client.get(path, params=params, headers=bearer(KEY))
        assert answer.status_code == 200, answer.text
        return answer.json()

    def ask(self, text: str, *, key: str = CALLER, **fields: Any) -> int:
        body = {"model": "scripted", "messages": [{"role": "user", "content": text}], "temperature": 0, **fields}
        heads = {**bearer(key), "x-sluicegate-feature": self.names.feature}
        return int(self.app.client.post("/v1/chat/completions", json=body, headers=heads, timeout=LIMIT_S).status_code)


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@contextmanager
def whole(folder: Path, names: Names) -> Iterator[Whole]:
    """Scripted models answer, and a server that is not there does not."""

    def script(job: Job) -> list[str]:
        asked = "" if job.request is None else job.request.messages[-1].content
        if job.request is not None and job.request.constraint is not None:
            return [INVOICE]
        return ["the nightjar"] if "nightjar" in asked else [f"write to {EMAIL}"]

    app = TestApp(
        script=script,
        names=("scripted", OLD, NEW),
        pipeline=PIPELINE,
        stages=_stages(names),
        keys=_keys(names),
        accounts={"path": str(folder / "books.sqlite3"), "prices": _prices()},
        settings=_settings(folder, names),
    )
    (folder / "reports").mkdir(exist_ok=True)
    with app:
        found = Whole(app, names)
        _traffic(found)
        _evaluated(folder, found)
        until(lambda: len(found.rows(outcome="failed")) > 0, 60)
        yield found


def _stages(names: Names) -> dict[str, Any]:
    far = {"url": "http://127.0.0.1:9/v1", "allow_private": True, "retries": 0, "failures_to_open": 1, "pause_s": 600}
    return {
        "screen": {"blocklist": {"phrases": ["walrus"], "label": names.label, "action": "block"}},
        "moderate": {"blocklist": {"phrases": ["nightjar"], "label": names.label, "action": "escalate"}},
        "generate": {"upstream": {"models": {names.model: far}}},
    }


def _keys(names: Names) -> list[dict[str, Any]]:
    caller = {"id": names.key, "key": CALLER, "tenant": names.tenant, "team": names.team}
    return [{"id": "operator", "key": KEY, "scopes": ["admin", "review"]}, caller]


def _prices() -> dict[str, Any]:
    return {name: {"input": 100.0, "output": 300.0} for name in ("scripted", OLD, NEW)}


def _settings(folder: Path, names: Names) -> dict[str, Any]:
    rollout = {"baseline": OLD, "canary": NEW, "steps": [0.25, 0.5], "hold_s": 3600.0}
    routes = {
        "assistant": {"sticky": "none", "rollout": rollout},
        names.route: {"weights": {OLD: 90, NEW: 10}},
    }
    return {
        "audit": {"path": str(folder / "audit.jsonl")},
        "feedback": {"secret": SECRET},
        "review": {"path": str(folder / "reviews.sqlite3")},
        "policies": {names.policy: {"teams": ["nobody"], "screen": {"injection": {"mode": "shadow"}}}},
        "routing": {"models": routes, "state": str(folder / "routes.json")},
        "telemetry": {
            "content": True,
            "history": str(folder / "history"),
            "history_secret": SECRET,
            "evaluations": str(folder / "reports"),
        },
    }


def _traffic(found: Whole) -> None:
    names, client = found.names, found.app.client
    until(lambda: len([w for w in found.read("/admin/routes")["data"][0]["weights"].values() if w]) == 2)
    shape = {"type": "object", "properties": {names.label: {"enum": [names.text]}}, "description": names.text}
    tool = {"type": "function", "function": {"name": "look_up", "description": names.text, "parameters": shape}}
    for number in range(12):
        found.ask(f"{names.text} {number % 9}", model="assistant", stream=number % 2 == 0)
    for text in ("hello", "hello", names.text, f"{names.text} of {EMAIL}", f"the walrus {names.text}", "a nightjar"):
        found.ask(text)
    found.ask(names.text, tools=[tool], user=names.text[:200])
    found.ask("hello", model=names.asked)
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {**shape, "required": [names.label]}}}
    for _ in range(2):
        found.ask("hello", model=names.model, response_format=form)
    _said(found)
    limits = {"requests_per_minute": 600, "budget_day": 0.05, "budget_month": 20}
    client.post("/admin/keys", json={"id": "mobile-app", "team": names.team, "limits": limits}, headers=bearer(KEY))
    client.post("/admin/keys", json={"id": "nightly-batch", "scopes": ["pii"]}, headers=bearer(KEY))
    client.delete("/admin/keys/nightly-batch", headers=bearer(KEY))
    client.put(
        f"/admin/teams/{quote(names.team, safe='')}", json={"budget_day": 0.02, "budget_month": 1}, headers=bearer(KEY)
    )
    report = {"text": f"{names.text} is harmless", "rail": "pii", "note": names.text[:200]}
    answered = client.post("/v1/safety/false_positives", json=report, headers=bearer(CALLER))
    assert answered.status_code == 200, answered.text
    changed = client.put(
        f"/admin/routes/{quote(names.route, safe='')}/weights",
        json={"weights": {OLD: 80, NEW: 20}},
        headers=bearer(KEY),
    )
    assert changed.status_code == 200, changed.text


def _said(found: Whole) -> None:
    """Give feedback on answers, as those who got them."""
    for score, label in ((1, "right"), (0.25, found.names.label)):
        body = {"model": "scripted", "messages": [{"role": "user", "content": f"hello {score}"}]}
        id = found.app.client.post("/v1/chat/completions", json=body, headers=bearer(CALLER)).json()["id"]
        given = {"request_id": id, "score": score, "label": label, "comment": found.names.text}
        answered = found.app.client.post("/v1/feedback", json=given, headers=bearer(CALLER))
        assert answered.status_code == 200, answered.text


def _evaluated(folder: Path, found: Whole) -> None:
    """Write a report of two versions, and a file that is none."""
    names, suite = found.names, folder / "suite.jsonl"
    with suite.open("w", encoding="utf-8") as file:
        for number, kind in enumerate(["contains", "answered", "answered"]):
            case = {"id": f"{names.suite} {number}", "prompt": f"{names.text} {number}", "expected": names.text}
            file.write(json.dumps({**case, "checks": [kind], "tags": [names.label]}) + "\n")
    (folder / "reports" / "broken.json").write_text("{")
    versions = ("--variant", OLD, "--variant", NEW)
    main(["eval", str(suite), "--url", found.url, "--key", KEY, "--json", "--save", str(folder / "reports"), *versions])


def enter(browser: Browser, found: Whole, place: str) -> None:
    """Open a page of the console, signed in."""
    if not browser.js("location.href").startswith(f"{found.url}/console"):
        browser.go(f"{found.url}/console")
        browser.js(f"sessionStorage.setItem('sluicegate.admin', {json.dumps(KEY)})")
    browser.go("about:blank")
    browser.go(f"{found.url}/console#/{place}")
    browser.until("document.querySelector('#main h1') && !document.querySelector('#key')")
