"""Which model answers: versions with weights, the way back, fallbacks, shadows, places, tiers."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.config import load
from sluicegate.gateway.routing.queues import Queue
from sluicegate.gateway.routing.table import RouteTable, chosen
from sluicegate.gateway.routing.tiers import Tiers, TierSettings
from sluicegate.gateway.settings import QueueSettings, RoutingSettings
from sluicegate.gateway.testing import AppReply, TestApp
from sluicegate.plugins import (
    Caller,
    ConfigurationError,
    Constraint,
    GenerationFailed,
    Job,
    NotFound,
    Overloaded,
    read_settings,
)
from sluicegate.plugins.testing import make_request
from sluicegate.plugins.testing.doubles import FakeModel

NAMES = ("m@1", "m@2", "small", "large")


def app(routing: Mapping[str, Any], **more: Any) -> TestApp:
    more.setdefault("script", lambda job: [job.model])
    return TestApp(settings={"routing": routing}, names=NAMES, **more)


def weighted(one: float, two: float, **more: Any) -> dict[str, Any]:
    return {"models": {"m": {"weights": {"m@1": one, "m@2": two}, **more}}}


def who_answers(gateway: TestApp, **fields: Any) -> str:
    reply = gateway.ask(model=fields.pop("model", "m"), stream=False, **fields)
    assert reply.status == 200, reply
    return reply.text


def test_a_public_name_is_answered_by_its_versions_in_their_shares() -> None:
    with app(weighted(90, 10)) as gateway:
        counts = Counter(who_answers(gateway, user=f"user-{i}") for i in range(300))
    assert 10 <= counts["m@2"] <= 55


def test_a_user_stays_with_a_version() -> None:
    with app(weighted(50, 50)) as gateway:
        for user in ("a", "b", "c", "d"):
            assert len({who_answers(gateway, user=user) for _ in range(4)}) == 1


def test_when_weights_change_only_as_many_users_move_as_must() -> None:
    users = [f"u{i}" for i in range(2000)]
    before = {user: chosen({"a": 90, "b": 10}, user) for user in users}
    after = {user: chosen({"a": 80, "b": 20}, user) for user in users}
    moved = [user for user in users if before[user] != after[user]]
    assert all(after[user] == "b" for user in moved)
    assert 0.07 < len(moved) / len(users) < 0.14


def test_the_public_name_is_listed_and_versions_can_be_asked_for() -> None:
    with app(weighted(100, 0)) as gateway:
        assert "m" in [card["id"] for card in gateway.client.get("/v1/models").json()["data"]]
        assert who_answers(gateway) == "m@1"
        assert who_answers(gateway, model="m@2") == "m@2"


def test_weights_change_and_go_back_without_a_restart() -> None:
    with app(weighted(100, 0)) as gateway:
        changed = gateway.client.put("/admin/routes/m/weights", json={"weights": {"m@1": 0, "m@2": 1}})
        assert changed.json()["weights"] == {"m@1": 0, "m@2": 1}
        assert who_answers(gateway) == "m@2"
        back = gateway.client.post("/admin/routes/m/rollback")
        assert back.json()["weights"] == {"m@1": 100, "m@2": 0}
        assert who_answers(gateway) == "m@1"
        nothing = gateway.client.post("/admin/routes/m/rollback")
        assert (nothing.status_code, gateway.client.post("/admin/routes/x/rollback").status_code) == (400, 404)


def test_two_operators_who_roll_back_at_once_go_back_one_step() -> None:
    """Each names the state that it saw; the second one is told that another is in force, and nothing changes."""
    with app(weighted(100, 0)) as gateway:
        first = the_route(gateway)["revision"]
        for weight in (1, 2):
            gateway.client.put("/admin/routes/m/weights", json={"weights": {"m@1": 3, "m@2": weight}})
        seen = the_route(gateway)["revision"]
        ask = partial(gateway.client.post, "/admin/routes/m/rollback", json={"revision": seen})
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: ask(), range(8)))
        assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7
        refused = next(answer for answer in answers if answer.status_code == 409).json()["error"]
        assert (refused["code"], refused["param"]) == ("conflict", "revision")
        assert the_route(gateway)["weights"] == {"m@1": 3, "m@2": 1}
        again = gateway.client.post("/admin/routes/m/rollback", json={"revision": the_route(gateway)["revision"]})
        assert (again.status_code, again.json()["revision"]) == (200, first)


@pytest.mark.parametrize("body", [{"revision": 3}, {"revision": "x" * 100}, {"version": "x"}, "x"])
def test_a_rollback_that_names_its_state_wrongly_changes_nothing(body: object) -> None:
    with app(weighted(100, 0)) as gateway:
        gateway.client.put("/admin/routes/m/weights", json={"weights": {"m@2": 1}})
        assert gateway.client.post("/admin/routes/m/rollback", json=body).status_code == 400
        assert the_route(gateway)["weights"] == {"m@2": 1}


def the_route(gateway: TestApp) -> dict[str, Any]:
    [route] = gateway.client.get("/admin/routes").json()["data"]
    found: dict[str, Any] = route
    return found


@pytest.mark.parametrize("weights", [{"m@1": 0}, {"m@9": 1}, {"m@1": -1}, {}])
def test_weights_that_would_serve_nobody_are_refused(weights: dict[str, float]) -> None:
    with app(weighted(100, 0)) as gateway:
        assert gateway.client.put("/admin/routes/m/weights", json={"weights": weights}).status_code == 400
        assert who_answers(gateway) == "m@1"


def test_a_change_survives_a_restart_where_a_file_keeps_it(tmp_path: Path) -> None:
    routing = {**weighted(100, 0), "state": str(tmp_path / "routes.json")}
    with app(routing) as gateway:
        gateway.client.put("/admin/routes/m/weights", json={"weights": {"m@2": 1}})
    with app(routing) as gateway:
        assert who_answers(gateway) == "m@2"
        gateway.client.post("/admin/routes/m/rollback")
    with app(routing) as gateway:
        assert who_answers(gateway) == "m@1"
    (tmp_path / "routes.json").write_text("nonsense")
    with pytest.raises(ConfigurationError, match="mend or remove"):
        app(routing)


def test_a_key_that_may_ask_the_name_gets_its_versions_and_no_others() -> None:
    keys = [{"id": "a", "key": "secret", "models": ["m"]}]
    with app(weighted(1, 1), pipeline={"admit": ["api-keys"]}, keys=keys) as gateway:
        gateway.client.headers["authorization"] = "Bearer secret"
        assert who_answers(gateway) in ("m@1", "m@2")
        assert gateway.ask(model="small", stream=False).status == 404


def failing(*names: str) -> Any:
    def script(job: Job) -> list[str]:
        if job.model in names:
            raise Overloaded("full", retry_after_s=3)
        return [job.model]

    return script


@pytest.mark.parametrize("stream", [True, False])
def test_another_model_answers_where_one_is_overloaded(stream: bool) -> None:
    routing = {"models": {"large": {"fallback": ["m@1", "small"]}}}
    with app(routing, script=failing("large", "m@1")) as gateway:
        assert gateway.ask(model="large", stream=stream).text == "small"
        [outcome] = gateway.wait_for_outcomes(1)
        assert outcome.model == "small"
    with app(routing, script=failing("large", "m@1", "small")) as gateway:
        reply = gateway.ask(model="large", stream=stream)
        assert (reply.status, (reply.error or {})["code"]) == (503, "overloaded")


def test_another_model_answers_where_one_breaks_before_anything_left() -> None:
    class Breaks:
        """Iterating fails half way, as an engine does whose step broke."""

        def __init__(self, inner: Any) -> None:
            self._inner = inner
            self.begin = inner.begin
            self.cancel = inner.cancel
            self.timeline = inner.timeline
            self.usage = inner.usage

        async def __aiter__(self) -> Any:
            async for piece in self._inner:
                yield piece
                raise GenerationFailed("the step failed")

    with app({"models": {"large": {"fallback": ["small"]}}}) as gateway:
        generate = gateway.model.generate

        async def breaking(job: Job) -> Any:
            made = await generate(job)
            return Breaks(made) if job.model == "large" else made

        gateway.model.generate = breaking  # type: ignore[method-assign, assignment]
        assert gateway.ask(model="large", stream=False).text == "small"
        assert gateway.ask(model="large", stream=True).error is not None


def test_a_key_does_not_fall_back_to_a_model_that_it_may_not_ask() -> None:
    keys = [{"id": "a", "key": "secret", "models": ["large"]}]
    routing = {"models": {"large": {"fallback": ["small"]}}}
    with app(routing, script=failing("large"), pipeline={"admit": ["api-keys"]}, keys=keys) as gateway:
        gateway.client.headers["authorization"] = "Bearer secret"
        assert gateway.ask(model="large", stream=False).status == 503


def test_shadows_get_a_copy_that_nobody_sees_and_nobody_pays() -> None:
    routing = weighted(1, 0, shadow="m@2")
    keys = [{"id": "a", "key": "secret", "limits": {"requests_per_minute": 5}}]
    pipeline = {"admit": ["api-keys", "limits"], "record": ["ledger"]}
    with app(routing, pipeline=pipeline, keys=keys) as gateway:
        gateway.client.headers["authorization"] = "Bearer secret"
        assert [who_answers(gateway) for _ in range(3)] == ["m@1"] * 3
        outcomes = gateway.wait_for_outcomes(6)
        shadows = [outcome for outcome in outcomes if outcome.model == "m@2"]
        assert [(s.answers[0].text, s.caller.tenant, s.caller.key_id) for s in shadows] == [("m@2", "shadow", None)] * 3
        assert all(s.request.metadata["shadow_of"] == "m@1" for s in shadows)
        assert "sluicegate_shadow_sent_total 3.0" in gateway.client.get("/metrics").text
        assert 'key="",' not in gateway.client.get("/metrics").text


def test_a_shadow_that_fails_harms_nobody() -> None:
    with app(weighted(1, 0, shadow="m@2"), script=failing("m@2")) as gateway:
        assert who_answers(gateway) == "m@1"
        gateway.wait_for_outcomes(2)
        assert who_answers(gateway) == "m@1"


def test_places_of_a_model_hold_and_say_when_to_come_back() -> None:
    queues = {"small": {"max_running": 1, "max_waiting": 1, "wait_s": 10}}
    with app({"queues": queues}, delay_s=0.3) as gateway, ThreadPoolExecutor(4) as pool:

        def ask(_: int) -> Any:
            body = {"model": "small", "messages": [{"role": "user", "content": "hi"}]}
            return gateway.client.post("/v1/chat/completions", json=body)

        answers = list(pool.map(ask, range(4)))
        assert sorted(answer.status_code for answer in answers) == [200, 200, 503, 503]
        assert all(int(a.headers["retry-after"]) >= 1 for a in answers if a.status_code == 503)
        gateway.wait_for_outcomes(4)
        assert "sluicegate_routing_places_taken 0.0" in gateway.client.get("/metrics").text


async def test_interactive_requests_get_places_before_batches() -> None:
    queue = Queue("m", QueueSettings(max_running=1))
    first = await queue.take(0)
    order: list[str] = []

    async def waiting(name: str, priority: int) -> None:
        place = await queue.take(priority)
        order.append(name)
        place.give_back()

    tasks = [asyncio.create_task(waiting(*one)) for one in (("batch", 10), ("a", 0), ("b", 0))]
    await asyncio.sleep(0)
    first.give_back()
    await asyncio.gather(*tasks)
    assert order == ["a", "b", "batch"]
    assert (queue.running, queue.waiting) == (0, 0)


async def test_a_place_is_not_lost_when_its_taker_leaves() -> None:
    queue = Queue("m", QueueSettings(max_running=1, wait_s=0.05))
    first = await queue.take(0)
    leaving = asyncio.create_task(queue.take(0))
    await asyncio.sleep(0)
    first.give_back()
    leaving.cancel()  # just when the place was given to it
    await asyncio.gather(leaving, return_exceptions=True)
    (await queue.take(0)).give_back()
    held = await queue.take(0)
    started = time.monotonic()
    with pytest.raises(Overloaded, match=r"no place at model 'm' became free in 0\.05 s"):
        await queue.take(0)
    assert time.monotonic() - started >= 0.05
    held.give_back()
    held.give_back()
    assert (queue.running, queue.waiting) == (0, 0)


TIERS = {
    "default": "large",
    "rules": [
        {"metadata": {"tier": "best"}, "to": "large"},
        {"structured": True, "max_chars": 200, "to": "small"},
        {"matches": "(?i)translate", "to": "small"},
    ],
    "examples": {
        "small": ["What is the capital of France?", "What is the capital of Peru?", "What time zone is Rome in?"],
        "large": ["Prove that the square root of two is irrational.", "Derive the formula and prove each step."],
    },
}


@pytest.mark.parametrize(
    ("text", "fields", "tier"),
    [
        ("What is the capital of Spain?", {}, "small"),
        ("Prove the lemma, and derive each step of the formula.", {}, "large"),
        ("Translate this: maison", {}, "small"),
        ("xyzzy", {}, "large"),
        ("xyzzy", {"constraint": Constraint("json_object")}, "small"),
        ("Prove each step. " * 13, {"constraint": Constraint("json_object")}, "large"),
        ("Translate this", {"metadata": {"tier": "best"}}, "large"),
    ],
)
async def test_each_request_gets_the_tier_that_suits_it(text: str, fields: dict[str, Any], tier: str) -> None:
    models = {name: FakeModel(name) for name in NAMES}
    request = make_request(text, model="auto", **fields)
    tiers = Tiers(read_settings(TierSettings, TIERS, "stages.route.tiers"))
    assert await tiers.route(request, Caller(), models) == tier
    with pytest.raises(NotFound):
        await tiers.route(request, Caller(models=frozenset(["m@1"])), models)


def test_tiers_and_versions_go_together() -> None:
    routing = {"models": {"large": {"weights": {"m@2": 1}}}}
    stages = {"route": {"tiers": {"default": "large", "rules": [{"matches": "tiny", "to": "small"}]}}}
    with app(routing, pipeline={"route": ["tiers"]}, stages=stages) as gateway:
        assert ask_auto(gateway, "hello").text == "m@2"
        assert ask_auto(gateway, "tiny").text == "small"
        assert gateway.ask(model="m@1").text == "m@1"


def ask_auto(gateway: TestApp, text: str) -> AppReply:
    return gateway.ask(text, model="auto", stream=False)


@pytest.mark.parametrize(
    ("routing", "complaint"),
    [
        ({"models": {"m": {"weights": {"a": 0}}}}, "no version has a weight above 0"),
        ({"models": {"m": {"sticky": "dog"}}}, "sticky must be one of user, tenant, none, found 'dog'"),
        ({"models": {"m": {"shadow_share": 1.5}}}, "shadow_share must be a number from 0 to 1, found 1.5"),
        ({"models": {"m": {"weight": {}}}}, "has no 'weight'"),
        ({"queues": {"m": {}}}, "max_running"),
    ],
)
def test_a_mistake_in_routing_is_named(routing: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        RouteTable(load(overrides={"routing": routing}).routing)


def test_models_come_and_go_by_the_admin_routes(tmp_path: Path) -> None:
    """With the real engine: a second version is loaded beside the first, gets the traffic, and the first one leaves."""
    from tests.gateway.conftest import running

    with running({"routing": {"models": {"m": {"weights": {"bundled": 1}}}}}) as gateway:
        import httpx

        client = httpx.Client(base_url=gateway.url, timeout=60)
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
        assert client.post("/v1/chat/completions", json=body).json()["model"] == "bundled"
        added = client.post("/admin/models", json={"settings": {"path": "bundled", "name": "second"}})
        assert added.status_code == 200, added.text
        client.put("/admin/routes/m/weights", json={"weights": {"second": 1}})
        assert client.post("/v1/chat/completions", json=body).json()["model"] == "second"
        told = {one["id"]: one for one in client.get("/admin/models").json()["data"]}
        assert told["second"]["load"]["running"] >= 0
        assert client.delete("/admin/models/bundled").status_code == 200
        assert client.post("/v1/chat/completions", json={**body, "model": "bundled"}).status_code == 404
        assert client.post("/v1/chat/completions", json=body).status_code == 200
        assert json.loads(client.get("/admin/routes").text)["data"][0]["weights"] == {"second": 1.0}
    assert RoutingSettings().state == ""


def test_adapters_come_and_go_by_the_admin_routes(tmp_path: Path) -> None:
    """Two beside the bundled model: listed with their parent, asked by both their names, answering what they learnt."""
    import httpx

    from sluicegate.engine import load_model
    from tests.engine.lora import linear_layers, write_adapter
    from tests.gateway.conftest import running

    folder = Path(load_model("bundled").tokenizer.name_or_path)
    body = {"messages": [{"role": "user", "content": "Name: Ann"}], "max_tokens": 8, "temperature": 0, "seed": 1}
    with running({}) as gateway:
        client = httpx.Client(base_url=gateway.url, timeout=60)
        for name, seed in (("a", 1), ("b", 2)):
            path = write_adapter(tmp_path / name, folder, linear_layers(folder), seed=seed, size=0.2)
            settings = {"path": str(path), "base": "bundled", "name": name}
            added = client.post("/admin/models", json={"settings": settings})
            assert (added.status_code, added.json()["base"]) == (200, "bundled"), added.text
        cards = {card["id"]: card for card in client.get("/v1/models").json()["data"]}
        assert {name: card["parent"] for name, card in cards.items()} == {
            "bundled": None,
            **dict.fromkeys(("a", "bundled:a", "b", "bundled:b"), "bundled"),
        }
        own = {"default_sampling": {"temperature": 0.0}, "notes": []}
        assert all({name: card[name] for name in own} == own for card in cards.values())
        answers = {}
        for name in cards:
            answer = client.post("/v1/chat/completions", json={"model": name, **body}).json()
            assert answer["model"] == name.removeprefix("bundled:")
            answers[name] = answer["choices"][0]["message"]["content"]
        assert answers["a"] == answers["bundled:a"]
        assert len({answers["bundled"], answers["a"], answers["b"]}) == 3
        assert client.delete("/admin/models/b").status_code == 200
        assert client.post("/v1/chat/completions", json={"model": "bundled:b", **body}).status_code == 404
        wrong = client.post("/admin/models", json={"settings": {"path": str(tmp_path), "base": "bundled"}})
        assert "is no adapter" in wrong.json()["error"]["message"]
        for settings in (
            {"path": str(tmp_path)},
            {"path": "bundled", "": 1},
            {"path": 1},
            {"path": "bundled", "type": {}},
        ):
            told = client.post("/admin/models", json={"settings": {"name": "q", **settings}})  # a mistake of who asks
            assert (told.status_code, told.json()["error"]["param"]) == (400, "settings"), told.text
