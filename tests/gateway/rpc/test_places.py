"""Errors over gRPC name the fields of the message, not those of the HTTP body that it becomes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluicegate.gateway.grpc.messages import Choices, EmbedRequest, Message, Tool, ToolCall
from tests.gateway.rpc.calling import asking, refused, spoken

BAD = "on project nightjar"
DESCRIBED = json.dumps({"type": "object", "properties": {"a": {"description": BAD}}})
CALLED = Message(role="assistant", tool_calls=[ToolCall(id="c", name="f", arguments=json.dumps({"a": BAD}))])
WRITTEN = Message(role="assistant", tool_calls=[ToolCall(id="c", name="t", input=BAD)])
HI = Message(role="user", content="Hi")


@pytest.fixture(scope="module")
def screened() -> Any:
    stages = {"screen": {"blocklist": {"phrases": ["project nightjar"], "action": "block"}}}
    with spoken(pipeline={"screen": ["blocklist"]}, stages=stages) as (_, client):
        yield client


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (asking(BAD), "messages[0].content"),
        (asking(tools=[Tool(name="f", description=BAD)]), "tools[0].description"),
        (asking(tools=[Tool(name="f", parameters=DESCRIBED)]), "tools[0].parameters.properties[0].description"),
        (asking(regex=BAD), "regex"),
        (asking(grammar=f'start: "{BAD}"'), "grammar"),
        (asking(choice=Choices(values=["a", BAD])), "choice.values[1]"),
        (asking(json_schema=json.dumps({"enum": [BAD]})), "json_schema.enum[0]"),
        (asking(stop=[BAD]), "stop[0]"),
        (asking(more_json=json.dumps({"sluicegate": {"context": [{"text": BAD}]}})), "sluicegate.context[0].text"),
    ],
)
def test_a_refusal_of_a_rail_names_the_field(screened: Any, request_: Any, field: str) -> None:
    found = refused(lambda: screened.generate(request_))
    assert (found.reason, found.fields) == (("INVALID_ARGUMENT", "CONTENT_FILTER"), [field])
    assert field in found.message


def test_calls_of_earlier_turns_have_no_level_for_functions(screened: Any) -> None:
    for message, field in ((CALLED, "arguments"), (WRITTEN, "input")):
        request = asking(tools=[Tool(name="t", custom=True)])
        request.ClearField("messages")
        request.messages.extend([message, HI])
        assert refused(lambda asked=request: screened.generate(asked)).fields == [f"messages[0].tool_calls[0].{field}"]


def test_texts_to_embed_are_named(screened: Any) -> None:
    found = refused(lambda: screened.embed(EmbedRequest(model="scripted", input=["a", BAD])))
    assert found.fields == ["input[1]"]


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (asking(tools=[Tool(name="f", parameters='{"type": "array"}')]), "tools[0].parameters"),
        (asking(tools=[Tool(name="f", parameters="{")]), "tools[0].parameters"),
        (asking(top_logprobs=30), "top_logprobs"),
        (asking(choice=Choices()), "choice.values"),
        (asking(regex="a", more_json='{"response_format": {"type": "json_object"}}'), "regex"),
    ],
)
def test_what_cannot_be_read_is_named(screened: Any, request_: Any, field: str) -> None:
    found = refused(lambda: screened.generate(request_))
    assert found.fields == [field]
    assert "structured_outputs" not in found.message


def test_json_that_is_no_object_is_named_by_its_field_and_not_as_the_body(screened: Any) -> None:
    for request in (asking(more_json="[1]"), asking(tools=[Tool(name="f", parameters="[1]")])):
        assert "` must be a JSON object, found an array" in refused(lambda r=request: screened.generate(r)).message


def test_vectors_as_base64_are_refused_and_not_sent_as_floats(screened: Any) -> None:
    asked = EmbedRequest(model="scripted", input=["a"], more_json='{"encoding_format": "base64"}')
    assert refused(lambda: screened.embed(asked)).fields == ["encoding_format"]
