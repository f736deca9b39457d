"""What a newcomer writes wrong: the answer says what was found, where, and what to send."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from sluicegate.gateway.fields.row import OWN_NAMES
from sluicegate.gateway.testing import TestApp

CHAT, TURN = "/v1/chat/completions", [{"role": "user", "content": "x"}]
BODIES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "chat": (CHAT, {"messages": TURN}),
    "responses": ("/v1/responses", {"input": "x"}),
    "messages": ("/v1/messages", {"messages": TURN, "max_tokens": 5}),
    "completions": ("/v1/completions", {"prompt": "x"}),
}


@pytest.fixture(scope="module")
def app() -> Iterator[TestApp]:
    with TestApp(script=["said"]) as found:
        yield found


def error_message(app: TestApp, dialect: str, fields: Mapping[str, Any]) -> str:
    path, body = BODIES[dialect]
    answer = app.client.post(path, json={"model": "scripted", **body, **fields})
    assert answer.status_code == 400, answer.text
    return str(answer.json()["error"]["message"])


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"max_tokens": 0}, "`max_tokens`: Input should be greater than or equal to 1, found 0"),
    ({"temperature": -0.5}, "`temperature`: Input should be greater than or equal to 0, found -0.5"),
    ({"model": None}, "`model`: Input should be a valid string, found null"),
    ({"n": 10**99}, f"found {10**39:d}..."),
    ({"messages": "hi"}, '`messages`: Input should be an array, found "hi"'),
    ({"messages": {"role": "user"}}, "found an object"),
    ({"messages": []}, "`messages`: List should have at least 1 item after validation, not 0"),
    ({"messages": [{"role": "usr", "content": "x"}]}, 'found "usr"'),
    ({"messages": [{"role": "x" * 99, "content": "x"}]}, "found a string of 99 characters"),
    ({"messages": [{"content": "x"}]}, "`messages[0].role`: Field required"),
    ({"response_format": "json_object"}, '`response_format`: Input should be an object, found "json_object"'),
    ({"response_format": {"type": "json_schema"}}, "`response_format`: `json_schema` is required"),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": "{}"}}},
        '`response_format.json_schema.schema`: Input should be an object, or true or false, found "{}"',
    ),
    ({"tools": [{"type": "function"}]}, "`tools[0]`: `function` is required"),
]


@pytest.mark.parametrize(("fields", "words"), WRONG)
def test_a_wrong_value_is_told_beside_what_it_should_be(app: TestApp, fields: dict[str, Any], words: str) -> None:
    assert words in error_message(app, "chat", fields)


@pytest.mark.parametrize("dialect", OWN_NAMES)
def test_a_name_of_another_dialect_is_told_the_own_one(app: TestApp, dialect: str) -> None:
    for name, own in OWN_NAMES[dialect].items():
        found = error_message(app, dialect, {name: "text" if "format" not in name else {"type": "json_object"}})
        assert f"`{name}`" in found
        assert f"send `{own}`" in found or f"did you mean `{own}`" in found, found
