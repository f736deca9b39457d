"""A rollout of several gateways that share PostgreSQL: one decides, all are heard, and none is missed."""

from __future__ import annotations

import errno
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.database import Database, DatabaseUnavailable
from sluicegate.gateway.rollout import rollouts
from sluicegate.gateway.rollout.observation import Observation
from sluicegate.gateway.rollout.store import RolloutStore
from sluicegate.gateway.settings import DatabaseSettings
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Job
from tests.gateway.stores.postgres_server import PostgresServer, needs_postgres
from tests.waiting import until

pytestmark = needs_postgres
GOOD, NEW = "m@1", "m@2"
OPERATOR = [{"id": "operator", "key": "operator", "scopes": ["admin"]}]
ROLLOUT = {"baseline": GOOD, "canary": NEW, "steps": [0.5], "hold_s": 3600.0, "checks": {"must_not_match": ["rubbish"]}}


@pytest.fixture(autouse=True)
def quick_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollouts, "TICK_S", 0.05)
    monkeypatch.setattr(rollouts, "LEASE_S", 1.0)


Script = Callable[[Job], list[str]]


def said_by(job: Job) -> list[str]:
    return ["rubbish" if job.model == NEW else "sense"]


@contextmanager
def rolling(url: str, audit: Path, script: Script = said_by) -> Iterator[TestApp]:
    with TestApp(script=script, names=(GOOD, NEW), settings=_settings(url, audit), keys=OPERATOR) as app:
        app.client.headers["authorization"] = "Bearer operator"
        yield app


def _settings(url: str, audit: Path) -> dict[str, Any]:
    return {
        "database": {"url": url, "look_s": 0.05, "patience_s": 1.0},
        "routing": {"models": {"m": {"sticky": "none", "rollout": ROLLOUT}}},
        "audit": {"path": str(audit)},
    }


def look(app: TestApp) -> dict[str, Any]:
    found: dict[str, Any] = app.client.get("/admin/rollouts/m").json()
    return found


def test_requests_to_all_gateways_decide_once_and_one_of_them_leads(url: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        apps = [stack.enter_context(rolling(url, tmp_path / "audit.jsonl")) for _ in range(3)]
        until(lambda: all(look(app)["pending"] is None for app in apps))
        until(lambda: sum(app.runtime.rollouts.leads for app in apps) == 1)
        for number in range(120):
            apps[number % 3].ask(model="m", stream=False)
        until(lambda: all(look(app)["state"] == "stopped" for app in apps))
        for app in apps:
            until(lambda app=app: app.client.get("/admin/routes").json()["data"][0]["weights"] == {GOOD: 1, NEW: 0})
            assert look(app)["decisions"] == look(apps[0])["decisions"]
        assert sum(app.runtime.rollouts.leads for app in apps) == 1
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text("utf-8").splitlines()]
    assert [line["action"] for line in lines if line["state"] == "done" and line["action"].startswith("rollout.")] == [
        "rollout.start",
        "rollout.stop",
    ]


def test_another_leads_when_the_leader_is_gone_and_goes_on_with_what_was_seen(url: str, tmp_path: Path) -> None:
    with rolling(url, tmp_path / "audit.jsonl") as second:
        with rolling(url, tmp_path / "audit.jsonl") as first:
            until(lambda: first.runtime.rollouts.leads or second.runtime.rollouts.leads)
            until(lambda: look(first)["pending"] is None and look(second)["pending"] is None)
            leader = first if first.runtime.rollouts.leads else second
            for _ in range(12):
                leader.ask(model="m", stream=False)
            until(lambda: _count(second) == 12 or look(second)["state"] == "stopped")
        until(lambda: second.runtime.rollouts.leads)
        began = look(second)
        for _ in range(150):
            if look(second)["state"] == "stopped":
                break
            second.ask(model="m", stream=False)
        until(lambda: look(second)["state"] == "stopped")
        assert look(second)["began_s"] == began["began_s"]


def test_a_claim_that_is_under_way_at_the_stop_keeps_nobody_from_leading(
    server: PostgresServer, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was written after its gateway had left, and held for the whole lease."""
    lead, has_begun, may_claim = RolloutStore.lead, threading.Event(), threading.Event()

    def late(store: RolloutStore) -> bool:
        has_begun.set()
        assert may_claim.wait(60)
        return lead(store)

    monkeypatch.setattr(RolloutStore, "lead", late)
    app = TestApp(script=said_by, names=(GOOD, NEW), settings=_settings(url, tmp_path / "audit.jsonl"), keys=OPERATOR)
    app.__enter__()
    stopping = threading.Thread(target=app.__exit__)
    try:
        assert has_begun.wait(60)
        ticking = app.runtime.rollouts._ticking
        stopping.start()
        until(lambda: ticking is None or ticking.done())
    finally:
        may_claim.set()
        stopping.join()
    assert server.ask("select gateway from sluicegate.leaders", url.rpartition("/")[2]) == []


def test_a_database_that_is_away_loses_no_observation(own_server: PostgresServer, tmp_path: Path) -> None:
    with rolling(own_server.new(), tmp_path / "audit.jsonl") as app:
        until(lambda: look(app)["pending"] is None)
        app.client.post("/admin/rollouts/m/hold", json={})
        own_server.kill()
        for _ in range(5):
            assert app.ask(model="m", stream=False).status == 200
        until(lambda: bool(app.runtime.rollouts.troubles()))
        refused = app.client.post("/admin/rollouts/m/stop", json={})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "database_unavailable")
        own_server.start()
        until(lambda: _count(app) == 5)
        until(lambda: not app.runtime.rollouts.troubles())


def test_a_write_that_is_kept_though_its_answer_is_lost_counts_once(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader takes what was written before it is written again; further requests come meanwhile."""
    written, lost = RolloutStore.add, [True] * 8

    def add(store: RolloutStore, batch: int, seen: Sequence[Observation]) -> None:
        written(store, batch, seen)
        if lost:
            lost.pop()
            raise DatabaseUnavailable(errno.ETIMEDOUT, "no answer came")

    # Both versions answer alike: a rollout that is held stops all the same for a version that is worse.
    path = tmp_path / "audit.jsonl"
    with rolling(url, path, lambda _: ["sense"]) as first, rolling(url, path, lambda _: ["sense"]) as second:
        until(lambda: look(first)["pending"] is None and look(second)["pending"] is None)
        first.client.post("/admin/rollouts/m/hold", json={})
        until(lambda: look(second)["state"] == "held")
        monkeypatch.setattr(RolloutStore, "add", add)
        for number in range(12):
            (first, second)[number % 2].ask(model="m", stream=False)
        until(lambda: not lost)
        for app in (first, second):
            app.ask(model="m", stream=False)
            until(lambda app=app: app.runtime.rollouts.stats()["observations_waiting"] == 0)
        until(lambda: _count(first) == _count(second) >= 14)
        assert _count(first) == 14


def test_tables_of_an_earlier_release_are_brought_to_this_one(url: str) -> None:
    from sluicegate.gateway.database.migrations import STEPS, migrate

    database = Database(DatabaseSettings(url=url))
    database.open()
    try:
        with database.transaction() as db:
            db.execute("drop schema sluicegate cascade")
            migrate(db.execute, STEPS[:1])
            assert migrate(db.execute) == len(STEPS) - 1
            db.execute("select count(*) from sluicegate.rollouts, sluicegate.recordings")
    finally:
        database.close()


def _count(app: TestApp) -> int:
    found = look(app)["metrics"]["failures"]
    return int(found["canary"]["n"] + found["baseline"]["n"])
