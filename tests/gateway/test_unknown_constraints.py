"""A constraint or an option of a draw under a name that nobody knows is refused: it would be dropped otherwise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from sluicegate.gateway.testing import TestApp

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
TURN = [{"role": "user", "content": "why?"}]
CHAT, RESPONSES, MESSAGES, COMPLETIONS = "/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/completions"
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": TURN},
    RESPONSES: {"input": "why?"},
    MESSAGES: {"messages": TURN, "max_tokens": 20},
    COMPLETIONS: {"prompt": "why?"},
}


@pytest.fixture(scope="module")
def app() -> Iterator[TestApp]:
    with TestApp(script=["hm"] * 20) as found:
        yield found


def ask(app: TestApp, path: str, **fields: Any) -> httpx.Response:
    answer: httpx.Response = app.client.post(path, json={"model": "scripted", **BODIES[path], **fields})
    return answer


def function(**fields: Any) -> dict[str, Any]:
    return {"tools": [{"type": "function", "function": {"name": "save", **fields}}]}


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, RESPONSES, MESSAGES])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("json_mode", True),
        ("guided_json_schema", SCHEMA),
        ("answerSchema", SCHEMA),
        ("expected", SCHEMA),
        ("guidance", {"regex": "a+"}),
        ("JSONFormat", "object"),
        ("stop_strings", ["a"]),
        ("temp", 0.2),
        ("ngram_penalty", 2),
    ],
)
def test_a_name_or_a_value_like_a_constraints_is_refused(app: TestApp, path: str, name: str, value: Any) -> None:
    answer = ask(app, path, **{name: value})
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert f"`{name}` is no field that is known here, and could change the answer" in error["message"]


@pytest.mark.parametrize(
    ("path", "fields", "said"),
    [
        (CHAT, function(input_schema=SCHEMA), "tools[].function.parameters"),
        (CHAT, function(inputSchema=SCHEMA), "tools[].function.parameters"),
        (CHAT, function(args=SCHEMA), "tools[].function.parameters"),
        (CHAT, {"tools": [{**function()["tools"][0], "parameters": SCHEMA}]}, "tools[].function.parameters"),
        (RESPONSES, {"tools": [{"type": "function", "name": "save", "schema": SCHEMA}]}, "tools[].parameters"),
        (MESSAGES, {"tools": [{"name": "save", "input_schema": {}, "parameters": SCHEMA}]}, "tools[].input_schema"),
        (RESPONSES, {"text": {"schema": SCHEMA}}, "text.format"),
        (MESSAGES, {"output_config": {"schema": SCHEMA}}, "output_config.format"),
    ],
)
def test_a_schema_under_a_neighbours_name_is_refused_with_the_name_of_this_dialect(
    app: TestApp, path: str, fields: dict[str, Any], said: str
) -> None:
    """A tool without its schema would be called with anything."""
    answer = ask(app, path, **fields)
    assert answer.status_code == 400, answer.text
    assert f"schema stands in `{said}`" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "fields",
    [
        {"json_mode": False},
        {"stop_strings": []},
        {"flavour": "salt"},
        function(parameters=SCHEMA, outputSchema=SCHEMA),
        function(parameters=SCHEMA, title="Save"),
        {"messages": [{"role": "assistant", "content": "{}", "parsed_json": {"properties": {}}}, *TURN]},
    ],
)
def test_what_asks_for_nothing_or_tells_of_something_else_is_reported(app: TestApp, fields: dict[str, Any]) -> None:
    answer = ask(app, CHAT, **fields)
    assert answer.status_code == 200, answer.text
    assert json.loads(answer.text)["sluicegate"]["ignored"]


def test_an_object_of_ours_names_what_it_takes(app: TestApp) -> None:
    meant = ask(app, CHAT, sluicegate={"explane": True}).json()["error"]
    assert (meant["param"], "did you mean `explain`?" in meant["message"]) == ("sluicegate.explane", True)
    other = ask(app, CHAT, structured_outputs={"max_length": 3}).json()["error"]["message"]
    assert "known: choice, disable_additional_properties" in other
