"""`/v1/responses`: items in, items out, events in the order that clients rely on."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from sluicegate.gateway.testing import TestApp
from tests.gateway.conftest import RunningGateway
from tests.gateway.test_tools import TWO_CALLS, app

URL = "/v1/responses"
ASKED = "Extract the fields.\n\nMy name is Clara Winther and I live in Aarhus."


class Person(BaseModel):
    name: str
    city: str


TOOLS: Any = [
    {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {"city": {}}}},
    {"type": "function", "name": "save_person", "parameters": {"type": "object"}},
]


def events(gateway: TestApp, **fields: Any) -> list[dict[str, Any]]:
    body = {"model": "scripted", "input": "Hello", "stream": True, **fields}
    raw = gateway.client.post(URL, json=body).text
    found = [json.loads(line[6:]) for line in raw.splitlines() if line.startswith("data: ")]
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    return found


def test_parse_returns_a_pydantic_model(gateway: RunningGateway) -> None:
    answer = gateway.client().responses.parse(model="bundled", input=ASKED, text_format=Person, temperature=0)
    assert answer.output_parsed == Person(name="Clara Winther", city="Aarhus")
    assert (answer.status, answer.usage is not None) == ("completed", True)


def test_a_stream_ends_with_the_same_response(gateway: RunningGateway) -> None:
    client = gateway.client()
    with client.responses.stream(model="bundled", input=ASKED, text_format=Person, temperature=0) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert "".join(deltas) == final.output_text
    assert final.output_parsed == Person(name="Clara Winther", city="Aarhus")


def test_calls_are_items_and_their_outputs_come_back_as_items() -> None:
    with app(TWO_CALLS) as gateway:
        whole = gateway.client.post(URL, json={"model": "scripted", "input": "Hi", "tools": TOOLS}).json()
        kinds = [event["type"] for event in events(gateway, tools=TOOLS)]
        calls = [item for item in whole["output"] if item["type"] == "function_call"]
        outputs = [{"type": "function_call_output", "call_id": c["call_id"], "output": "sunny"} for c in calls]
        again = {"model": "scripted", "tools": TOOLS, "input": [{"role": "user", "content": "Hi"}, *calls, *outputs]}
        assert gateway.client.post(URL, json=again).status_code == 200
        prompt = gateway.model.jobs[-1].prompt.text
    assert [item["type"] for item in whole["output"]] == ["message", "function_call", "function_call"]
    assert calls[0]["arguments"] == '{"city": "Oslo"}'
    assert kinds.count("response.function_call_arguments.done") == 2
    assert kinds[-1] == "response.completed"
    assert prompt.count("sunny") == 2
    assert prompt.count("<tool_call>\n") == 3  # two calls of one assistant's turn, and the instruction


def test_thoughts_are_an_item_of_their_own() -> None:
    with app("<think>\nHm.\n</think>\n\nYes.") as gateway:
        found = events(gateway, reasoning={"effort": "low"})
    items = found[-1]["response"]["output"]
    assert [(item["type"], item["content"][0]["text"]) for item in items] == [("reasoning", "Hm."), ("message", "Yes.")]


def test_a_rail_that_blocks_leaves_a_refusal_and_says_why_it_is_incomplete() -> None:
    rail = {"phrases": ["forbidden"], "action": "block"}
    stages = {"moderate": {"blocklist": rail}}
    with app("It is forbidden.", pipeline={"moderate": ["blocklist"]}, stages=stages) as gateway:
        found = events(gateway)
    last = found[-1]
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "content_filter"}
    assert last["response"]["output"][-1]["content"][0]["type"] == "refusal"
    assert "forbidden" not in json.dumps(found)


def test_an_answer_cut_by_its_length_is_incomplete(gateway: RunningGateway) -> None:
    answer = gateway.client().responses.create(model="bundled", input=ASKED, max_output_tokens=2)
    assert (answer.status, answer.incomplete_details and answer.incomplete_details.reason) == (
        "incomplete",
        "max_output_tokens",
    )


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"store": True}, "store"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"truncation": "auto"}, "truncation"),
        ({"input": []}, "input"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0]"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format"),
        ({"tools": [{"type": "web_search"}]}, "tools"),
    ],
)
def test_what_is_not_served_is_refused_by_name(gateway: RunningGateway, fields: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        gateway.client().post("/responses", body={"model": "bundled", "input": "x", **fields}, cast_to=object)
    assert (caught.value.param or "").startswith(param)


def test_a_response_is_not_found_later_and_says_so_at_once(gateway: RunningGateway) -> None:
    answer = gateway.client().responses.create(model="bundled", input="x", max_output_tokens=2)
    assert answer.to_dict()["store"] is False
    with pytest.raises(openai.NotFoundError, match="not stored"):
        gateway.client().responses.retrieve(answer.id)


def test_openais_client_reads_a_stream_that_a_rail_stopped_within_its_json() -> None:
    rails = {"pipeline": {"moderate": ["blocklist"]}}
    stages = {"moderate": {"blocklist": {"phrases": ["project nightjar"], "action": "block"}}}
    with TestApp(script=['{"name": "on ', "project nightjar ", '", "city": ""}'], stages=stages, **rails) as app:
        client = openai.OpenAI(base_url=f"{app.url}/v1", api_key="none", max_retries=0)
        with client.responses.stream(model="scripted", input="Hi", text_format=Person) as stream:
            found = list(stream)
    last: Any = found[-1]
    assert last.type == "response.incomplete"
    assert last.response.incomplete_details.reason == "content_filter"
    assert "the safety check 'blocklist'" in last.response.output[-1].content[0].refusal


def test_openais_client_reads_a_stream_that_its_length_cut_within_its_json(gateway: RunningGateway) -> None:
    asked: Any = {"model": "bundled", "input": ASKED, "text_format": Person, "max_output_tokens": 4}
    with gateway.client().responses.stream(**asked) as stream:
        last: Any = list(stream)[-1]
    assert last.response.incomplete_details.reason == "max_output_tokens"
