"""What another server says instead of an answer reaches the caller as the refusal of the caller's own dialect; rails
read it, and no schema judges it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from openai import OpenAI

from sluicegate.gateway.testing import TestApp
from tests.gateway.upstream.servers import END, USAGE, Act, ScriptedServer, Send, answers, chunk, running, streams

WHY = "I cannot help with project nightjar, sorry."
SCHEMA: Any = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
FORMAT: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
TOOL: Any = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
ASK: Any = [{"role": "user", "content": "Hi"}]
WANTED: Any = [{}, {"response_format": FORMAT}, {"tools": [TOOL], "tool_choice": "required"}]


@contextmanager
def behind(act: Act, stages: Any = None, pipeline: Any = None) -> Iterator[tuple[TestApp, ScriptedServer]]:
    server = ScriptedServer(act)
    slots = {"generate": ["upstream"], "constrain": ["grammar"], **(pipeline or {})}
    with running(server) as url:
        model = {"url": url, "allow_private": True, "retries": 0, "dialect": "vllm"}
        tables = {"generate": {"upstream": {"models": {"far": model}}}, **(stages or {})}
        with TestApp(pipeline=slots, stages=tables) as app:
            yield app, server


def refuses(*said: str, content: str = "") -> Act:
    """Refuse in pieces, perhaps after the beginning of an answer; whole where nothing is streamed."""
    begun = [chunk(content)] if content else []
    streamed = streams(*begun, *(chunk(refusal=part) for part in said), chunk(reason="stop"), USAGE, END)
    message = {"role": "assistant", "content": content or None, "refusal": "".join(said)}
    whole = answers(200, {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    async def act(server: ScriptedServer, send: Send) -> None:
        await (streamed if server.streaming else whole)(server, send)

    return act


@pytest.fixture
def served() -> Iterator[tuple[TestApp, ScriptedServer]]:
    with behind(refuses(WHY[:20], WHY[20:])) as (app, server):
        yield app, server


def client(app: TestApp) -> OpenAI:
    return OpenAI(base_url=f"{app.url}/v1", api_key="none", max_retries=0)


@pytest.mark.parametrize("wanted", WANTED)
def test_a_whole_completion_has_a_refusal_and_no_content(served: Any, wanted: Any) -> None:
    app, server = served
    [choice] = client(app).chat.completions.create(model="far", messages=ASK, **wanted).choices
    assert (choice.message.refusal, choice.message.content, choice.finish_reason) == (WHY, None, "stop")
    assert len(server.bodies) == 1, "it was neither validated nor asked for again"


@pytest.mark.parametrize("wanted", WANTED)
def test_a_streamed_completion_has_a_refusal_and_no_content(served: Any, wanted: Any) -> None:
    app, server = served
    chunks = list(client(app).chat.completions.create(model="far", messages=ASK, stream=True, **wanted))
    deltas = [choice.delta for one in chunks for choice in one.choices]
    assert "".join(delta.refusal or "" for delta in deltas) == WHY
    assert not "".join(delta.content or "" for delta in deltas)
    assert [choice.finish_reason for one in chunks for choice in one.choices if choice.finish_reason] == ["stop"]
    assert len(server.bodies) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_has_a_part_of_its_own(served: Any, stream: bool) -> None:
    app, _ = served
    wanted: Any = {
        "model": "far",
        "input": "Hi",
        "text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}},
    }
    if stream:
        events = list(client(app).responses.create(stream=True, **wanted))
        assert "".join(event.delta for event in events if event.type == "response.refusal.delta") == WHY
        assert not [event for event in events if event.type.startswith("response.output_text")]
        found = events[-1].response
    else:
        found = client(app).responses.create(**wanted)
    assert found.status == "completed"
    assert [(part.type, part.refusal) for item in found.output for part in item.content] == [("refusal", WHY)]


@pytest.mark.parametrize("stream", [False, True])
def test_a_message_stops_as_a_refusal(served: Any, stream: bool) -> None:
    app, _ = served
    body = {"model": "far", "max_tokens": 99, "messages": ASK, "stream": stream}
    answer = app.client.post("/v1/messages", json=body)
    if stream:
        events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
        assert not [event for event in events if event["type"] == "content_block_start"]
        ended = next(event["delta"] for event in events if event["type"] == "message_delta")
    else:
        ended = answer.json()
        assert ended["content"] == []
    assert (ended["stop_reason"], ended["stop_details"]["explanation"]) == ("refusal", WHY)


@pytest.mark.parametrize("stream", [False, True])
def test_the_beginning_of_an_answer_stays_content(stream: bool) -> None:
    with behind(refuses(WHY, content="Well, ")) as (app, _):
        asked = client(app).chat.completions.create(model="far", messages=ASK, stream=stream)
        said = [choice.delta for one in asked for choice in one.choices] if stream else [asked.choices[0].message]
        assert "".join(part.content or "" for part in said) == "Well, "
        assert "".join(part.refusal or "" for part in said) == WHY


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("action", ["block", "redact"])
@pytest.mark.parametrize("wanted", WANTED)
def test_rails_read_a_refusal_as_they_read_an_answer(stream: bool, action: str, wanted: Any) -> None:
    stages = {"moderate": {"blocklist": {"phrases": ["project nightjar"], "action": action}}}
    pipeline = {"moderate": ["blocklist"]}
    with behind(refuses(*WHY), stages=stages, pipeline=pipeline) as (app, server):
        asked = client(app).chat.completions.create(model="far", messages=ASK, stream=stream, **wanted)
        choices = [choice for one in asked for choice in one.choices] if stream else asked.choices
        said = [choice.delta if stream else choice.message for choice in choices]
        refusal = "".join(part.refusal or "" for part in said)
        assert "nightjar" not in refusal
        assert not "".join(part.content or "" for part in said)
        if action == "redact":
            assert refusal == WHY.replace("project nightjar", "[REDACTED]")
        assert choices[-1].finish_reason == ("content_filter" if action == "block" else "stop")
        assert len(server.bodies) == 1


def test_a_refusal_is_not_kept_for_others() -> None:
    with behind(refuses(WHY), pipeline={"recall": ["memory"]}) as (app, server):
        for _ in range(2):
            client(app).chat.completions.create(model="far", messages=ASK, temperature=0)
        assert len(server.bodies) == 2


def test_an_end_that_is_a_refusal_is_one_whatever_stands_before_it() -> None:
    with behind(streams(chunk("Well, "), chunk(reason="refusal"), USAGE, END)) as (app, _):
        body = {"model": "far", "max_tokens": 99, "messages": ASK, "stream": True}
        assert '"stop_reason":"refusal"' in app.client.post("/v1/messages", json=body).text
