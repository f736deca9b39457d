"""What operators do to keys, and what they are told: on the command line and under `/admin`."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.commands.cli import main
from sluicegate.gateway.testing import TestApp

ADMIN = {"authorization": "Bearer operator-secret"}
OPERATOR = {"id": "ops", "key": "operator-secret", "scopes": ["admin"]}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLUICEGATE_ACCOUNTS__PATH", str(tmp_path / "accounts.db"))
    return tmp_path / "accounts.db"


def app(path: Path, **more: Any) -> TestApp:
    accounts = {"path": str(path), "prices": {"scripted": {"input": 1000, "output": 2000}}}
    pipeline = {"admit": ["api-keys", "limits"], "record": ["ledger"], "recall": ["memory"]}
    return TestApp(pipeline=pipeline, keys=[OPERATOR], accounts=accounts, **more)


def ask(gateway: TestApp, secret: str, **fields: Any) -> Any:
    headers = {"authorization": f"Bearer {secret}", **fields.pop("headers", {})}
    body = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9, **fields}
    return gateway.client.post("/v1/chat/completions", json=body, headers=headers)


def run_keys(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["keys", *arguments]) == 0
    return capsys.readouterr().out


def test_the_life_of_a_key_on_the_command_line(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = run_keys(capsys, "create", "a", "--team", "blue", "--models", "scripted", "--concurrency", "3").strip()
    [listed] = [json.loads(line) for line in run_keys(capsys, "list", "--json").splitlines()]
    assert (listed["id"], listed["state"], listed["limits"]) == ("a", "active", {"concurrency": 3})
    assert secret not in path.read_bytes().decode("latin-1")
    rotated = run_keys(capsys, "rotate", "a").strip()
    with app(path) as gateway:
        assert ask(gateway, secret).status_code == ask(gateway, rotated).status_code == 200
    run_keys(capsys, "revoke", "a")
    with app(path) as gateway:
        assert ask(gateway, rotated).status_code == 401
    [row] = list(csv.DictReader(io.StringIO(run_keys(capsys, "usage", "--by", "key_id,team,model", "--format", "csv"))))
    assert (row["key_id"], row["team"], row["requests"]) == ("a", "blue", "2")
    assert float(row["cost"]) > 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["revoke", "nobody"], "there is no key 'nobody'"),
        (["create", "a b"], "is no id"),
        (["create", "x", "--expires", "soon"], "must be a date"),
        (["usage", "--by", "colour"], "valid names: day"),
        (["usage", "--since", "2026-9-1"], "'2026-9-1' is no day such as"),
        (["usage", "--until", "2026-02-30"], "'2026-02-30' is no day such as"),
        (["create", "x", "--routes", "v1/chat/completions"], "is no path"),
        (["create", "x", "--budget-day", "-1"], "budget_day must be a number from 0"),
    ],
)
def test_mistakes_are_one_line(
    path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    assert main(["keys", *arguments]) == 2
    assert complaint in capsys.readouterr().err


def test_without_a_store_there_is_no_place_for_keys(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SLUICEGATE_ACCOUNTS__PATH", raising=False)
    assert main(["keys", "list"]) == 2
    assert "[accounts] path" in capsys.readouterr().err
    with TestApp(keys=[OPERATOR], pipeline={"admit": ["api-keys"]}) as gateway:
        answer = gateway.client.post("/admin/keys", json={"id": "a"}, headers=ADMIN)
        assert answer.json()["error"]["code"] == "no_store"


def test_a_store_without_keys_serves_nobody(path: Path) -> None:
    with TestApp(pipeline={"admit": ["api-keys", "limits"]}, accounts={"path": str(path)}) as gateway:
        assert gateway.client.post("/v1/chat/completions", json={}).status_code in (400, 401)
        assert ask(gateway, "anything").status_code == 401
        assert gateway.client.get("/admin/keys").status_code == 401


def test_the_life_of_a_key_over_http(path: Path) -> None:
    with app(path) as gateway:
        made = gateway.client.post(
            "/admin/keys", json={"id": "a", "limits": {"requests_per_minute": 2}}, headers=ADMIN
        ).json()
        assert made["key"].startswith("sg-")
        assert [ask(gateway, made["key"]).status_code for _ in range(3)] == [200, 200, 429]
        more = gateway.client.put("/admin/keys/a/limits", json={"requests_per_minute": 4}, headers=ADMIN)
        assert more.json()["limits"] == {"requests_per_minute": 4}
        assert [ask(gateway, made["key"]).status_code for _ in range(3)] == [200, 200, 429]
        rotated = gateway.client.post("/admin/keys/a/rotate", json={"grace_s": 0}, headers=ADMIN).json()["key"]
        assert ask(gateway, made["key"]).status_code == 401
        gateway.client.delete("/admin/keys/a", headers=ADMIN)
        assert ask(gateway, rotated).status_code == 401
        listed = gateway.client.get("/admin/keys", headers=ADMIN).text
        assert '"revoked"' in listed
        assert rotated not in listed
        assert "digest" not in listed


def test_operators_alone_see_and_change_keys(path: Path) -> None:
    with app(path) as gateway:
        secret = gateway.client.post("/admin/keys", json={"id": "a"}, headers=ADMIN).json()["key"]
        headers = {"authorization": f"Bearer {secret}"}
        for method, url, body in (
            ("GET", "/admin/keys", None),
            ("POST", "/admin/keys", {"id": "b"}),
            ("DELETE", "/admin/keys/a", None),
            ("PUT", "/admin/keys/a/limits", {}),
            ("POST", "/admin/keys/a/rotate", {}),
            ("GET", "/admin/usage", None),
            ("PUT", "/admin/teams/blue", {}),
        ):
            assert gateway.client.request(method, url, json=body, headers=headers).status_code == 403, url
            assert gateway.client.request(method, url, json=body).status_code == 401, url


@pytest.mark.parametrize("name", ["models", "tools", "mcp", "routes"])
def test_an_empty_allow_list_is_refused_since_it_may_mean_none_or_all(path: Path, name: str) -> None:
    """It meant all: who took the last model from a list opened every model to the key."""
    with app(path) as gateway:
        refused = gateway.client.post("/admin/keys", json={"id": "a", name: []}, headers=ADMIN)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, name)
        assert "leave it out for all" in refused.json()["error"]["message"]
        open_to_all = gateway.client.post("/admin/keys", json={"id": "a", name: None}, headers=ADMIN)
        assert (open_to_all.status_code, open_to_all.json()[name]) == (200, [])


@pytest.mark.parametrize(
    ("method", "url", "body", "param"),
    [
        ("PUT", "/admin/keys/a/limits", {"concurrency": True}, "concurrency"),
        ("PUT", "/admin/keys/a/limits", {"tokens_per_minute": "5"}, "tokens_per_minute"),
        ("PUT", "/admin/teams/blue", {"budget_day": False}, "budget_day"),
        ("POST", "/admin/keys", {"id": "b", "limits": {"run_calls": True}}, "limits.run_calls"),
        ("POST", "/admin/keys/a/rotate", {"grace_s": True}, "grace_s"),
        ("PUT", "/admin/routes/r/weights", {"weights": {"scripted": True}}, "weights.scripted"),
        ("POST", "/v1/cache/purge", {"all_tenants": "on"}, "all_tenants"),
        ("POST", "/v1/feedback", {"request_id": "r", "score": True}, "score"),
        ("POST", "/detokenize", {"model": "scripted", "tokens": [True]}, "tokens[0]"),
    ],
)
def test_a_field_of_another_type_is_refused_and_not_converted(
    path: Path, method: str, url: str, body: Any, param: str
) -> None:
    """`true` became a limit of one, `"on"` a purge of all tenants."""
    with app(path) as gateway:
        gateway.client.post("/admin/keys", json={"id": "a"}, headers=ADMIN)
        refused = gateway.client.request(method, url, json=body, headers=ADMIN)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


def test_large_limits_are_listed_with_all_their_digits(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_keys(capsys, "create", "a", "--tokens-per-minute", "1234567", "--budget-day", "2500000.5")
    assert "tokens_per_minute 1234567,budget_day 2500000.50" in run_keys(capsys, "list")
    assert main(["keys", "create", "b", "--budget-day", "2000000000000"]) == 2
    assert "budget_day must be a number from 0 to 1000000000000, found" in capsys.readouterr().err


def test_a_key_of_the_configuration_cannot_be_changed_here(path: Path) -> None:
    with app(path) as gateway:
        refused = gateway.client.delete("/admin/keys/ops", headers=ADMIN)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "fixed_key")


def test_usage_and_cost_by_key_team_and_feature(path: Path) -> None:
    with app(path) as gateway:
        body = {"id": "a", "team": "blue"}
        secret = gateway.client.post("/admin/keys", json=body, headers=ADMIN).json()["key"]
        gateway.client.put("/admin/teams/blue", json={"budget_month": 50}, headers=ADMIN)
        ask(gateway, secret, headers={"x-sluicegate-feature": "search"})
        ask(gateway, secret, metadata={"feature": "chat"})
        ask(gateway, secret, headers={"x-sluicegate-feature": 'bad "tag"\tx'})
        gateway.wait_for_outcomes(3)
        told = gateway.client.get("/admin/usage?by=key_id,team,feature", headers=ADMIN).json()["data"]
        assert [(r["key_id"], r["team"], r["feature"], r["requests"]) for r in told] == [
            ("a", "blue", "chat", 1),
            ("a", "blue", "other", 1),
            ("a", "blue", "search", 1),
        ]
        usage = gateway.outcomes[0].usage
        assert told[0]["cost"] == pytest.approx((usage.prompt_tokens + 2 * usage.completion_tokens) / 1000)
        table = gateway.client.get("/admin/usage?by=team&format=csv", headers=ADMIN).text
        assert table.splitlines()[1].startswith("blue,3,0,0,0,")
        metrics = gateway.client.get("/metrics").text
        line = 'sluicegate_usage_requests_total{feature="search",key="a",model="scripted",team="blue"} 1.0'
        assert line in metrics
        for wrong in ("by=colour", "since=2026-02-30", "until=20261101"):
            assert gateway.client.get(f"/admin/usage?{wrong}", headers=ADMIN).status_code == 400


def test_what_hits_saved_is_counted_in_tokens_and_money(path: Path) -> None:
    with app(path) as gateway:
        for _ in range(3):
            ask(gateway, "operator-secret", temperature=0)
        gateway.wait_for_outcomes(3)
        made, *hits = gateway.outcomes
        assert [hit.saved for hit in hits] == [made.usage, made.usage]
        lines = gateway.client.get("/metrics").text.splitlines()
        saved = {
            line.split("{")[0]: float(line.split()[-1]) for line in lines if line.startswith("sluicegate_cache_saved")
        }
        usage = made.usage
        assert saved["sluicegate_cache_saved_tokens_total"] == 2 * (usage.prompt_tokens + usage.completion_tokens)
        cost = (usage.prompt_tokens + 2 * usage.completion_tokens) / 1000
        assert saved["sluicegate_cache_saved_cost_total"] == pytest.approx(2 * cost)
