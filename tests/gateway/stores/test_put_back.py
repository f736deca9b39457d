"""A database that is put back to an earlier state under running gateways: by hand from a backup, or because a copy took
over that lagged behind. What was written since is gone; what gateways are told afterwards is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from sluicegate.gateway.database import note_change
from sluicegate.gateway.testing import TestApp
from tests.gateway.routing.test_routing import weighted
from tests.gateway.stores.postgres_server import PostgresServer, needs_postgres
from tests.waiting import until

pytestmark = needs_postgres
OPERATOR = [{"id": "operator", "key": "operator", "scopes": ["admin"]}]
NAMES = ("m@1", "m@2", "small")
TABLES = "select table_name from information_schema.tables where table_schema = 'sluicegate'"


class Putter:
    """Keeps what a database holds, and puts it back in one transaction."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._tables = [str(name) for (name,) in server.ask(TABLES)]
        server.ask("drop schema if exists kept cascade; create schema kept")
        for name in self._tables:
            server.ask(f"create table kept.{name} as table sluicegate.{name}")
        [(self._last,)] = server.ask("select coalesce(max(number), 0) from sluicegate.announcements")

    def put_back(self, *, routes: dict[str, Any] | None = None) -> None:
        """Put the kept tables back. `routes` are weights that somebody sets before any gateway looks."""
        import psycopg

        with psycopg.connect(self._server.url()) as db:
            db.execute(f"truncate {', '.join(f'sluicegate.{name}' for name in self._tables)}")
            for name in sorted(self._tables, key=lambda name: name == "results"):
                db.execute(f"insert into sluicegate.{name} overriding system value table kept.{name}")
            db.execute(f"alter table sluicegate.announcements alter number restart with {int(str(self._last)) + 1}")
            for route, weights in (routes or {}).items():
                history = json.dumps([{"weights": weights, "at_s": 1.0, "by": "somebody"}])
                db.execute("delete from sluicegate.routes where name = %s", (route,))
                db.execute("insert into sluicegate.routes values (%s, %s)", (route, history))
                note_change(db, "routes")


@pytest.fixture
def pair(url: str) -> Iterator[tuple[TestApp, TestApp]]:
    settings = {"database": {"url": url, "look_s": 0.05, "patience_s": 1.0}, "routing": weighted(100, 0)}
    settings["accounts"] = {"flush_s": 0.05}
    with ExitStack() as stack:
        apps = [
            stack.enter_context(
                TestApp(
                    script=lambda job: [job.model],
                    names=NAMES,
                    pipeline={"admit": ["api-keys"], "recall": ["memory"]},
                    settings=settings,
                    keys=OPERATOR,
                )
            )
            for _ in range(2)
        ]
        for app in apps:
            app.client.headers["authorization"] = "Bearer operator"
        yield apps[0], apps[1]


def purge(app: TestApp) -> None:
    assert app.client.post("/v1/cache/purge", json={"all_tenants": True}).status_code == 200


def keeps_answers(app: TestApp) -> bool:
    """Return whether a question that was answered is not computed again. Afterwards its answer is kept."""
    asked = {"seed": 1, "temperature": 0, "stream": False, "model": "small", "key": "operator"}
    before = len(app.model.jobs)
    app.ask("kept", **asked)
    return len(app.model.jobs) == before


def test_purges_after_it_reach_all_gateways(pair: tuple[TestApp, TestApp], server: PostgresServer) -> None:
    """Their numbers are those of purges that were done before."""
    first, second = pair
    putter = Putter(server)
    for _ in range(3):
        keeps_answers(second)
        purge(first)
        until(lambda: not keeps_answers(second))
    putter.put_back()
    for _ in range(3):
        until(lambda: keeps_answers(second))
        purge(first)
        until(lambda: not keeps_answers(second))


def test_weights_of_it_and_those_set_at_once_reach_all_gateways(
    pair: tuple[TestApp, TestApp], server: PostgresServer
) -> None:
    """Also where as many changes were made since as had been made before."""
    putter = Putter(server)

    def weights(app: TestApp) -> Any:
        return app.client.get("/admin/routes").json()["data"][0]["weights"]

    assert pair[0].client.put("/admin/routes/m/weights", json={"weights": {"m@2": 1}}).status_code == 200
    until(lambda: all(weights(app) == {"m@2": 1} for app in pair))
    putter.put_back(routes={"m": {"m@1": 7.0, "m@2": 3.0}})
    until(lambda: all(weights(app) == {"m@1": 7.0, "m@2": 3.0} for app in pair))


def test_a_key_that_was_revoked_stays_so_and_that_is_said(
    pair: tuple[TestApp, TestApp], server: PostgresServer
) -> None:
    """By every gateway that knew it, until it is revoked again; a new key of its name is another."""
    first, second = pair

    def created(name: str) -> str:
        return str(first.client.post("/admin/keys", json={"id": name}).json()["key"])

    def status(app: TestApp, secret: str) -> int:
        return httpx.get(f"{app.url}/v1/models", headers={"authorization": f"Bearer {secret}"}).status_code

    secrets = {name: created(name) for name in ("gone", "stays")}
    until(lambda: all(status(app, secret) == 200 for app in pair for secret in secrets.values()))
    putter = Putter(server)
    assert first.client.delete("/admin/keys/gone").status_code == 200
    until(lambda: status(second, secrets["gone"]) == 401)
    putter.put_back()
    until(lambda: all("forgot that 1 keys are revoked" in app.client.get("/readyz").text for app in pair))
    assert [status(app, secrets["gone"]) for app in pair] == [401, 401]
    assert [status(app, secrets["stays"]) for app in pair] == [200, 200]
    assert second.client.delete("/admin/keys/gone").status_code == 200
    until(lambda: all("forgot" not in app.client.get("/readyz").text for app in pair))
    assert [status(app, secrets["gone"]) for app in pair] == [401, 401]
