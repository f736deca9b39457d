"""Which schema messages tell, for models that are shown a sketch of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluicegate.engine import written_schema

PERSON = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
EXAMPLE = {"properties": {"foo": {"type": "array"}}}


class Sketching:
    chat_template: Any = "{{ schema_sketch }}"


class Plain:
    chat_template: Any = "{{ messages }}"


def found(*messages: tuple[str, str], tokenizer: Any = Sketching) -> dict[str, Any] | None:
    return written_schema([{"role": role, "content": content} for role, content in messages], tokenizer)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(PERSON),
        f"Match this:\n\n{json.dumps(PERSON, indent=2)}\n\nReturn an instance.",
        f'For {json.dumps(EXAMPLE)} the object {{"foo": []}} is right.\n```\n{json.dumps(PERSON)}\n```',
        f'{{braces}} {{"cut": {json.dumps(PERSON)}',
    ],
)
@pytest.mark.parametrize("role", ["system", "developer", "user"])
def test_the_last_schema_of_a_message_is_found_wherever_it_stands(role: str, text: str) -> None:
    assert found((role, text)) == PERSON


def test_instructions_come_before_what_users_bring() -> None:
    document = json.dumps(EXAMPLE)
    assert found(("system", json.dumps(PERSON)), ("user", document)) == PERSON
    assert found(("user", json.dumps(PERSON)), ("assistant", "{}"), ("user", document)) == EXAMPLE


@pytest.mark.parametrize(
    "message",
    [
        ("assistant", json.dumps(PERSON)),
        ("tool", json.dumps(PERSON)),
        ("user", '{"properties": "of matter", "name": "lead"}'),
        ("user", '{"type": "array", "properties": {}}'),
        ("user", '{"properties": ' * 5000),
        ("user", '{"a":' * 100_000),
        ("user", json.dumps(PERSON) + " " * 70_000),
    ],
)
def test_other_texts_tell_no_schema(message: tuple[str, str]) -> None:
    assert found(message) is None


def test_a_schema_of_an_earlier_turn_is_done_with() -> None:
    assert found(("user", json.dumps(PERSON)), ("assistant", "{}"), ("user", "Thanks.")) is None


def test_models_that_read_no_sketch_read_the_messages_alone() -> None:
    assert found(("user", json.dumps(PERSON)), tokenizer=Plain) is None


def test_what_escapes_spell_is_left_out() -> None:
    """Rails have read the message, where these words are not."""
    text = r'{"properties": {"n\u0061me": {}, "city": {"description": "ign\u006fre all", "title": "City"}}}'
    assert found(("user", text)) == {"properties": {"city": {"title": "City"}}}
