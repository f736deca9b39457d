"""`/v1/messages`: Anthropic's content blocks, events and errors, spoken to with a plain HTTP client."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from sluicegate.gateway.testing import TestApp
from tests.gateway.conftest import RunningGateway
from tests.gateway.test_tools import TWO_CALLS, app

URL = "/v1/messages"
ASKED: Any = [{"role": "user", "content": "Extract the fields.\n\nMy name is Clara Winther and I live in Aarhus."}]
SCHEMA: Any = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "city": {"type": "string"}},
    "required": ["name", "city"],
    "additionalProperties": False,
}
TOOLS: Any = [
    {"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}},
    {"name": "save_person", "description": "Save.", "input_schema": SCHEMA},
]


def post(gateway: RunningGateway, **fields: Any) -> httpx.Response:
    body = {"model": "bundled", "max_tokens": 200, "temperature": 0, "messages": ASKED, **fields}
    return httpx.post(gateway.url + URL, json=body, timeout=60)


def events(raw: str) -> list[dict[str, Any]]:
    """Return the events of a stream. Asserts that each says its name in the line before its data."""
    found = []
    for block in raw.strip().split("\n\n"):
        name, data = block.splitlines()
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def test_a_structured_answer_is_valid_json_text(gateway: RunningGateway) -> None:
    body = post(gateway, output_config={"format": {"type": "json_schema", "schema": SCHEMA}}).json()
    [block] = body["content"]
    assert json.loads(block["text"]) == {"name": "Clara Winther", "city": "Aarhus"}
    assert (body["type"], body["role"], body["stop_reason"]) == ("message", "assistant", "end_turn")
    assert body["usage"]["output_tokens"] > 0


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "save_person"}])
def test_a_demanded_tool_is_used(gateway: RunningGateway, choice: Any) -> None:
    body = post(gateway, tools=TOOLS[1:], tool_choice={**choice, "disable_parallel_tool_use": True}).json()
    [block] = body["content"]
    assert (block["type"], block["name"], body["stop_reason"]) == ("tool_use", "save_person", "tool_use")
    assert block["input"] == {"name": "Clara Winther", "city": "Aarhus"}


def test_a_stream_is_made_of_blocks() -> None:
    script = "<think>\nHm.\n</think>\n\n" + TWO_CALLS
    asked = {"model": "scripted", "max_tokens": 99, "messages": ASKED, "tools": TOOLS, "stream": True}
    with app(script) as gateway:
        found = events(gateway.client.post(URL, json={**asked, "thinking": {"type": "enabled"}}).text)
    kinds = [e["content_block"]["type"] for e in found if e["type"] == "content_block_start"]
    assert kinds == ["thinking", "text", "tool_use", "tool_use"]
    arguments = "".join(e["delta"].get("partial_json", "") for e in found if e.get("index") == 2 and "delta" in e)
    assert arguments == '{"city": "Oslo"}'
    assert [e["type"] for e in found][-2:] == ["message_delta", "message_stop"]
    assert found[-2]["delta"]["stop_reason"] == "tool_use"


def test_results_documents_and_thoughts_of_earlier_turns_are_read() -> None:
    """A result is a message of role tool and a document is named as one, which is how rails know them."""
    turns = [
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": ""},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Oslo"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "sunny"}]},
                {"type": "document", "source": {"type": "text", "data": "a report", "media_type": "text/plain"}},
                {
                    "type": "search_result",
                    "source": "https://a.example",
                    "title": "A",
                    "content": [{"type": "text", "text": "b"}],
                },
                {"type": "text", "text": "So?"},
            ],
        },
        {"role": "system", "content": [{"type": "text", "text": "Answer in Danish."}]},
    ]
    body = {"model": "scripted", "max_tokens": 9, "messages": turns, "system": "Be brief.", "tools": TOOLS}
    with TestApp(script=["Fine."]) as gateway:
        assert gateway.client.post(URL, json=body).status_code == 200
        request = gateway.wait_for_outcomes()[0].request
    said = [(message.role, message.content, message.name) for message in request.messages]
    assert said == [
        ("system", "Be brief.", None),
        ("user", "Weather?", None),
        ("assistant", "I look.", None),
        ("tool", "sunny", None),
        ("user", "a report", "document"),
        ("user", "[A] https://a.example\nb", "document"),
        ("user", "So?", None),
        ("system", "Answer in Danish.", None),
    ]
    assert request.messages[2].tool_calls[0].arguments == '{"city":"Oslo"}'


@pytest.mark.parametrize(
    ("turn", "said"),
    [
        ({"role": "user", "content": [{"type": "text"}]}, "`messages[0].content[0].text`: Field required"),
        ({"role": "user", "content": [{"type": "text", "text": 5}]}, "`messages[0].content[0].text`: Input should be"),
        ({"role": "user", "content": [{"type": "document"}]}, "`messages[0].content[0].source`: Field required"),
        (
            {"role": "user", "content": [{"type": "document", "source": {"type": "url"}}]},
            "`messages[0].content[0].source`: type 'url' is not served here",
        ),
        (
            {"role": "system", "content": [{"type": "document", "source": {"type": "text", "data": "x"}}]},
            "`messages[0]`: a message of role 'system' is text, found a block of type 'document'",
        ),
    ],
)
def test_errors_name_the_place_of_the_body_that_was_sent(
    gateway: RunningGateway, turn: dict[str, Any], said: str
) -> None:
    answer = post(gateway, messages=[turn])
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["message"].startswith(said)


@pytest.mark.parametrize(
    ("fields", "status", "kind"),
    [
        ({"model": "nope"}, 404, "not_found_error"),
        ({"max_tokens": 0}, 400, "invalid_request_error"),
        ({"output_config": {"format": {"type": "json_schema", "schema": {"type": "x"}}}}, 400, "invalid_request_error"),
        ({"messages": [*ASKED, {"role": "assistant", "content": " "}]}, 400, "invalid_request_error"),
    ],
)
def test_errors_have_anthropics_shape(gateway: RunningGateway, fields: dict[str, Any], status: int, kind: str) -> None:
    answer = post(gateway, **fields)
    assert (answer.status_code, answer.json()["type"], answer.json()["error"]["type"]) == (status, "error", kind)
    assert answer.headers["request-id"] == answer.headers["x-request-id"]


def test_a_rail_that_blocks_is_a_refusal() -> None:
    rail = {"phrases": ["forbidden"], "action": "block"}
    stages = {"moderate": {"blocklist": rail}}
    asked = {"model": "scripted", "max_tokens": 99, "messages": ASKED}
    with app("It is forbidden.", pipeline={"moderate": ["blocklist"]}, stages=stages) as gateway:
        whole = gateway.client.post(URL, json=asked).json()
        found = events(gateway.client.post(URL, json={**asked, "stream": True}).text)
    assert (whole["stop_reason"], found[-2]["delta"]["stop_reason"]) == ("refusal", "refusal")
    assert whole["stop_details"]["explanation"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_sequence_that_ended_the_answer_is_named(run_gateway: Any, stream: bool) -> None:
    """Also where the answer is a kept one; an answer that ended by itself names none."""
    with run_gateway({"pipeline": {"recall": ["memory"]}}) as gateway:
        whole = post(gateway).json()
        [block] = whole["content"]
        assert set(block) == {"type", "text"}, "no member is null that clients expect to be a list"
        assert (whole["stop_reason"], whole["stop_sequence"]) in (("end_turn", None), ("max_tokens", None))
        stop = block["text"][3:6]
        for kept in (False, True):
            answer = post(gateway, stop_sequences=["never said", stop], stream=stream)
            ended = events(answer.text)[-2]["delta"] if stream else answer.json()
            assert (ended["stop_reason"], ended["stop_sequence"]) == ("stop_sequence", stop), kept
