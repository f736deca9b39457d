"""A canary on a real gateway: caught where it is worse, let through where it is not, and nothing lost on the way."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from sluicegate.gateway.config import load
from sluicegate.gateway.rollout import rollouts
from sluicegate.gateway.rollout.observation import Observation
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import ConfigurationError, GenerationFailed, Job
from tests.altered import altered
from tests.gateway.upstream.servers import ScriptedServer, running, says
from tests.waiting import LIMIT_S, until

GOOD, NEW = "m@1", "m@2"
WITHIN = 400
"""Requests, of both versions, in which each fault has to be found at a share of one half."""
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
FORM = {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}}
AT_HALF: Mapping[str, Any] = {"baseline": GOOD, "canary": NEW, "steps": [0.5], "hold_s": 3600.0}
Script = Callable[[Job], list[str]]


@pytest.fixture(autouse=True)
def quick_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollouts, "TICK_S", 0.05)


@contextmanager
def rolling(script: Script, rollout: Mapping[str, Any] = AT_HALF, **more: Any) -> Iterator[TestApp]:
    route = {"sticky": "none", "rollout": dict(rollout)}
    tables = {"routing": {"models": {"m": route}, **more.pop("routing", {})}, **more.pop("tables", {})}
    as_ = more.pop("as_", "")
    with TestApp(script=script, names=(GOOD, NEW, "judge"), settings=tables, **more) as app:
        app.client.headers.update({"authorization": f"Bearer key-{as_}"} if as_ else {})
        until(lambda: look(app)["pending"] is None)
        yield app


def look(app: TestApp) -> dict[str, Any]:
    found: dict[str, Any] = app.client.get("/admin/rollouts/m").json()
    return found


def ask_until(app: TestApp, done: Callable[[dict[str, Any]], bool], limit: int, **fields: Any) -> dict[str, Any]:
    """Ask, and look after every ten requests; return once all are counted, or it is done."""
    before = asked_of(look(app))
    for number in range(limit):
        app.ask(f"question {number}", model="m", stream=number % 2 == 0, **fields)
        if number % 10 == 9 and done(look(app)):
            break
    until(lambda: done(found := look(app)) or asked_of(found) >= before + limit)
    time.sleep(0.2)
    return look(app)


def is_stopped(found: Mapping[str, Any]) -> bool:
    return bool(found["state"] == "stopped")


def good(job: Job) -> list[str]:
    return ['{"ok": true}']


def failing(job: Job) -> list[str]:
    if job.model == NEW and random.random() < 0.3:
        raise GenerationFailed("out of memory")
    return good(job)


def invalid(job: Job) -> list[str]:
    return ['{"ok": "maybe"}'] if job.model == NEW and random.random() < 0.4 else good(job)


def unsafe(job: Job) -> list[str]:
    return ["call me: sk-proj-", "Zk3Jd8fQ0pLw7Xv2Nc5Rt9Yb1Hm4Gs6Ae8Uo"] if job.model == NEW else ["hello"]


def slow(job: Job) -> list[str]:
    time.sleep(0.004 if job.model == NEW else 0.0)
    return good(job)


def rambling(job: Job) -> list[str]:
    return ["I am sorry, as a language model I cannot"] if job.model == NEW else ["42"]


@pytest.mark.parametrize(
    ("script", "metric", "more"),
    [
        (failing, "failures", {}),
        (invalid, "validity", FORM),
        (unsafe, "safety", {}),
        (slow, "latency", {}),
        (rambling, "checks", {}),
    ],
    ids=["failures", "validity", "safety", "latency", "quality"],
)
def test_a_version_that_is_worse_is_caught_by_what_is_wrong_with_it(
    script: Script, metric: str, more: dict[str, Any], tmp_path: Path
) -> None:
    settings = {**AT_HALF, "checks": {"must_not_match": ["(?i)as a language model"], "min_chars": 1}}
    audit = tmp_path / "audit.jsonl"
    pipeline = {"moderate": ["secrets"]}
    with rolling(script, settings, pipeline=pipeline, tables={"audit": {"path": str(audit)}}) as app:
        found = ask_until(app, is_stopped, WITHIN, **more)
        assert found["state"] == "stopped", found["metrics"]
        last = found["decisions"][-1]
        assert (last["action"], last["metric"]) in {("stop", metric), ("stop", "failures")}, last
        assert last["metric"] == metric or metric == "validity"
        assert last["evidence"] >= last["needed"]
        assert last["requests"] <= WITHIN
        assert app.client.get("/admin/routes").json()["data"][0]["weights"] == {GOOD: 1, NEW: 0}
        asked = [app.ask(model="m", stream=False, **more) for _ in range(5)]
        assert all(reply.status == 200 for reply in asked)
    lines = [json.loads(line) for line in audit.read_text("utf-8").splitlines()]
    stops = [line for line in lines if line["action"] == "rollout.stop"]
    assert [line["state"] for line in stops] == ["begun", "done"]
    assert stops[0]["facts"]["metric"] == last["metric"]
    assert stops[0]["by"] == "rollout"


def test_an_answer_of_another_server_that_was_asked_for_again_counts_against_its_version() -> None:
    """Callers get valid answers alone: only the tries tell how often the version breaks what was asked."""
    good, bad = says('{"ok": true}'), says('{"ok": "maybe"}')
    with running(ScriptedServer(good)) as old, running(ScriptedServer(*[bad, good] * WITHIN)) as new:
        models = {name: {"url": url, "allow_private": True, "retries": 0} for name, url in ((GOOD, old), (NEW, new))}
        app = TestApp(
            pipeline={"generate": ["upstream"], "constrain": ["grammar"]},
            stages={"generate": {"upstream": {"models": models}}},
            settings={"routing": {"models": {"m": {"sticky": "none", "rollout": dict(AT_HALF)}}}},
        )
        with app:
            until(lambda: look(app)["pending"] is None)
            for number in range(WITHIN):
                assert app.ask(str(number), model="m", stream=False, **FORM).text == '{"ok": true}'
                if is_stopped(found := look(app)):
                    break
            assert found["decisions"][-1]["metric"] == "validity"
            validity = found["metrics"]["validity"]
            assert (validity["canary"]["mean"], validity["baseline"]["mean"]) == (1.0, 0.0)


def judged(job: Job) -> list[str]:
    if job.model == "judge":
        assert job.request is not None
        mark = 1 if "rubbish" in job.request.messages[-1].content else 4
        return [json.dumps({"reason": "as it is", "mark": mark})]
    return ["rubbish" if job.model == NEW else "sense"]


def test_a_judge_that_marks_a_sample_stops_a_version_that_writes_rubbish() -> None:
    with rolling(judged, {**AT_HALF, "judge": "judge", "judge_share": 1.0}) as app:
        found = ask_until(app, is_stopped, WITHIN)
        assert found["decisions"][-1]["metric"] == "judge"
        marks = found["metrics"]["judge"]
        assert (marks["canary"]["mean"], marks["baseline"]["mean"]) == (1.0, 0.25)


def test_what_users_say_stops_a_version_that_they_do_not_like() -> None:
    with rolling(lambda job: [job.model]) as app:
        for number in range(WITHIN):
            reply = app.ask(str(number), model="m", stream=False)
            said = {"request_id": reply.body["id"], "score": 0.0 if reply.text == NEW else 1.0}
            assert app.client.post("/v1/feedback", json=said).status_code == 200
            if number % 10 == 9 and is_stopped(look(app)):
                break
        assert look(app)["decisions"][-1]["metric"] == "feedback"


@pytest.mark.parametrize(("most", "state"), [(1.0, "stopped"), (0.2, "running")])
def test_a_flood_of_one_callers_scores_counts_for_no_more_than_its_share(most: float, state: str) -> None:
    """One hates whatever the new version says and gives nine scores of ten; others find both alike."""
    keys = [{"id": f"k{number}", "key": f"key-{number}"} for number in range(6)]
    keys.append({"id": "root", "key": "key-root", "scopes": ["admin"]})
    settings = {**AT_HALF, "feedback_from_one": most}
    with rolling(lambda job: [job.model], settings, keys=keys, pipeline={"admit": ["api-keys"]}, as_="root") as app:
        for number in range(120):
            key = {"authorization": f"Bearer key-{0 if number % 10 else 1 + number // 10 % 5}"}
            body = {"model": "m", "messages": [{"role": "user", "content": str(number)}]}
            reply = app.client.post("/v1/chat/completions", json=body, headers=key).json()
            flood, is_new = bool(number % 10), reply["model"] == NEW
            said = {"request_id": reply["id"], "score": float(not is_new) if flood else 0.75}
            assert app.client.post("/v1/feedback", json=said, headers=key).status_code == 200
        until(lambda: not app.runtime.rollouts._waiting)
        time.sleep(0.2)
        found = look(app)
        assert found["state"] == state, found["metrics"]["feedback"]
        if state == "stopped":
            assert re.search(r" said by [1-6] callers?$", found["decisions"][-1]["reason"])
        else:
            counted = found["metrics"]["feedback"]
            assert counted["canary"]["n"] + counted["baseline"]["n"] < 30
            assert found["feedback_callers"] == 6


@pytest.mark.parametrize("runs", [3, pytest.param(20, marks=pytest.mark.thorough)])
def test_an_equal_version_is_not_stopped(runs: int) -> None:
    """Rollouts of one gateway after each other. At the usual 5 % one of 20 might be, in theory; at 1 % one in six times
    twenty."""
    with rolling(good, {**AT_HALF, "alpha": 0.01}, pipeline={"moderate": ["secrets"]}) as app:
        for number in range(runs):
            if number:
                app.client.post("/admin/rollouts/m/stop", json={})
                until(lambda: is_stopped(look(app)))
                app.client.put("/admin/rollouts/m", json={"settings": {**AT_HALF, "alpha": 0.01}})
                until(lambda: look(app)["pending"] is None)
            found = ask_until(app, is_stopped, 60, **FORM)
            assert not is_stopped(found), found["decisions"]
            assert found["requests"]["canary"] + found["requests"]["baseline"] == 60


def test_an_equal_version_takes_over_step_by_step_and_only_once_it_is_proven() -> None:
    settings = {**AT_HALF, "steps": [0.3, 0.6], "hold_s": 0.0, "hold_requests": 5}
    settings["tolerance"] = {"latency": 0.3, "failures": 0.2, "safety": 0.2}
    with rolling(good, settings) as app:
        early = ask_until(app, lambda found: found["step"] == 2, WITHIN)
        assert early["step"] == 2
        assert any("proof that" in what for what in early["waits_for"]), early
        found = ask_until(app, lambda found: found["state"] == "promoted", 3 * WITHIN)
        assert found["state"] == "promoted", found
        assert [one["action"] for one in found["decisions"]] == ["start", "advance", "promote"]
        assert "not seen: validity" in found["decisions"][-1]["reason"]
        assert {app.ask(model="m", stream=False).status for _ in range(3)} == {200}
        assert app.client.get("/admin/routes").json()["data"][0]["weights"] == {GOOD: 0, NEW: 1}


def test_a_version_that_hangs_is_caught_although_nobody_waits_for_its_end() -> None:
    """Clients leave: how long they waited is what is left to see."""
    from sluicegate.gateway.rollout.progress import Rollout
    from sluicegate.gateway.settings import RolloutSettings

    found, rng = Rollout("m", RolloutSettings(canary=NEW, baseline=GOOD), 0.0), random.Random(3)
    for _ in range(WITHIN):
        is_canary = rng.random() < 0.5
        found.take(Observation("m", NEW if is_canary else GOOD, 0.5, seconds=30.0 if is_canary else rng.random()), 1.0)
    assert found.pending is not None
    assert (found.pending.action, found.pending.metric) == ("stop", "latency")


# --- restarts, operators, other gateways --------------------------------------------------------------------------


def test_a_restart_loses_nothing(tmp_path: Path) -> None:
    routing = {"state": str(tmp_path / "routes.json")}
    with rolling(good, routing=routing) as app:
        before = ask_until(app, is_stopped, 40)
        app.ask(model="m", stream=False)  # not yet on the disk when the gateway stops
    with rolling(good, routing=routing) as app:
        after = look(app)
        until(lambda: asked_of(look(app)) >= 41)
        assert asked_of(look(app)) == 41
    assert sum(before["requests"][arm] for arm in ("canary", "baseline")) == 40
    assert after["began_s"] == before["began_s"]
    assert [one["action"] for one in after["decisions"]] == ["start"]
    with rolling(unsafe, routing=routing, pipeline={"moderate": ["secrets"]}) as app:
        assert ask_until(app, is_stopped, WITHIN)["state"] == "stopped"
    with rolling(good, routing=routing) as app:  # what was stopped does not begin again
        assert look(app)["state"] == "stopped"
        assert app.client.get("/admin/routes").json()["data"][0]["weights"] == {GOOD: 1, NEW: 0}


def test_what_is_being_written_when_the_gateway_stops_is_counted_once(tmp_path: Path) -> None:
    """The gateway stops between the end of a transaction and the moment in which its loop hears of it."""
    routing = {"state": str(tmp_path / "routes.json")}
    is_kept, stops = threading.Event(), threading.Event()
    with rolling(good, routing=routing) as app:
        store, judge = app.runtime.rollouts._store, app.runtime.rollouts._judge
        add, close = store.add, judge.close

        def adding(batch: int, seen: Sequence[Observation]) -> None:
            add(batch, seen)
            is_kept.set()
            stops.wait(LIMIT_S)

        async def closing() -> None:
            stops.set()
            await close()

        store.add, judge.close = adding, closing  # type: ignore[method-assign]
        app.ask(model="m", stream=False)
        assert is_kept.wait(LIMIT_S)
    with rolling(good, routing=routing) as app:
        until(lambda: asked_of(look(app)) > 0)  # all that is in the tables is taken at once
        assert asked_of(look(app)) == 1


def asked_of(found: Mapping[str, Any]) -> int:
    return sum(found["metrics"]["failures"][arm]["n"] for arm in ("canary", "baseline"))


def test_a_decision_that_was_kept_but_not_put_into_force_is_after_a_crash(tmp_path: Path) -> None:
    """As a gateway leaves it that is killed between the two."""
    routing = {"state": str(tmp_path / "routes.json")}
    with rolling(good, routing=routing) as app:
        kept = app.runtime.rollouts._store

        def decide(old: Any, now: float) -> Any:
            old.command("stop", "rollout", now, "seen just before the end")
            return old, None

        app.runtime.rollouts._ticking.cancel()  # type: ignore[union-attr]  # it runs
        kept.edit("m", decide)
    with rolling(good, routing=routing) as app:
        until(lambda: look(app)["state"] == "stopped")
        assert app.client.get("/admin/routes").json()["data"][0]["weights"] == {GOOD: 1, NEW: 0}


def test_operators_hold_resume_and_stop_and_each_order_is_in_the_audit_log(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    with rolling(good, tables={"audit": {"path": str(audit)}}) as app:

        def order(verb: str) -> httpx.Response:
            return app.client.post(f"/admin/rollouts/m/{verb}", json={"reason": "lunch"})

        assert order("hold").json()["state"] == "held"
        assert "an operator, who holds it" in look(app)["waits_for"]
        assert order("resume").json()["state"] == "running"
        assert order("stop").status_code == 200
        until(lambda: look(app)["state"] == "stopped")
        again = order("promote")
        assert (again.status_code, again.json()["error"]["code"]) == (400, "rollout_state")
        assert order("dance").status_code in (400, 422)
        fresh = app.client.put("/admin/rollouts/m", json={"settings": {**AT_HALF, "steps": [0.1]}})
        assert fresh.json()["state"] == "running"
        until(lambda: app.client.get("/admin/routes").json()["data"][0]["weights"] == {GOOD: 0.9, NEW: 0.1})
    actions = [json.loads(line)["action"] for line in audit.read_text("utf-8").splitlines()]
    wanted = ["rollouts.hold", "rollouts.resume", "rollouts.stop", "rollout.stop", "rollouts.begin", "rollout.start"]
    assert set(wanted) <= set(actions)


def test_a_rollout_goes_by_one_clock_whichever_gateway_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of its tables: by the clock of a gateway that is ahead, a canary would be held for longer."""
    other = altered(time, time=lambda: time.time() - 36_000)
    monkeypatch.setattr("sluicegate.gateway.database.tables.time", other)
    with rolling(good) as app:
        assert app.client.post("/admin/rollouts/m/stop", json={"reason": "lunch"}).status_code == 200
        until(lambda: look(app)["state"] == "stopped")
        fresh = app.client.put("/admin/rollouts/m", json={"settings": {**AT_HALF, "steps": [0.1]}}).json()
        until(lambda: look(app)["pending"] is None)
        assert fresh["began_s"] < time.time() - 30_000
        assert all(one["at_s"] < time.time() - 30_000 for one in look(app)["decisions"])


def test_weights_that_an_operator_sets_end_the_rollout() -> None:
    with rolling(good) as app:
        assert app.client.put("/admin/routes/m/weights", json={"weights": {GOOD: 3, NEW: 1}}).status_code == 200
        until(lambda: look(app)["state"] == "superseded")
        assert app.client.get("/admin/routes").json()["data"][0]["weights"] == {GOOD: 3, NEW: 1}


def test_without_an_audit_log_that_takes_lines_nothing_changes_and_it_is_said(tmp_path: Path) -> None:
    audit = tmp_path / "log" / "audit.jsonl"
    audit.parent.mkdir()
    with rolling(good, tables={"audit": {"path": str(audit)}}) as app:
        audit.unlink()
        audit.mkdir()
        before = app.client.get("/admin/routes").json()["data"][0]["weights"]
        refused = app.client.post("/admin/rollouts/m/stop", json={})
        assert refused.status_code == 503
        assert app.client.get("/admin/routes").json()["data"][0]["weights"] == before


@pytest.mark.parametrize(
    ("route", "message"),
    [
        ({"sticky": "user", "rollout": dict(AT_HALF)}, "sticky"),
        ({"sticky": "none", "weights": {GOOD: 1}, "rollout": dict(AT_HALF)}, "weights"),
        ({"sticky": "none", "rollout": {**AT_HALF, "steps": [0.5, 0.2]}}, "rising"),
        ({"sticky": "none", "rollout": {**AT_HALF, "steps": [1.0]}}, "rising"),
        ({"sticky": "none", "rollout": {**AT_HALF, "canary": GOOD}}, "both"),
        ({"sticky": "none", "rollout": {**AT_HALF, "alpha": 0}}, "alpha"),
        ({"sticky": "none", "rollout": {**AT_HALF, "tolerance": {"speed": 0.1}}}, "speed"),
    ],
)
def test_what_cannot_be_tested_is_refused_at_the_start(route: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load(None, {}, overrides={"routing": {"models": {"m": route}}})


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        ({**AT_HALF, "canary": "nobody"}, 400),
        ({**AT_HALF, "checks": {"must_match": ["("]}}, 400),
        ({**AT_HALF, "hold": 3}, 400),
        ({}, 400),
    ],
)
def test_the_admin_api_names_what_is_wrong_with_a_rollout(settings: dict[str, Any], status: int) -> None:
    with rolling(good) as app:
        app.client.post("/admin/rollouts/m/stop", json={})
        until(lambda: look(app)["state"] == "stopped")
        refused = app.client.put("/admin/rollouts/m", json={"settings": settings})
        assert refused.status_code == status, refused.text
        assert app.client.get("/admin/rollouts/nobody").status_code == 404
