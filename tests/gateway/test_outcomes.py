"""How a request ended, as callers and operators are told: kept answers have a size, callers' mistakes are theirs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from sluicegate.gateway.compose import compose
from sluicegate.gateway.config import load
from sluicegate.gateway.testing import TestApp
from tests.gateway.conftest import RunningGateway
from tests.waiting import until

ENDPOINTS = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "My name is Ada."}], "max_tokens": 128},
    "/v1/responses": {"input": "My name is Ada, too.", "max_output_tokens": 128},
    "/v1/messages": {"messages": [{"role": "user", "content": "I am Ada."}], "max_tokens": 128},
    "/v1/completions": {"prompt": "My name is", "max_tokens": 64, "stop": ["s"]},
}


@pytest.fixture(scope="module")
def caching(run_gateway: Any) -> Iterator[RunningGateway]:
    with run_gateway({"pipeline": {"recall": ["memory"]}}) as found:
        yield found


@pytest.mark.parametrize("path", ENDPOINTS)
def test_a_kept_answer_says_how_long_it_is_and_that_it_was_kept(caching: RunningGateway, path: str) -> None:
    """Its prompt tokens are told as cached; nothing was computed, so the books have nothing."""
    body = {"model": "bundled", "temperature": 0, **ENDPOINTS[path]}
    first = httpx.post(caching.url + path, json=body).json()
    again = httpx.post(caching.url + path, json=body).json()
    assert again["sluicegate"]["cached"] is True
    assert "cached" not in first.get("sluicegate", {})
    fresh, kept = _counts(first["usage"]), _counts(again["usage"])
    assert fresh[1] > 0
    assert kept[:2] == fresh[:2], "prompt and answer are as long as they were"
    assert kept[2] == kept[0], "every token of the prompt is told as cached"


def _counts(usage: dict[str, Any]) -> tuple[int, int, int]:
    """Return the prompt, answer and cached prompt tokens, in any dialect."""
    if "prompt_tokens" in usage:
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        return usage["prompt_tokens"], usage["completion_tokens"], cached
    if "input_tokens_details" in usage:
        return usage["input_tokens"], usage["output_tokens"], usage["input_tokens_details"]["cached_tokens"]
    cached = usage["cache_read_input_tokens"]
    return usage["input_tokens"] + cached, usage["output_tokens"], cached


def test_who_waited_for_an_equal_request_is_told_the_size_of_its_answer() -> None:
    app = TestApp(pipeline={"recall": ["memory"]}, script=["a", "b", "c"])
    seat = "sluicegate.cache"
    with app:
        app.ask("the same", temperature=0, stream=False)
        reply = app.ask("the same", temperature=0, stream=False)
    assert reply.body["usage"]["completion_tokens"] == 3, seat


@pytest.fixture
def app() -> Iterator[TestApp]:
    app = TestApp(
        pipeline={"screen": ["blocklist"], "record": ["metrics"]},
        stages={"screen": {"blocklist": {"phrases": ["halberd"], "action": "block"}}},
        settings={"telemetry": {"content": True}},
    )
    with app:
        yield app


def goodput(app: TestApp) -> dict[str, float]:
    lines = app.client.get("/metrics").text.splitlines()
    found = [line for line in lines if line.startswith("sluicegate_goodput_requests_total{")]
    return {line.split('met="')[1].split('"')[0]: float(line.rsplit(" ", 1)[1]) for line in found}


def test_callers_mistakes_do_not_count_against_the_service(app: TestApp) -> None:
    """An unknown model, a bad schema and a refused prompt leave goodput as it is; what is served counts."""
    broken = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nothing"}}}
    assert app.ask("hello", model="nobody").status == 404
    assert app.ask("tell me of the halberd").status == 400
    assert app.ask("hello", response_format=broken).status in (200, 400)
    before = goodput(app)
    assert app.ask("hello").status == 200
    until(lambda: goodput(app).get("true", 0) == before.get("true", 0) + 1)
    assert goodput(app).get("false", 0) == 0


def test_a_refused_prompt_is_withheld_and_not_said_to_be_lost(app: TestApp) -> None:
    app.ask("tell me of the halberd")
    app.wait_for_outcomes()
    [done] = app.runtime.trace_sink.recent()
    assert done.content is not None
    assert done.content.messages == (("user", "[withheld by a safety rail]"),)


@pytest.mark.parametrize(
    ("path", "body"), [("/v1/embeddings", {"input": "a text"}), ("/v1/moderations", {"input": "a text"})]
)
def test_what_has_no_choices_ends_as_a_success(gateway: RunningGateway, path: str, body: dict[str, Any]) -> None:
    assert httpx.post(gateway.url + path, json={"model": "bundled", **body}).status_code == 200
    until(lambda: gateway.runtime.history.line(next(iter(gateway.runtime.trace_sink.recent())))["ended"] == "success")
    assert 'outcome="success"' in httpx.get(f"{gateway.url}/metrics").text


def test_a_stage_that_is_configured_and_not_enabled_is_named(caplog: pytest.LogCaptureFixture) -> None:
    settings = load(overrides={"stages": {"moderate": {"blocklist": {"phrases": ["halberd"]}}}})
    with caplog.at_level(logging.WARNING):
        compose(settings, {})
    assert "[stages.moderate.blocklist] is configured and does not run" in caplog.text


DOORS: dict[str, tuple[int, dict[str, Any]]] = {
    "no key": (401, {"headers": {}}),
    "an unknown key": (401, {"headers": {"authorization": "Bearer PLANTED"}}),
    "a route that the key may not call": (403, {"headers": {"authorization": "Bearer secret-narrow"}}),
    "no such path": (404, {"url": "/v1/PLANTED"}),
    "no such model": (404, {"json": {"model": "PLANTED", "messages": [{"role": "user", "content": "hi"}]}}),
    "another method": (405, {"method": "GET"}),
    "a body that is too large": (413, {"content": b"{" + b" " * 5000}),
    "a packed body": (415, {"headers": {"authorization": "Bearer secret-a", "content-encoding": "gzip"}}),
    "no JSON": (400, {"content": b'{"PLANTED": '}),
    "a wrong field": (400, {"json": {"messages": "PLANTED"}}),
    "a limit": (429, {"headers": {"authorization": "Bearer secret-poor"}}),
    "a rail": (400, {"json": {"model": "scripted", "messages": [{"role": "user", "content": "PLANTED halberd"}]}}),
}


@pytest.fixture(scope="module")
def doors() -> Iterator[TestApp]:
    keys = [
        {"id": "a", "key": "secret-a"},
        {"id": "narrow", "key": "secret-narrow", "routes": ["/v1/models"]},
        {"id": "poor", "key": "secret-poor", "limits": {"budget_day": 0}},
    ]
    with TestApp(
        pipeline={"admit": ["api-keys", "limits"], "screen": ["blocklist"], "record": ["ledger", "metrics", "log"]},
        stages={"screen": {"blocklist": {"phrases": ["halberd"], "action": "block"}}},
        keys=keys,
        accounts={"prices": {"*": {"input": 1, "output": 1}}},
        settings={"server": {"max_body_bytes": 4096}},
    ) as app:
        yield app


@pytest.mark.parametrize("door", DOORS)
def test_whatever_refuses_a_request_counts_it_once_by_its_status_and_repeats_nothing(doors: TestApp, door: str) -> None:
    """404s of no path, 405, 413, 415 and bodies that could not be read were in no metric at all."""

    def counts() -> dict[str, float]:
        lines = doors.client.get("/metrics").text.splitlines()
        assert not [line for line in lines if "PLANTED" in line]
        found = [line.rsplit(" ", 1) for line in lines if line.startswith("sluicegate_http_responses_total{")]
        return {name.split('"')[1]: float(value) for name, value in found}

    status, asked = DOORS[door]
    fields = {"method": "POST", "url": "/v1/chat/completions", "headers": {"authorization": "Bearer secret-a"}} | asked
    if fields["method"] == "POST" and "content" not in fields:
        fields.setdefault("json", {"model": "scripted", "messages": [{"role": "user", "content": "hi"}]})
    before = counts()
    assert doors.client.request(**fields).status_code == status
    after = counts()
    grown = {name: value - before.get(name, 0) for name, value in after.items() if value != before.get(name, 0)}
    assert grown == {"200": 1.0, str(status): 1.0}, "beside the look at /metrics itself"
