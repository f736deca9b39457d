"""What pages of the console read besides: whose entries a cache holds, what hits saved, and the lint of schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.commands.cli import main
from sluicegate.gateway.testing import TestApp

KEYS = [
    {"id": "op", "key": "secret-op", "scopes": ["admin"]},
    {"id": "a", "key": "secret-a", "tenant": "<b>north</b>"},
    {"id": "b", "key": "secret-b", "tenant": "south"},
]


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer secret-{key}"}


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_entries_are_counted_by_tenant_and_model_and_what_hits_saved(store: str, tmp_path: Path) -> None:
    stages = {"recall": {"sqlite": {"path": str(tmp_path / "cache.sqlite3")}}} if store == "sqlite" else None
    prices = {"prices": {"scripted": {"input": 1.0, "output": 2.0}}}
    pipeline = {"admit": ["api-keys"], "recall": [store], "record": ["ledger"]}
    with TestApp(keys=KEYS, pipeline=pipeline, stages=stages, accounts=prices) as app:
        for key, text in (("a", "one"), ("a", "two"), ("b", "one"), ("a", "one")):
            body = {"model": "scripted", "messages": [{"role": "user", "content": text}], "temperature": 0}
            assert app.client.post("/v1/chat/completions", json=body, headers=bearer(key)).status_code == 200
        app.wait_for_outcomes(4)
        told = app.client.get("/admin/cache/entries", headers=bearer("op")).json()
        held = {(one["tenant"], one["model"]): one["entries"] for one in told["caches"][store]}
        assert held == {("<b>north</b>", "scripted"): 2, ("south", "scripted"): 1}
        assert all(one["bytes"] > 0 for one in told["caches"][store])
        [saved] = told["saved"]
        assert saved["model"] == "scripted"
        assert saved["tokens"] > 0
        assert saved["cost"] > 0
        purged = app.client.post("/v1/cache/purge", json={"tenant": "<b>north</b>"}, headers=bearer("op"))
        assert purged.json()["purged"] == {store: 2}
        told = app.client.get("/admin/cache/entries", headers=bearer("op")).json()
        assert [one["tenant"] for one in told["caches"][store]] == ["south"]


SCHEMAS: dict[str, Any] = {
    "good": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    "unserved": {"type": 7},
    "unknown format": {"type": "string", "format": "colour"},
    "impossible": {"type": "string", "maxLength": -1},
}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_route_says_what_the_command_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with TestApp() as app:
        body, kind = json.dumps({"schema": SCHEMAS[name]}), {"content-type": "application/json"}
        told = app.client.post("/admin/lint", content=body, headers=kind)
    status = main(["lint", json.dumps(SCHEMAS[name]), "--json"])
    assert told.status_code == 200
    assert told.json() == json.loads(capsys.readouterr().out)
    assert told.json()["serves"] is (status == 0)


@pytest.mark.parametrize("body", [{}, {"schema": 7}, {"schema": None}, {"schema": {}, "more": 1}, []])
def test_what_is_no_schema_is_refused(body: Any) -> None:
    with TestApp() as app:
        assert app.client.post("/admin/lint", json=body).status_code == 400


@pytest.mark.parametrize(
    ("schema", "code"),
    [(nested(150), "nested_too_deeply"), ({"properties": {"\ud800": {}}}, "invalid_json")],
    ids=["deep", "half a pair"],
)
def test_what_no_request_could_bring_is_refused_as_there(schema: Any, code: str) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "given", "schema": schema}}
    asked = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}], "response_format": form}
    kind = {"content-type": "application/json"}
    with TestApp() as app:
        for path, body in (("/admin/lint", {"schema": schema}), ("/v1/chat/completions", asked)):
            told = app.client.post(path, content=json.dumps(body), headers=kind)
            assert (told.status_code, told.json()["error"]["code"]) == (400, code)


def test_a_schema_that_is_dear_to_compile_keeps_nobody_waiting_for_ever() -> None:
    """Numbers stay whole, and what is beyond the limits is told as an error of the schema."""
    with TestApp() as app:
        for schema in (nested(90), {"enum": [f"value {n}" for n in range(20_000)]}, {"const": 12345678901234567890123}):
            told = app.client.post("/admin/lint", json={"schema": schema})
            assert told.status_code == 200, told.text
            assert isinstance(told.json()["serves"], bool)
