"""A schema that clients write into a message is shown to models that read sketches as one of `response_format` is."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from sluicegate.gateway.testing import TestApp
from tests.gateway.conftest import RunningGateway

PERSON = {
    "description": "A person.",
    "properties": {"name": {"title": "Name", "type": "string"}, "city": {"title": "City", "type": "string"}},
    "required": ["name", "city"],
    "title": "Person",
    "type": "object",
}
SYSTEM = f"""
            As a genius expert, your task is to understand the content and provide
            the parsed objects in json that match the following json_schema:


            {json.dumps(PERSON, indent=2)}

            Make sure to return an instance of the JSON, not the schema itself
"""
MESSAGES = [
    {"role": "system", "content": SYSTEM},
    {"role": "user", "content": "Extract the fields.\n\nMy name is Clara Winther and I live in Aarhus."},
]
TOOL = {"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {}}}}


@pytest.mark.parametrize("asked", [{"response_format": {"type": "json_object"}}, {}])
def test_the_bundled_model_fills_a_schema_in_a_message(asked: dict[str, Any], gateway: RunningGateway) -> None:
    """As instructor's modes JSON and MD_JSON write it; without the sketch, the object came back inside of itself."""
    body = {"model": "bundled", "messages": MESSAGES, "temperature": 0, **asked}
    answer = httpx.post(f"{gateway.url}/v1/chat/completions", json=body, timeout=60).json()
    assert json.loads(answer["choices"][0]["message"]["content"]) == {"name": "Clara Winther", "city": "Aarhus"}


@pytest.mark.parametrize(
    ("asked", "sketch"),
    [
        ({}, "{name:string,city:string}"),
        ({"response_format": {"type": "json_object"}}, "{name:string,city:string}"),
        ({"structured_outputs": {"choice": ["Hello back"]}}, None),
        ({"structured_outputs": {"json": {"type": "string"}}}, "string"),
        ({"structured_outputs": {"json": {}}}, "any"),
        ({"tools": [TOOL], "tool_choice": "auto"}, "{...}"),
    ],
)
def test_what_a_request_asks_for_by_a_field_is_shown_first(asked: dict[str, Any], sketch: str | None) -> None:
    """A schema in a message is looked for where the fields say no more than "an object"."""
    shown: list[str | None] = []
    app = TestApp()
    tokenizer = app.model.models["scripted"].tokenizer
    tokenizer.chat_template = "{{ schema_sketch }}"

    def render(turns: Any, *, schema_sketch: str | None = None, **more: Any) -> str:
        shown.append(schema_sketch)
        return "prompt"

    tokenizer.apply_chat_template = render
    with app:
        app.ask(stream=False, messages=MESSAGES, **asked)
    assert shown[:1] == [sketch]
