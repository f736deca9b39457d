"""Rails in the gateway act, and fail, as the operator's policies say."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from typing import Any

import pytest

from sluicegate.gateway.rails.policy import Policies, read_policies
from sluicegate.gateway.testing import AppReply, TestApp
from sluicegate.plugins import Caller, ConfigurationError, Request, ScreenResult, Verdict
from sluicegate.plugins.testing import make_request
from tests.waiting import until


class Moody:
    """A rail of both slots that does what `mood` says."""

    name = "moody"

    def __init__(self) -> None:
        self.mood = "fine"
        self.calls = 0

    async def screen(self, request: Request, caller: Caller) -> ScreenResult:
        self.calls += 1
        if self.mood == "broken":
            raise RuntimeError("broke")
        if self.mood == "late":
            await asyncio.sleep(30)
        while self.mood == "deaf":
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(30)
        if self.mood.startswith("score"):
            return ScreenResult("pass", score=float(self.mood.split()[1]))
        return ScreenResult("block", "no") if self.mood == "blocking" else ScreenResult()

    def open(self, request: Request, caller: Caller, channel: Any) -> MoodySession:
        self.calls += 1
        return MoodySession(self.mood)


class MoodySession:
    def __init__(self, mood: str) -> None:
        self._mood, self._end = mood, 0

    def feed(self, text: str) -> Verdict:
        self._end += len(text)
        if self._mood == "broken":
            raise RuntimeError("broke")
        if self._mood == "blocking":
            return Verdict(0, block="no")
        return Verdict(self._end)

    def close(self) -> Verdict:
        return self.feed("")


def gateway(rail: Moody, slot: str, **policies: Any) -> TestApp:
    def register(registry: Any) -> None:
        registry.add(slot, "moody", lambda settings: rail)

    stages = {slot: ["moody"], "record": ["metrics"]}
    return TestApp(register, pipeline=stages, script=["Hello ", "back"], settings={"policies": policies})


def default(slot: str, **terms: Any) -> dict[str, Any]:
    return {"default": {slot: {"moody": terms}}}


def not_enforced(reply: AppReply) -> Any:
    return reply.body.get("sluicegate", {}).get("not_enforced")


@pytest.mark.parametrize("slot", ["screen", "moderate"])
def test_a_rail_that_breaks_closes_the_request(slot: str) -> None:
    rail = Moody()
    rail.mood = "broken"
    with gateway(rail, slot) as app:
        reply = app.ask(stream=False)
        assert "Hello" not in reply.text
        if slot == "screen":
            assert (reply.error or {})["code"] == "stage_failed"
        else:
            assert reply.finish_reason == "content_filter"


@pytest.mark.parametrize("slot", ["screen", "moderate"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_rail_that_may_fail_open_is_passed_over_and_the_answer_says_so(slot: str, stream: bool) -> None:
    rail = Moody()
    rail.mood = "broken"
    with gateway(rail, slot, **default(slot, failure_mode="open")) as app:
        reply = app.ask(stream=stream)
        told = not_enforced(reply)
        if stream and slot == "screen":  # known before the first text, so it is in the first chunk
            raw = app.client.post("/v1/chat/completions", json={**BODY, "stream": True}).text
            assert f'"not_enforced":["{slot} moody: failed open"]' in raw
        else:
            assert told == [f"{slot} moody: failed open"]
        assert reply.text == "Hello back"


BODY: Any = {"model": "scripted", "messages": [{"role": "user", "content": "Hi"}]}


@pytest.mark.parametrize("mood", ["late", "deaf"])
def test_an_input_rail_has_the_time_the_operator_gives_it(mood: str) -> None:
    """Also where it does not heed that it was cancelled."""
    rail = Moody()
    rail.mood = mood
    with gateway(rail, "screen", **default("screen", budget_s=0.05)) as app:
        reply = app.ask(stream=False)
        assert (reply.status, (reply.error or {})["code"]) == (500, "stage_failed")
        rail.mood = "fine"  # so that the gateway can stop


@pytest.mark.parametrize("slot", ["screen", "moderate"])
def test_a_rail_that_keeps_failing_is_left_alone_and_requests_are_refused_at_once(slot: str) -> None:
    rail = Moody()
    rail.mood = "broken"
    with gateway(rail, slot, **default(slot, failures_to_open=2, pause_s=60)) as app:
        app.ask(stream=False)
        app.ask(stream=False)
        calls, jobs = rail.calls, len(app.model.jobs)
        reply = app.client.post("/v1/chat/completions", json=BODY)
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "stage_failed")
        assert int(reply.headers["retry-after"]) > 0
        assert (rail.calls, len(app.model.jobs)) == (calls, jobs)
        assert "sluicegate_rails_open 1.0" in app.client.get("/metrics").text


def test_a_rail_that_recovers_is_asked_again() -> None:
    rail = Moody()
    rail.mood = "broken"
    with gateway(rail, "screen", **default("screen", failures_to_open=1, pause_s=2)) as app:
        assert app.ask(stream=False).status == 500
        assert app.ask(stream=False).status == 503
        rail.mood = "fine"
        until(lambda: app.ask(stream=False).text == "Hello back")
        assert app.ask(stream=False).text == "Hello back"


@pytest.mark.parametrize("slot", ["screen", "moderate"])
def test_a_rail_in_shadow_decides_and_does_not_act(slot: str) -> None:
    rail = Moody()
    rail.mood = "blocking"
    with gateway(rail, slot, **default(slot, mode="shadow")) as app:
        reply = app.ask(stream=False, sluicegate={"explain": True})
        assert reply.text == "Hello back"
        assert not_enforced(reply) == [f"{slot} moody: in shadow"]
        stages = {(s["slot"], s["stage"]): s["outcome"] for s in reply.body["sluicegate"]["stages"]}
        assert stages[slot, "moody"] == "shadow block"
        assert 'verdict="shadow block"' in app.client.get("/metrics").text


@pytest.mark.parametrize("slot", ["screen", "moderate"])
def test_a_rail_that_is_off_is_not_asked(slot: str) -> None:
    rail = Moody()
    rail.mood = "broken"
    with gateway(rail, slot, **default(slot, mode="off")) as app:
        assert app.ask(stream=False).text == "Hello back"
        assert rail.calls == 0


@pytest.mark.parametrize(
    ("score", "status", "code"), [(0.3, 200, None), (0.5, 403, "pending_review"), (0.9, 400, "content_filter")]
)
def test_thresholds_make_allow_escalate_and_block(score: float, status: int, code: str | None) -> None:
    rail = Moody()
    rail.mood = f"score {score}"
    with gateway(rail, "screen", **default("screen", escalate=0.4, block=0.8)) as app:
        reply = app.ask(stream=False)
        assert (reply.status, (reply.error or {}).get("code")) == (status, code)


def test_a_policy_is_chosen_by_key_model_and_route() -> None:
    table = {
        "default": {"screen": {"a": {"mode": "shadow"}}},
        "by-key": {"keys": ["k1"], "screen": {"a": {"mode": "enforce"}}},
        "by-model": {"models": ["big-*"], "screen": {"a": {"budget_s": 2}}},
        "both": {"tenants": ["t"], "routes": ["/v1/responses"]},
    }
    policies = read_policies(table, {"screen": ["a"], "moderate": []})

    def of(route: str = "/v1/chat/completions", model: str = "small", **caller: Any) -> str:
        return policies.of(make_request(model=model), Caller(**caller), route).name

    assert of() == "default"
    assert of(key_id="k1") == "by-key"
    assert of(model="big-7b") == "by-model"
    assert of(tenant="t") == "default"
    assert of("/v1/responses", tenant="t") == "both"
    assert policies.claiming[0].rail_policy("screen", "a").mode == "enforce"
    assert policies.claiming[1].rail_policy("screen", "a").mode == "shadow", "what it does not say holds from below"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"default": {"keys": ["a"]}}, "claims none"),
        ({"strict": {"screen": {"a": {}}}}, "claims no request"),
        ({"strict": {"keys": ["k"], "screen": {"b": {}}}}, "has no 'b'; valid names: a"),
        ({"default": {"screen": {"a": {"mode": "on"}}}}, "enforce, shadow, off"),
        ({"default": {"screen": {"a": {"budget_s": 0}}}}, "above 0"),
        ({"default": {"screen": {"a": {"escalate": 0.9, "block": 0.5}}}}, "lower it"),
        ({"default": {"screen": {"a": {"threshold": 1}}}}, "valid names: mode"),
        ({"default": {"max_hold": 0}}, "max_hold must be a whole number from 1"),
        ({"strict": {"keys": []}}, "at least one"),
    ],
)
def test_a_policy_that_means_nothing_is_refused(table: Any, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_policies(table, {"screen": ["a"], "moderate": []})
    assert said in str(refused.value)


def test_without_policies_every_rail_is_enforced_and_fails_closed() -> None:
    rail_policy = Policies().of(make_request(), Caller()).rail_policy("screen", "anything")
    assert (rail_policy.mode, rail_policy.failure_mode) == ("enforce", "closed")


def test_an_answer_kept_under_one_policy_is_not_served_under_another(tmp_path: Any) -> None:
    rail = Moody()
    secrets = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("one", "two")}
    keys = [{"id": name, "sha256": digest, "tenant": "same"} for name, digest in secrets.items()]
    file = tmp_path / "policies.toml"
    file.write_text('[lenient]\nkeys = ["two"]\n[lenient.moderate.moody]\nmode = "shadow"\n')

    def register(registry: Any) -> None:
        registry.add("moderate", "moody", lambda settings: rail)

    pipeline = {"admit": ["api-keys"], "recall": ["memory"], "moderate": ["moody"]}
    with TestApp(register, pipeline=pipeline, keys=keys, settings={"policy_file": str(file)}) as app:
        found = [
            app.client.post(
                "/v1/chat/completions", json={**BODY, "temperature": 0}, headers={"authorization": f"Bearer {key}"}
            ).headers["x-sluicegate-cache"]
            for key in ("one", "one", "two", "two")
        ]
        assert found == ["miss", "hit", "miss", "hit"]
