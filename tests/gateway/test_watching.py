"""Callers do not wait for judges in shadow mode; what these find is recorded all the same."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import Any

import httpx
import pytest

from sluicegate.gateway.request import watching
from sluicegate.gateway.testing import TestApp
from tests.gateway.test_judging import WordJudge, judge_rail

SAID = "There is poison in this sentence. And more."


class Gate:
    """A judge that answers once it may."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.judge = WordJudge("poison", self._wait)

    async def _wait(self) -> None:
        while not self.opened.is_set():  # noqa: ASYNC110  # set by the test's thread
            await asyncio.sleep(0.005)


def watched(gate: Gate) -> TestApp:
    def register(registry: Any) -> None:
        registry.add("moderate", "slow", lambda settings: judge_rail(gate.judge, "slow"))

    policies = {"watched": {"models": ["scripted"], "moderate": {"slow": {"mode": "shadow"}}}}
    return TestApp(register, pipeline={"moderate": ["slow"]}, script=[SAID], settings={"policies": policies})


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_leaves_before_a_judge_in_shadow_mode_has_read_it(stream: bool) -> None:
    gate = Gate()
    with watched(gate) as app:
        began = time.perf_counter()
        reply = app.ask(stream=stream)
        asked_s = time.perf_counter() - began
        assert (reply.text, reply.finish_reason) == (SAID, "stop")
        assert app.outcomes == []
        time.sleep(asked_s)
        gate.opened.set()
        [outcome] = app.wait_for_outcomes()
    [decision] = [one for one in outcome.decisions if one.slot == "moderate"]
    assert decision.outcome == "shadow block"
    assert outcome.error is None
    assert outcome.duration_s <= asked_s  # and not until the judge was done, which took twice as long


def test_a_caller_who_asks_what_each_stage_did_waits_for_it() -> None:
    gate = Gate()
    with watched(gate) as app:
        threading.Timer(0.05, gate.opened.set).start()
        reply = app.ask(stream=False, sluicegate={"explain": True})
        stages = reply.body["sluicegate"]["stages"]
    assert [one["stage"] for one in stages if one["slot"] == "moderate"] == ["slow"]


def test_with_too_many_judges_at_work_a_caller_waits_for_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MOST", 1)
    gate = Gate()
    with watched(gate) as app:
        app.ask()
        assert app.outcomes == []
        threading.Timer(0.05, gate.opened.set).start()
        app.ask(stream=False)
        assert gate.opened.is_set()
        app.wait_for_outcomes(2)


def test_a_gateway_that_stops_records_answers_whose_judge_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LAST_S", 0.05)
    with watched(Gate()) as app:
        assert app.ask(stream=False).text == SAID
        assert app.outcomes == []
    [outcome] = app.outcomes
    assert outcome.answers[0].text == SAID
    assert [one.stage for one in outcome.decisions if one.slot == "moderate"] == ["slow"]


@pytest.mark.parametrize("stream", [True, False])
def test_a_caller_who_waits_and_goes_away_is_recorded(stream: bool) -> None:
    gate = Gate()
    with watched(gate) as app:
        body = {
            "model": "scripted",
            "messages": [{"role": "user", "content": "Hi"}],
            "stream": stream,
            "sluicegate": {"explain": True},
        }
        with contextlib.suppress(httpx.ReadTimeout):
            app.client.post("/v1/chat/completions", json=body, timeout=0.5)
        [outcome] = app.wait_for_outcomes(limit_s=20.0)
    assert outcome.answers[0].text == SAID
