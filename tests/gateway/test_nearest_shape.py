"""Of several objects that a place could hold, an error speaks of the nearest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sluicegate.gateway.api.body.shared_fields import NO_EXTENSION, Extension
from sluicegate.gateway.api.dialects.chat_request import parse_chat
from sluicegate.gateway.api.dialects.completions_request import parse_completions
from sluicegate.gateway.api.dialects.responses_request import parse_response
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import RequestError

CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
INPUT = {"model": "m", "input": []}
CHAT = {"model": "m", "messages": []}


def without(item: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != name}


RESPONSES: list[tuple[dict[str, Any], str]] = [
    ({"role": "usr", "content": "hi"}, "input[0].role"),
    ({"role": "user"}, "input[0].content"),
    ({"type": "message", "role": "user"}, "input[0].content"),
    ({"type": "message", "content": "hi"}, "input[0].role"),
    ({"role": "user", "content": 3}, "input[0].content"),
    *((without(CALL, name), f"input[0].{name}") for name in ("call_id", "name", "arguments")),
    ({**CALL, "name": 3}, "input[0].name"),
    ({"role": "user", "content": [{"type": "input_text", "content": "hi"}]}, "input[0].content[0]"),
    ({"role": "assistant", "content": [{"type": "refusal", "text": "no"}]}, "input[0].content[0]"),
]


@pytest.mark.parametrize(("item", "param"), RESPONSES)
def test_an_item_of_a_response(item: dict[str, Any], param: str) -> None:
    assert refused(parse_response, {**INPUT, "input": [item]}).param == param


@pytest.mark.parametrize("role", ["user", "system", "developer"])
@pytest.mark.parametrize("content", [{}, {"content": None}])
def test_a_message_without_content(role: str, content: dict[str, Any]) -> None:
    error = refused(parse_chat, {**CHAT, "messages": [{"role": role, **content}]})
    assert error.param == "messages[0]"
    assert "needs `content`" in error.message


def test_an_empty_text_is_a_content_and_an_answer_may_have_been_all_thoughts() -> None:
    said = [{"role": "user", "content": ""}, {"role": "assistant", "content": None}, {"role": "user", "content": "b"}]
    assert [message.content for message in parse_chat({**CHAT, "messages": said}, None).request.messages] == [
        "",
        "",
        "b",
    ]


def refused(parse: Callable[[dict[str, Any], str | None], object], body: dict[str, Any]) -> RequestError:
    with pytest.raises(RequestError) as caught:
        parse(body, None)
    return caught.value


def test_what_bodies_share_that_have_no_object_of_ours_is_written_to_by_none() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
    body = {**CHAT, "messages": [{"role": "user", "content": "hi"}], "response_format": schema}
    first = parse_chat(body, None).request
    parse_chat({**body, "sluicegate": {"grammar": {"blocklist": ["a"]}, "explain": True}}, None)
    assert parse_chat(body, None).request.constraint == first.constraint
    assert Extension() == NO_EXTENSION


CHOICES: list[tuple[Any, str, str]] = [
    ({"type": "function", "function": "a"}, "tool_choice.function", "an object"),
    ({"type": "allowed_tools", "mode": "auto", "tools": []}, "tool_choice.allowed_tools", "required"),
    ({"type": "function", "name": "a"}, "tool_choice", "`function` is required"),
    ({"type": "any"}, "tool_choice.type", "'function' or 'custom'"),
    ("always", "tool_choice", "'none', 'auto', 'required' or 'any'"),
]


@pytest.mark.parametrize(("choice", "param", "said"), CHOICES)
def test_a_choice_of_tools_in_another_dialects_shape(choice: Any, param: str, said: str) -> None:
    tools = [{"type": "function", "function": {"name": "a"}}]
    error = refused(
        parse_chat, {**CHAT, "messages": [{"role": "user", "content": "hi"}], "tools": tools, "tool_choice": choice}
    )
    assert error.param == param
    assert said in error.message


def test_a_name_that_goes_on_for_ever_is_not_repeated_whole() -> None:
    tools = [{"type": "function", "function": {"name": "x" * 5000}}]
    error = refused(parse_chat, {**CHAT, "messages": [{"role": "user", "content": "hi"}], "tools": tools})
    assert "is no name for a tool" in error.message
    assert len(error.message) < 200


HI = {"role": "user", "content": "hi"}
KINDS: list[tuple[Callable[[dict[str, Any], str | None], object], dict[str, Any], str]] = [
    (parse_completions, {"prompt": 3}, "`prompt`: Input should be a string or an array, found 3"),
    (parse_response, {"input": 3}, "`input`: Input should be a string or an array, found 3"),
    (parse_chat, {"messages": [{**HI, "content": {}}]}, "`messages[0].content`: Input should be a string or an array"),
    (parse_chat, {"messages": [HI], "guided_json": 3}, "an object, true or false, or a string, found 3"),
    (parse_chat, {"messages": [HI], "tool_choice": 3}, "'none', 'auto', 'required' or 'any', or an object, found 3"),
    (
        parse_chat,
        {"messages": [HI], "temperature": []},
        "`temperature`: Input should be a valid number, found an array",
    ),
]


@pytest.mark.parametrize(("parse", "fields", "said"), KINDS)
def test_every_kind_of_value_that_a_field_takes_is_named(parse: Any, fields: dict[str, Any], said: str) -> None:
    assert said in refused(parse, {"model": "m", **fields}).message


@pytest.mark.parametrize(
    ("path", "text"), [("/v1/embeddings", "x"), ("/v1/embeddings", [1, 2]), ("/v1/moderations", "x")]
)
def test_a_list_of_too_many_is_called_too_long_whatever_else_it_could_hold(path: str, text: Any) -> None:
    with TestApp() as app:
        answer = app.client.post(path, json={"model": "scripted", "input": [text] * 3000})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "input"
    assert "at most" in answer.json()["error"]["message"]
