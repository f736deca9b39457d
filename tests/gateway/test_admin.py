"""Operators' routes: who may use them, and what they do to the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import httpx
import pytest

from sluicegate.gateway.testing import TestApp

ADMIN, TENANT, OTHER = "operator-key", "tenant-key", "other-key"


def key(id: str, secret: str, **more: object) -> dict[str, object]:
    return {"id": id, "sha256": hashlib.sha256(secret.encode()).hexdigest(), **more}


KEYS = (key("ops", ADMIN, scopes=["admin"]), key("a", TENANT), key("b", OTHER, models=["another"]))


@pytest.fixture
def gateway() -> Iterator[TestApp]:
    with TestApp(pipeline={"admit": ["api-keys"], "recall": ["memory"]}, keys=KEYS, script=["yes"]) as app:
        yield app


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def ask(gateway: TestApp, secret: str, text: str = "hi") -> httpx.Response:
    body = {"model": "scripted", "temperature": 0, "messages": [{"role": "user", "content": text}]}
    return gateway.client.post("/v1/chat/completions", json=body, headers=bearer(secret))


def test_only_keys_with_the_scope_may_operate(gateway: TestApp) -> None:
    assert gateway.client.get("/admin/cache").status_code == 401
    assert gateway.client.get("/admin/cache", headers=bearer(TENANT)).status_code == 403
    assert gateway.client.get("/admin/cache", headers=bearer(ADMIN)).json()["memory"]["misses_total"] == 0


def test_without_keys_only_this_machine_may_operate() -> None:
    with TestApp(pipeline={"recall": ["memory"]}) as gateway:
        assert gateway.client.get("/admin/cache").status_code == 200
        rebound = gateway.client.get("/admin/cache", headers={"host": "evil.example"})
        assert rebound.status_code == 403
        assert gateway.client.get("/admin/cache", headers={"origin": "https://evil.example"}).status_code == 403


def test_a_purge_withdraws_the_tenants_own_answers_and_no_others(gateway: TestApp) -> None:
    ask(gateway, TENANT), ask(gateway, ADMIN)
    purged = gateway.client.post("/v1/cache/purge", json={}, headers=bearer(TENANT))
    assert purged.json() == {"purged": {"memory": 1}, "tenant": "a"}
    assert ask(gateway, TENANT).headers["x-sluicegate-cache"] == "miss"
    assert ask(gateway, ADMIN).headers["x-sluicegate-cache"] == "hit"


def test_what_is_not_its_own_a_tenant_may_not_purge(gateway: TestApp) -> None:
    ask(gateway, ADMIN)
    for asked in ({"tenant": "ops"}, {"all_tenants": True}):
        assert gateway.client.post("/v1/cache/purge", json=asked, headers=bearer(TENANT)).status_code == 403
    assert ask(gateway, ADMIN).headers["x-sluicegate-cache"] == "hit"
    everything = gateway.client.post("/v1/cache/purge", json={"all_tenants": True}, headers=bearer(ADMIN))
    assert everything.json()["purged"] == {"memory": 1}


def test_a_reported_false_hit_is_withdrawn_and_counted(gateway: TestApp) -> None:
    ask(gateway, TENANT)
    entry = ask(gateway, TENANT).headers["x-sluicegate-cache-entry"]
    report = {"entry": entry, "model": "scripted"}
    assert gateway.client.post("/v1/cache/false_hits", json=report, headers=bearer(TENANT)).status_code == 200
    assert ask(gateway, TENANT).headers["x-sluicegate-cache"] == "miss"
    assert gateway.client.get("/admin/cache", headers=bearer(ADMIN)).json()["memory"]["false_hit_reports_total"] == 1


def test_a_malformed_purge_is_refused_with_the_field(gateway: TestApp) -> None:
    wrong = gateway.client.post("/v1/cache/purge", json={"tags": "x"}, headers=bearer(TENANT))
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "tags")
    two = gateway.client.post("/v1/cache/purge", json={"tag": "x", "rails": "y"}, headers=bearer(TENANT))
    assert (two.status_code, two.json()["error"]["param"]) == (400, "tag")


def test_a_key_may_ask_its_models_only(gateway: TestApp) -> None:
    refused = ask(gateway, OTHER)
    assert refused.status_code == 404
    assert refused.json()["error"]["code"] == "model_not_found"
