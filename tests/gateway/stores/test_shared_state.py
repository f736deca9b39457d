"""Reviews, weights, models, reloads and purges: whichever gateway an operator reaches, all of them follow."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from sluicegate.gateway.config import load
from sluicegate.gateway.database import Database, postgres
from sluicegate.gateway.database.migrations import STEPS, migrate
from sluicegate.gateway.review.items import FalsePositiveReport
from sluicegate.gateway.review.stores.postgres import PostgresReviewStore
from sluicegate.gateway.settings import DatabaseSettings
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import ConfigurationError
from tests.gateway import test_review as reviews
from tests.gateway.routing.test_routing import weighted, who_answers
from tests.gateway.stores.postgres_server import PostgresServer, needs_postgres
from tests.waiting import until

pytestmark = needs_postgres
UPSTREAM = {"url": "http://127.0.0.1:1/v1", "context_length": 512, "allow_private": True}
OPERATOR = [{"id": "operator", "key": "operator", "scopes": ["admin"]}]
VERSIONS = ("m@1", "m@2", "small")


def shared(url: str, **more: Any) -> dict[str, Any]:
    return {"database": {"url": url, "look_s": 0.05, "patience_s": 1.0}, **more}


def said_by(job: Any) -> list[str]:
    return [job.model]


def routed(url: str, **more: Any) -> AbstractContextManager[TestApp]:
    settings = shared(url, routing=weighted(100, 0))
    return entered(TestApp(script=said_by, names=VERSIONS, settings=settings, keys=OPERATOR, **more))


@contextmanager
def entered(app: TestApp) -> Iterator[TestApp]:
    """Run a gateway with its client in the role of the operator."""
    with app:
        app.client.headers["authorization"] = "Bearer operator"
        yield app


@pytest.fixture
def three(url: str) -> Iterator[list[TestApp]]:
    with ExitStack() as stack:
        yield [stack.enter_context(routed(url)) for _ in range(3)]


def weights(app: TestApp) -> dict[str, float]:
    return dict(app.client.get("/admin/routes").json()["data"][0]["weights"])


# --- weights ------------------------------------------------------------------------------------------------------


def test_a_change_of_weights_and_its_rollback_through_another_gateway_reach_all(three: list[TestApp]) -> None:
    first, second, third = three
    assert first.client.put("/admin/routes/m/weights", json={"weights": {"m@2": 1}}).status_code == 200
    for app in three:
        until(lambda app=app: weights(app) == {"m@2": 1})
        assert who_answers(app) == "m@2"
    back = third.client.post("/admin/routes/m/rollback")
    assert back.json()["weights"] == {"m@1": 100, "m@2": 0}
    for app in three:
        until(lambda app=app: weights(app) == {"m@1": 100, "m@2": 0})
        assert who_answers(app) == "m@1"
    assert second.client.post("/admin/routes/m/rollback").status_code == 400


def test_changes_at_the_same_time_are_one_history(three: list[TestApp]) -> None:
    """Nothing is lost between reading and writing."""

    def change(number: int) -> int:
        body = {"weights": {"m@1": number + 1, "m@2": 1}}
        app = three[number % 3]  # by a connection of its own: one that was idle may be closing
        return httpx.put(f"{app.url}/admin/routes/m/weights", json=body, headers=app.client.headers).status_code

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(change, range(15))) == {200}
    until(lambda: all(len(history(app)) == 16 for app in three))
    assert history(three[0]) == history(three[1]) == history(three[2])
    assert {one["weights"]["m@1"] for one in history(three[0])[1:]} == {number + 1 for number in range(15)}


def history(app: TestApp) -> list[dict[str, Any]]:
    return [
        {**one, "at_s": 0} if one["by"] == "configuration" else one
        for one in app.client.get("/admin/routes").json()["data"][0]["history"]
    ]


def test_weights_outlive_every_gateway_and_a_database_that_is_away_changes_none(
    own_server: PostgresServer,
) -> None:
    url = own_server.new()
    with routed(url) as app:
        app.client.put("/admin/routes/m/weights", json={"weights": {"m@2": 1}})
    with routed(url) as app:
        assert who_answers(app) == "m@2"
        own_server.kill()
        refused = app.client.post("/admin/routes/m/rollback")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "database_unavailable")
        assert who_answers(app) == "m@2"
        own_server.start()
        until(lambda: app.client.post("/admin/routes/m/rollback").status_code == 200)
        assert who_answers(app) == "m@1"


def test_a_database_that_stands_still_holds_nobody_up_for_long(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers go on; changes are refused after a while; all is as before once it moves again."""
    monkeypatch.setattr(postgres, "CALL_S", 0.5)
    with routed(own_server.new()) as app:
        own_server.freeze()
        assert who_answers(app) == "m@1"
        refused = app.client.post("/admin/routes/m/rollback")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "database_unavailable")
        assert who_answers(app) == "m@1"
        own_server.thaw()
        until(lambda: app.client.put("/admin/routes/m/weights", json={"weights": {"m@2": 1}}).status_code == 200)
        assert who_answers(app) == "m@2"


# --- models -------------------------------------------------------------------------------------------------------


def hosting(url: str) -> AbstractContextManager[TestApp]:
    app = TestApp(
        pipeline={"generate": ["scripted", "upstream"]},
        stages={"generate": {"upstream": {"models": {"far": UPSTREAM}}}},
        settings=shared(url),
        keys=OPERATOR,
    )
    return entered(app)


def served(app: TestApp) -> set[str]:
    return {model["id"] for model in app.client.get("/admin/models").json()["data"]}


def test_models_come_and_go_at_all_gateways_and_stay_after_a_restart(url: str) -> None:
    with hosting(url) as first, hosting(url) as second:
        added = first.client.post("/admin/models", json={"settings": {**UPSTREAM, "name": "far@2"}})
        assert added.status_code == 200, added.text
        until(lambda: "far@2" in served(second))
        assert second.client.delete("/admin/models/far").status_code == 200
        until(lambda: served(first) == {"scripted", "far@2"})
    with hosting(url) as again:
        assert served(again) == {"scripted", "far@2"}


def test_a_model_that_cannot_be_served_here_is_said(url: str) -> None:
    """By `/readyz`, and the gateway goes on."""
    with hosting(url) as app:
        database = app.runtime.database
        assert database is not None
        database.execute('insert into sluicegate.models values (\'lame\', 1, \'{"name": "lame", "url": 7}\')')
        database.execute("insert into sluicegate.changes values ('models', 77)")
        until(lambda: "model lame" in app.client.get("/readyz").text)
        assert app.client.get("/readyz").status_code == 200
        assert app.ask(stream=False).status == 200


# --- what is done once --------------------------------------------------------------------------------------------


def test_a_purge_reaches_the_memory_of_every_gateway(url: str) -> None:
    with ExitStack() as stack:
        made = [TestApp(pipeline={"recall": ["memory"]}, settings=shared(url), keys=OPERATOR) for _ in range(2)]
        apps = [stack.enter_context(entered(app)) for app in made]
        asked = {"seed": 1, "temperature": 0, "stream": False}
        for app in apps:
            for _ in range(2):
                app.ask("kept", **asked)
        assert [len(app.model.jobs) for app in apps] == [1, 1]
        assert apps[0].client.post("/v1/cache/purge", json={"all_tenants": True}).status_code == 200

        def misses() -> bool:
            apps[1].ask("kept", **asked)
            return len(apps[1].model.jobs) == 2

        until(misses)


def test_a_reload_reaches_every_gateway(url: str) -> None:
    """Each reads its own configuration again."""
    tables = {"admit": [], "screen": [], "recall": [], "constrain": ["unconstrained"], "generate": ["scripted"]}

    def settings(phrase: str) -> Any:
        pipeline = {**tables, "moderate": ["blocklist"], "record": []}
        stages = {"moderate": {"blocklist": {"phrases": [phrase]}}}
        return load(overrides=shared(url, pipeline=pipeline, stages=stages))

    with ExitStack() as stack:
        apps = []
        for _ in range(2):
            app = TestApp(
                pipeline={"moderate": ["blocklist"]},
                stages={"moderate": {"blocklist": {"phrases": ["nothing"]}}},
                script=["secret plan"],
                settings=shared(url),
                keys=OPERATOR,
            )
            app.runtime.reloader.source = lambda: settings("secret plan")
            apps.append(stack.enter_context(entered(app)))
        assert all(app.ask(stream=False).text == "secret plan" for app in apps)
        assert apps[1].client.post("/admin/reload").status_code == 200
        until(lambda: all("secret plan" not in app.ask(stream=False).text for app in apps))


def test_a_policy_in_a_shared_file_and_its_rollback_reach_every_gateway(url: str, tmp_path: Path) -> None:
    """By one call to any of them. One that cannot read it goes on as before, and says so until it can."""
    file = tmp_path / "policies.toml"
    tables = {"admit": [], "screen": [], "recall": [], "constrain": ["unconstrained"], "generate": ["scripted"]}
    stages = {"moderate": {"blocklist": {"phrases": ["secret plan"]}}}
    places = [str(file), str(file)]

    def write(mode: str) -> None:
        file.write_text(f'[default.moderate.blocklist]\nmode = "{mode}"\n', "utf-8")

    def passes(app: TestApp) -> bool:
        return "secret plan" in app.ask(stream=False).text

    write("shadow")
    with ExitStack() as stack:
        apps = []
        for at in range(2):
            more = shared(url, policy_file=str(file))
            app = TestApp(
                pipeline={"moderate": ["blocklist"]},
                stages=stages,
                script=["secret plan"],
                settings=more,
                keys=OPERATOR,
            )
            pipeline = {**tables, "moderate": ["blocklist"], "record": []}
            app.runtime.reloader.source = lambda at=at, pipeline=pipeline: load(
                overrides=shared(url, pipeline=pipeline, stages=stages, policy_file=places[at], keys=OPERATOR)
            )
            apps.append(stack.enter_context(entered(app)))
        first, second = apps
        assert passes(first)
        assert passes(second)
        write("enforce")
        assert second.client.post("/admin/reload").status_code == 200
        until(lambda: not passes(first))
        assert not passes(second)
        write("shadow")
        assert first.client.post("/admin/reload").status_code == 200
        until(lambda: passes(second))
        assert passes(first)
        places[1] = str(tmp_path / "away.toml")
        write("enforce")
        assert first.client.post("/admin/reload").status_code == 200
        until(lambda: "reload" in degraded(second))
        assert passes(second), "it goes on as before"
        places[1] = str(file)
        assert second.client.post("/admin/reload").status_code == 200
        assert not passes(second)
        assert "reload" not in degraded(second)


def degraded(app: TestApp) -> set[str]:
    found = app.client.get("/readyz", headers={"accept": "application/json"}).json()
    return {trouble["part"] for trouble in found["troubles"]}


# --- reviews ------------------------------------------------------------------------------------------------------


def reviewing(url: str, script: Any = reviews.SCRIPT, **review: Any) -> TestApp:
    pipeline = {"admit": ["api-keys"], "screen": ["blocklist"], "moderate": ["blocklist", "pii"]}
    return TestApp(
        pipeline=pipeline,
        stages=reviews.STAGES,
        keys=reviews.KEYS,
        script=script,
        settings=shared(url, review=review),
    )


def test_what_one_gateway_holds_another_decides_and_a_third_hands_out(url: str) -> None:
    with reviewing(url) as first, reviewing(url) as second, reviewing(url) as third:
        held = reviews.held_answer(first)
        assert reviews.fetch(third, held["url"]).status_code == 202
        assert reviews.decide(second, held["id"], "approve").status_code == 200
        found = reviews.fetch(third, held["url"]).json()
        assert "project nightjar" in json.dumps(found["result"])
        again = reviews.decide(first, held["id"], "deny")
        assert (again.status_code, again.json()["error"]["code"]) == (400, "decided"), "the first decision stands"


def test_an_approved_request_is_answered_once_whoever_asks_where(url: str) -> None:
    entered = threading.Event()

    def slow(job: Any) -> list[str]:
        entered.set()
        time.sleep(0.3)
        return ["fine"]

    with reviewing(url, slow) as first, reviewing(url, slow) as second:
        error = reviews.ask(first, "about the forbidden topic").json()["error"]
        reviews.decide(second, error["review"]["id"], "approve")
        with ThreadPoolExecutor(4) as pool:
            fetches: list[Callable[[], Any]] = [
                lambda app=app: reviews.fetch(app, error["review"]["url"]).json() for app in (first, second) * 2
            ]
            found = [one.result() for one in [pool.submit(fetch) for fetch in fetches]]
        assert all(one == found[0] for one in found)
        assert found[0]["result"]["choices"][0]["message"]["content"] == "fine"
        assert len(first.model.jobs) + len(second.model.jobs) == 1


def test_two_who_decide_at_once_leave_one_decision(url: str) -> None:
    with reviewing(url) as first, reviewing(url) as second:
        for _ in range(5):
            held = reviews.held_answer(first)
            with ThreadPoolExecutor(2) as pool:
                verbs = ((first, "approve"), (second, "deny"))
                answers = list(pool.map(lambda one, id=held["id"]: reviews.decide(one[0], id, one[1]), verbs))
            assert sorted(answer.status_code for answer in answers) == [200, 400]


def test_held_texts_are_sealed_in_the_database_too(url: str, server: PostgresServer) -> None:
    with reviewing(url, secret="ab" * 32) as app:
        held = reviews.held_answer(app)
        [(body,)] = server.ask("select body from sluicegate.reviews", url.rsplit("/", 1)[1])
        assert b"nightjar" not in bytes(body)
        reviews.decide(app, held["id"], "approve")
        assert "nightjar" in reviews.fetch(app, held["url"]).text


@pytest.mark.parametrize("other", ["cd" * 32, ""], ids=["another secret", "none"])
def test_what_a_gateway_cannot_open_hides_nothing_else_and_is_not_let_out(url: str, other: str) -> None:
    """Two gateways whose configurations differ: each shows its own, names the other's, and lets none of them pass."""
    with reviewing(url, secret="ab" * 32) as first, reviewing(url, secret=other) as second:
        theirs, own = reviews.held_answer(first), reviews.held_answer(second)
        data = reviews.fetch(second, "/admin/review?reveal=true", reviews.REVIEWER).json()["data"]
        assert {one["id"]: "unreadable" in one for one in data} == {theirs["id"]: True, own["id"]: False}
        refused = reviews.decide(second, theirs["id"], "approve")
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "review_unreadable")
        assert "[review] secret" in refused.json()["error"]["message"]
        assert reviews.decide(first, theirs["id"], "approve").status_code == 200
        away = reviews.fetch(second, theirs["url"])
        assert (away.status_code, away.json()["error"]["code"]) == (503, "review_unreadable")
        assert "nightjar" in reviews.fetch(first, theirs["url"]).text
        report = {"text": "a harmless one", "rail": "blocklist"}
        for app in (first, second):
            answer = app.client.post("/v1/safety/false_positives", json=report, headers=reviews.bearer(reviews.CALLER))
            assert answer.status_code == 200, answer.text
        kept = reviews.fetch(second, "/v1/safety/false_positives", reviews.REVIEWER).json()
        assert (len(kept["data"]), kept["unreadable"]) == (1, 1)


def test_nothing_is_let_out_while_the_database_is_away(own_server: PostgresServer) -> None:
    """What should be held and cannot be is refused."""
    with reviewing(own_server.new()) as app:
        own_server.kill()
        body = reviews.ask(app).json()
        assert "nightjar" not in json.dumps(body)
        assert "review" not in body.get("sluicegate", {})
        own_server.start()
        until(lambda: "review" in reviews.ask(app).json().get("sluicegate", {}))


def test_any_text_of_a_caller_can_be_held(url: str) -> None:
    database = Database(DatabaseSettings(url=url))
    database.open()
    store = PostgresReviewStore(database)
    report = FalsePositiveReport("r", "t\u2028", None, 1.0, "a\x00b", "\ud800", "'; --")
    store.put_report(report, {"text": "\x00"})
    assert store.reports(5) == [(report, {"text": "\x00"})]
    assert (store.reported("t\u2028")[0], store.remove_report("r"), store.remove_report("r")) == (1, True, False)
    database.close()


# --- tables -------------------------------------------------------------------------------------------------------


def test_gateways_that_start_at_once_make_the_tables_once(url: str, server: PostgresServer) -> None:
    databases = [Database(DatabaseSettings(url=url)) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda one: one.open(), databases))
    for one in databases:
        one.close()
    assert server.ask("select number from sluicegate.migrations", url.rsplit("/", 1)[1]) == [
        (number,) for number in range(1, len(STEPS) + 1)
    ]


def test_tables_of_a_newer_or_of_another_release_are_left_alone(url: str, server: PostgresServer) -> None:
    database = Database(DatabaseSettings(url=url))
    database.open()
    later = (*STEPS, "create table sluicegate.later (id text)")
    with database.transaction() as db:
        assert migrate(db.execute, later) == 1
        assert migrate(db.execute, later) == 0
    database.close()
    with pytest.raises(ConfigurationError, match=rf"newer release \(step {len(later)}"):
        Database(DatabaseSettings(url=url)).open()
    server.ask("update sluicegate.migrations set digest = 'x' where number = 1", url.rsplit("/", 1)[1])
    server.ask(f"delete from sluicegate.migrations where number = {len(later)}", url.rsplit("/", 1)[1])
    with pytest.raises(ConfigurationError, match="step 1 of its tables is not this product's"):
        Database(DatabaseSettings(url=url)).open()


def test_a_step_that_fails_leaves_the_tables_as_they_were(url: str) -> None:
    database = Database(DatabaseSettings(url=url))
    database.open()
    broken = (*STEPS, "create table sluicegate.half (id text); create table sluicegate.half (id text)")
    with pytest.raises(Exception, match="already exists"), database.transaction() as db:
        migrate(db.execute, broken)
    with database.transaction() as db:
        assert migrate(db.execute) == 0
        assert db.execute("select to_regclass('sluicegate.half')").fetchone() == (None,)
    database.close()


@pytest.mark.parametrize("table", [{"accounts": {"path": "a"}}, {"review": {"path": "a"}}, {"routing": {"state": "a"}}])
def test_a_file_of_this_machine_beside_the_database_is_refused(table: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="set one of the two"):
        load(overrides={"database": {"url": "postgresql://nowhere/x"}, **table})
