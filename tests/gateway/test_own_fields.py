"""Every option of `sluicegate`, in every dialect, streamed and whole, over every kind of answer, one choice and two,
from a model of ours and from another server: it has its effect, is refused by name, or the answer says that it had
none."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

from sluicegate.gateway.testing import TestApp
from tests.gateway.conftest import RunningGateway
from tests.gateway.upstream.servers import END, USAGE, ScriptedServer, Send, answers, chunk, running, streams

CHAT, RESPONSES, MESSAGES, COMPLETIONS = "/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/completions"
TURN: Any = [{"role": "user", "content": "Ada is 36. Give the age."}]
SCHEMA: Any = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
BODIES: Mapping[str, Any] = {
    CHAT: {"messages": TURN, "max_tokens": 60},
    RESPONSES: {"input": TURN, "max_output_tokens": 60},
    MESSAGES: {"messages": TURN, "max_tokens": 60},
    COMPLETIONS: {"prompt": "Ada is 36. Give the age.", "max_tokens": 60},
}
FLAT: Any = {"type": "function", "name": "f", "parameters": SCHEMA}
TEXT: Any = {"name": "t", "description": "Takes a text."}
SHAPES: Mapping[tuple[str, str], Any] = {
    (CHAT, "json"): {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
    (RESPONSES, "json"): {"text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}},
    (MESSAGES, "json"): {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    (COMPLETIONS, "json"): {"structured_outputs": {"json": SCHEMA}},
    (CHAT, "regex"): {"structured_outputs": {"regex": '\\{"a":[0-9]\\}'}},
    (COMPLETIONS, "regex"): {"structured_outputs": {"regex": '\\{"a":[0-9]\\}'}},
    (CHAT, "lark"): {"structured_outputs": {"grammar": 'start: "{\\"a\\":1}"'}},
    (COMPLETIONS, "lark"): {"structured_outputs": {"grammar": 'start: "{\\"a\\":1}"'}},
    (CHAT, "tool"): {"tools": [{"type": "function", "function": FLAT | {"type": None}}], "tool_choice": "required"},
    (RESPONSES, "tool"): {"tools": [FLAT], "tool_choice": "required"},
    (MESSAGES, "tool"): {"tools": [{"name": "f", "input_schema": SCHEMA}], "tool_choice": {"type": "any"}},
    (CHAT, "text tool"): {"tools": [{"type": "custom", "custom": TEXT}], "tool_choice": "required"},
    (RESPONSES, "text tool"): {"tools": [{"type": "custom", **TEXT}], "tool_choice": "required"},
}
SHAPES[CHAT, "tool"]["tools"][0]["function"].pop("type")  # type: ignore[index]
KINDS = ("free", "json", "regex", "lark", "tool", "text tool")
OF_JSON = ("json", "tool")
Case = tuple[str, str, bool, int]


def cases() -> list[Case]:
    """Return (path, kind of answer, streamed, choices), as far as the dialect has them."""
    found = []
    for path, kind, stream, n in itertools.product(BODIES, KINDS, (False, True), (1, 2)):
        has_choices = path in (CHAT, COMPLETIONS) or n == 1
        if has_choices and (kind == "free" or (path, kind) in SHAPES):
            found.append((path, kind, stream, n))
    return found


def body(case: Case, **ours: Any) -> dict[str, Any]:
    path, kind, stream, n = case
    more = {"n": n} if n > 1 else {}
    return {**BODIES[path], **SHAPES.get((path, kind), {}), "stream": stream, **more, "sluicegate": ours}


def said_of_it(answer: httpx.Response) -> list[Mapping[str, Any]]:
    """Return everything that an answer says under `sluicegate`, and its events of partial values."""
    if not answer.headers["content-type"].startswith("text/event-stream"):
        return [answer.json().get("sluicegate", {})]
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    assert not [event for event in events if event.get("error")], answer.text
    told = [event.get("sluicegate") or {} for event in events]
    told += [(event.get("response") or event.get("message") or {}).get("sluicegate") or {} for event in events]
    return told + [{"partial": event} for event in events if event.get("type") == "sluicegate.partial"]


def ignored(told: list[Mapping[str, Any]]) -> set[str]:
    return {name for one in told for name in one.get("ignored", ())}


def check_told(case: Case, answer: httpx.Response, *, ours: bool) -> None:
    """Check what an answer tells about itself. `ours`: our model describes its tokens."""
    _, kind, stream, _ = case
    assert answer.status_code == 200, answer.text
    told = said_of_it(answer)
    partial = [one["partial"] for one in told if "partial" in one]
    assert bool(partial) == (stream and kind in OF_JSON)
    assert ignored(told) == (set() if partial else {"sluicegate.partial"})
    assert any("stages" in one for one in told)
    found = [value for one in told for value in one.get("confidence", ())]
    missing = [one["confidence_missing"] for one in told if "confidence_missing" in one]
    assert bool(found) == (ours and kind in OF_JSON), told
    assert bool(missing) != bool(found)


ALL = {"partial": True, "explain": True, "confidence": True}


@pytest.mark.parametrize("case", cases(), ids=str)
def test_what_an_answer_is_to_tell_is_told_or_said_to_be_missing(gateway: RunningGateway, case: Case) -> None:
    asked = {"model": "bundled", **body(case, **ALL)}
    check_told(case, httpx.post(gateway.url + case[0], json=asked, timeout=120), ours=True)


# --- from another server ---------------------------------------------------------------------------------------------


async def obeys(server: ScriptedServer, send: Send) -> None:
    """Answer as was asked: with a call of the only tool, or with text that all the shapes above take."""
    asked = server.bodies[-1]
    count, tools = asked.get("n", 1), asked.get("tools")
    delta: dict[str, Any] = {"content": '{"a":1}'}
    if tools:
        arguments = '{"input": "x"}' if tools[0]["function"]["name"] == "t" else '{"a":1}'
        function = {"name": tools[0]["function"]["name"], "arguments": arguments}
        delta = {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": function}]}
    reason = "tool_calls" if tools else "stop"
    choices = [{"index": i, "message": delta, "finish_reason": reason} for i in range(count)]
    frames = [chunk(index=i, reason=reason, **delta) for i in range(count)]
    await (streams(*frames, USAGE, END) if server.streaming else answers(200, {"choices": choices}))(server, send)


@pytest.fixture(scope="module")
def far() -> Iterator[tuple[TestApp, ScriptedServer]]:
    server = ScriptedServer(obeys)
    templates = {"t@1": {"system": "Speak {{ language }}.", "user": "{{ context }} {{ question }}"}}
    with running(server) as url:
        model = {"url": url, "allow_private": True, "retries": 0, "dialect": "vllm"}
        slots = {"generate": ["upstream"], "constrain": ["grammar"], "recall": ["memory"]}
        stages = {"generate": {"upstream": {"models": {"far": model}}}}
        with TestApp(pipeline=slots, stages=stages, settings={"prompts": {"templates": templates}}) as app:
            yield app, server


@pytest.mark.parametrize("case", [case for case in cases() if case[0] != COMPLETIONS], ids=str)
def test_another_servers_answer_tells_as_much_as_is_known(far: Any, case: Case) -> None:
    app, _ = far
    check_told(case, app.client.post(case[0], json={"model": "far", **body(case, **ALL)}), ours=False)


SHAPING: Mapping[str, Any] = {
    "grammar": {"whitespace": "compact"},
    "reasoning": True,
    "on_length": "close",
    "template": "t@1",
    "variables": {"language": "Danish"},
    "context": [{"text": "a fact of ours"}],
    "context_tokens": 77,
    "cache": {"tags": ["a"]},
    "retrieve": True,
    "deadline_s": 33.0,
}
NEEDS: Mapping[str, Any] = {
    "template": {"variables": {"language": "Danish"}},
    "variables": {"template": "t@1"},
    "context_tokens": {"context": [{"text": "a fact of ours"}]},
}


def has_effect(name: str, sent: Mapping[str, Any], request: Any) -> bool:
    """Return whether the other server was asked for it, or the gateway does it by itself."""
    text = json.dumps(sent)
    does = {
        "grammar": request.constraint is not None and request.constraint.options == SHAPING["grammar"],
        "reasoning": sent.get("reasoning") is True,
        "on_length": False,
        "template": "Speak Danish." in text,
        "variables": "Speak Danish." in text,
        "context": "a fact of ours" in text,
        "context_tokens": "a fact of ours" in text,
        "cache": request.reuse.tags == ("a",),
        "retrieve": False,
        "deadline_s": request.deadline_s == 33.0,
    }
    return bool(does[name])


@pytest.mark.parametrize("name", SHAPING)
def test_what_shapes_an_answer_reaches_another_server_or_is_refused(far: Any, name: str) -> None:
    app, server = far
    for case in cases():
        if case[0] == COMPLETIONS:
            continue
        before, was_asked = len(app.outcomes), len(server.bodies)
        asked = {"model": "far", **body(case, **{name: SHAPING[name], **NEEDS.get(name, {})})}
        answer = app.client.post(case[0], json=asked)
        if answer.status_code != 200:
            assert answer.status_code == 400, answer.text
            assert f"sluicegate.{name}" in answer.text, (case, answer.text)
            continue
        told = said_of_it(answer)
        request = app.wait_for_outcomes(before + 1)[-1].request
        sent = server.bodies[-1] if len(server.bodies) > was_asked else {}
        said = any(path.startswith(f"sluicegate.{name}") for path in ignored(told))
        assert said or has_effect(name, sent, request), (case, answer.text)
