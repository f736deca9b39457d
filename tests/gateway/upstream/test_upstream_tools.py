"""Tools that a model of another server calls: passed on, and their arguments judged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.gateway.conftest import RunningGateway
from tests.gateway.test_tools import PERSON
from tests.gateway.upstream.servers import (
    END,
    Act,
    ScriptedServer,
    chunk,
    gateway,
    running,
    streams,
)

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
LOOK = {"type": "function", "function": {"name": "look", "parameters": SCHEMA}}
BAD, GOOD = '{"a": "one"}', '{"a": 1}'


def call(arguments: str) -> Act:
    begin = chunk(tool_calls=[{"index": 0, "id": "1", "function": {"name": "look", "arguments": ""}}])
    rest = chunk(tool_calls=[{"index": 0, "function": {"arguments": arguments}}])
    return streams(begin, rest, chunk(reason="tool_calls"), END)


def test_tools_are_passed_on_and_their_arguments_judged() -> None:
    with running(ScriptedServer(call(GOOD))) as url, gateway(url) as app:
        body = {"model": "far", "messages": [{"role": "user", "content": "hi"}], "tools": [LOOK]}
        choice = app.client.post("/v1/chat/completions", json=body).json()["choices"][0]
        assert choice["finish_reason"] == "tool_calls"
        assert choice["message"]["tool_calls"][0]["function"] == {"name": "look", "arguments": GOOD}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "written",
    [BAD, '{"a": 1', "[1]", "", '{"a": 1}{"a": 1}', '{"a": 1, "a": 2}', '{"a": 1e1000}', '{"a": 1e99999999999}'],
    ids=["schema", "cut", "array", "none", "two", "twice", "exponent", "exponent of eleven digits"],
)
def test_bad_arguments_are_the_fault_of_the_server_that_gave_them(
    written: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A 502, or that error at the stream's end; no line of the log quotes them, and no bug of ours is counted."""
    body = {"model": "far", "messages": [{"role": "user", "content": "hi"}], "tools": [LOOK], "stream": stream}
    with running(ScriptedServer(call(written))) as url, gateway(url) as app:
        answer = app.client.post("/v1/chat/completions", json=body)
        assert answer.status_code == (200 if stream else 502)
        assert '"code":"upstream_failed"' in answer.text
        assert '"finish_reason":"tool_calls"' not in answer.text
        assert "sluicegate_invalid_answers_total 0.0" in app.client.get("/metrics").text
    assert "one" not in caplog.text


@pytest.mark.parametrize("stream", [True, False])
def test_a_second_gateway_calls_tools_for_the_first(request: pytest.FixtureRequest, stream: bool) -> None:
    """What it took apart comes as calls, not as text: id, name, and arguments in pieces that satisfy the schema."""
    said = "Extract the fields.\n\nMy name is Clara Winther and I live in Aarhus."
    body = {"messages": [{"role": "user", "content": said}], "tools": [PERSON], "tool_choice": "required"}
    bundled: RunningGateway = request.getfixturevalue("gateway")
    with gateway(f"{bundled.url}/v1", model="bundled") as app:
        asked = {**body, "model": "far", "temperature": 0, "max_tokens": 100 + stream, "stream": stream}
        answer = app.client.post("/v1/chat/completions", json=asked)
        assert answer.status_code == 200, answer.text
        name, arguments, reason, text = called_in(answer.text) if stream else called(answer.json())
        assert (name, reason, text) == ("save_person", "tool_calls", "")
        assert json.loads(arguments) == {"name": "Clara Winther", "city": "Aarhus"}
        [outcome] = app.wait_for_outcomes(1)
        assert outcome.usage.completion_tokens > 0


def called(body: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Name and arguments of the one call, how the choice ended, and its text."""
    [choice] = body["choices"]
    [call] = choice["message"]["tool_calls"]
    function = call["function"]
    return function["name"], function["arguments"], choice["finish_reason"], choice["message"]["content"] or ""


def called_in(stream: str) -> tuple[str, str, str, str]:
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
    choices = [choice for one in events for choice in one["choices"]]
    calls = [call for choice in choices for call in choice["delta"].get("tool_calls", ())]
    assert {call["index"] for call in calls} == {0}
    assert len([call for call in calls if call.get("id")]) == 1
    functions = [call["function"] for call in calls]
    assert len([f for f in functions if f["arguments"]]) > 1
    name = "".join(f.get("name", "") for f in functions)
    reasons = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    return name, "".join(f["arguments"] for f in functions), "".join(reasons), text


CUSTOM = {
    "type": "custom",
    "custom": {
        "name": "look",
        "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": 'start: "go \\"" /[a-z]+/ "\\"\\n"'}},
    },
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("written", "text"),
    [
        (json.dumps({"input": 'go "on"\n'}), 'go "on"\n'),
        ('{"input":"\\u0067o \\"on\\"\\n"}', 'go "on"\n'),
        (json.dumps({"input": 'go "on"'}), None),
        (json.dumps({"input": 'go "ON"\n'}), None),
        (json.dumps({"input": 'go "on"\n', "more": 1}), None),
        ('{"input": "go', None),
    ],
)
def test_the_text_of_a_custom_tool_is_judged_however_it_is_spelled(
    written: str, text: str | None, stream: bool
) -> None:
    body = {"model": "far", "messages": [{"role": "user", "content": "hi"}], "tools": [CUSTOM], "stream": stream}
    with running(ScriptedServer(call(written))) as url, gateway(url) as app:
        answer = app.client.post("/v1/chat/completions", json=body)
        assert ('"code":"upstream_failed"' in answer.text) == (text is None)
        if text is not None:
            assert json.dumps(text)[1:-1] in answer.text
