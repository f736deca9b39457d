"""Values as they become complete: each event leaves a part that is valid under the schema made partial."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.gateway.answer.delta import Delta
from sluicegate.gateway.answer.partial import PartialValues
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Constraint, Request, ToolCall
from tests.reference.partial_schema import partial_schema

HELPERS = Path(__file__).parents[2] / "examples" / "partial-values"
spec = importlib.util.spec_from_file_location("partial_values", HELPERS / "partial_values.py")
assert spec is not None
assert spec.loader is not None
helper: Any = importlib.util.module_from_spec(spec)
sys.modules["partial_values"] = helper  # where dataclasses look for it
spec.loader.exec_module(helper)

NAMES = st.sampled_from(["a", "b", "a/b", "~", "0", "", "__proto__", "x y"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=10,
)


@st.composite
def with_schemas(draw: st.DrawFn) -> tuple[Any, Any]:
    """Draw a value, and a schema that takes it and says as much of it as keywords can."""
    value = draw(VALUES)
    return value, draw(schemas_of(value))


@st.composite
def schemas_of(draw: st.DrawFn, value: Any) -> Any:
    kind = draw(st.sampled_from(["plain", "enum", "const", "oneOf", "anyOf", "if", "not"]))
    if kind in ("enum", "const"):
        return {"enum": [value, "other", {"other": 1}]} if kind == "enum" else {"const": value}
    told: dict[str, Any] = {}
    if isinstance(value, dict):
        told = {
            "type": "object",
            "properties": {name: draw(schemas_of(below)) for name, below in value.items()},
            "required": list(value), "minProperties": len(value), "maxProperties": len(value),
            "additionalProperties": False, "propertyNames": {"enum": list(value) or ["none"]},
            "dependentRequired": {name: list(value) for name in value},
        }  # fmt: skip
    elif isinstance(value, list):
        told = {
            "type": "array", "items": False, "minItems": len(value), "maxItems": len(value),
        }  # fmt: skip
        told |= {"prefixItems": [draw(schemas_of(below)) for below in value]} if value else {}
        told |= {"contains": {"const": value[-1]}} if value else {}
    ways = {"oneOf": [told, {"const": "nothing else"}], "anyOf": [told, False]}
    if kind in ways and value != "nothing else":
        return {kind: ways[kind]}
    if kind == "if":
        return {"if": {"const": value}, "then": told, "else": False}
    return {**told, "not": {"const": "nobody"}} if kind == "not" and value != "nobody" else told


def request(schema: Any) -> Request:
    return Request("r", "m", (), constraint=Constraint("json_schema", schema), stream=True, partial=True)


def events(text: str, size: int, schema: Any) -> list[dict[str, Any]]:
    follow = PartialValues(request(schema))
    cut = [text[i : i + size] for i in range(0, len(text), size)]
    found = [follow.feed(Delta(0, piece)) for piece in cut[:-1]] + [
        follow.feed(Delta(0, cut[-1], finish_reason="stop"))
    ]
    return [json.loads(orjson.dumps(event)) for event in found if event]


@settings(max_examples=50, deadline=None)
@given(with_schemas(), st.integers(1, 9))
def test_every_part_is_valid_under_the_schema_made_partial(both: tuple[Any, Any], size: int) -> None:
    """By a validator that shares no code; in the end the part is the whole."""
    value, schema = both
    assert jsonschema_rs.is_valid(schema, value)
    partial = jsonschema_rs.validator_for(partial_schema(schema))
    document: Any = None
    for event in events(json.dumps(value), size, schema):
        for said in event["values"]:
            document = helper.put(document, said["pointer"], said["value"])
        assert partial.is_valid(document), (schema, document)
    assert document == value


@given(VALUES, st.integers(1, 9))
def test_a_value_that_was_told_never_changes(value: Any, size: int) -> None:
    document: Any = None
    told: dict[str, Any] = {}
    for event in events(json.dumps(value), size, True):
        for said in event["values"]:
            assert said["pointer"] not in told
            document = helper.put(document, said["pointer"], said["value"])
            told |= {said["pointer"]: said["value"]} if said["complete"] else {}
    assert [json.dumps(one) for one in told.values()] == [json.dumps(leaf) for leaf in scalars(value)]


def scalars(value: Any) -> list[Any]:
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return [leaf for below in inner for leaf in scalars(below)] if inner else [value]


def test_an_answer_that_was_cut_tells_no_half_number() -> None:
    follow = PartialValues(request({}))
    assert follow.feed(Delta(0, '{"a": 12', finish_reason="length")) is None


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize(
    "raw", ["123456789012345678901234567890", "1e999", '"\\ud800"', '"a\\\\"', '"\\"\\\\\\""', "-0"]
)
def test_values_are_told_as_they_are_written(raw: str, size: int) -> None:
    """Numbers that no float holds, and half a surrogate pair, in values and in keys."""
    text = f'{{"a": {raw}, "\\ud800": [{raw}]}}'
    follow = PartialValues(request(True))
    found = [follow.feed(Delta(0, text[i : i + size])) for i in range(0, len(text), size)]
    written = b"".join(orjson.dumps(event) for event in found if event)
    assert written.count(raw.encode()) == 2
    assert "/\ufffd/0".encode() in written


def test_arguments_of_calls_are_followed_apart() -> None:
    follow = PartialValues(Request("r", "m", (), stream=True, partial=True))
    assert follow.feed(Delta(0, "Text {1}")) is None
    for call in (0, 1):
        opened = ToolCall("c", "f")
        assert follow.feed(Delta(0, channel="tool_arguments", call=call, opened=opened)) is None
    event = follow.feed(Delta(0, '{"a": [1, ', channel="tool_arguments", call=1))
    assert json.loads(orjson.dumps(event)) == {
        "index": 0,
        "call": 1,
        "values": [
            {"pointer": "/a", "value": [], "complete": False},
            {"pointer": "/a/0", "value": 1, "complete": True},
        ],
    }


# --- over the wire ---------------------------------------------------------------------------------------------------

SCRIPT = '{"name": "Ada", "tags": ["x", "y"], "age": 36}'
FORM = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
CHAT: Any = {
    "model": "scripted", "messages": [{"role": "user", "content": "x"}], "response_format": FORM, "stream": True,
    "sluicegate": {"partial": True},
}  # fmt: skip
PARTS = [{"name": "Ada"}, {"name": "Ada", "tags": ["x"]}, {"name": "Ada", "tags": ["x", "y"]}, json.loads(SCRIPT)]


def app() -> TestApp:
    return TestApp(script=[SCRIPT[i : i + 4] for i in range(0, len(SCRIPT), 4)])


def test_the_helper_for_python_follows_a_stream() -> None:
    with app() as gateway:
        raw = gateway.client.post("/v1/chat/completions", json=CHAT).text
        plain = gateway.client.post("/v1/chat/completions", json={**CHAT, "sluicegate": {}}).text
    chunks = [json.loads(line[6:]) for line in raw.splitlines() if line.startswith("data: {")]
    parts = [(part.complete, json.loads(json.dumps(part.value))) for part in helper.partial_values(chunks)]
    assert [value for _, value in parts] == PARTS
    assert [pointer for complete, _ in parts for pointer in complete] == ["/name", "/tags/0", "/tags/1", "/age"]
    assert "partial" not in plain


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses", {"input": "x", "text": {"format": {"type": "json_object"}}}),
        ("/v1/messages", {
            "max_tokens": 99, "messages": CHAT["messages"],
            "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
        }),
    ],
)  # fmt: skip
def test_other_dialects_tell_it_in_events_of_their_own(path: str, body: Any) -> None:
    asked = {"model": "scripted", "stream": True, "sluicegate": {"partial": True}, **body}
    with app() as gateway:
        raw = gateway.client.post(path, json=asked).text
    found = [json.loads(line[6:]) for line in raw.splitlines() if line.startswith("data: {")]
    told = [said for event in found if event["type"] == "sluicegate.partial" for said in event["values"]]
    assert [said["pointer"] for said in told if said["complete"]] == ["/name", "/tags/0", "/tags/1", "/age"]


def test_the_helper_for_typescript_follows_a_stream(tmp_path: Path) -> None:
    """Run by a Node.js that strips types."""
    node = shutil.which("node")
    strips = node and subprocess.run([node, "--experimental-strip-types", "-e", "0"], capture_output=True, check=False)
    if not strips or strips.returncode:
        pytest.skip("needs Node.js 22.6 or later, which strips types")
    with app() as gateway:
        raw = gateway.client.post("/v1/chat/completions", json=CHAT).text
    lines = [line[6:] for line in raw.splitlines() if line.startswith("data: {")]
    script = tmp_path / "follow.mts"
    script.write_text(
        f'import {{ partialValues }} from "{HELPERS / "partial_values.ts"}";\n'
        f"async function* chunks() {{ yield* [{','.join(lines)}] }}\n"
        "for await (const part of partialValues(chunks())) console.log(JSON.stringify(part.value));\n"
    )
    assert node is not None
    done = subprocess.run([node, "--experimental-strip-types", str(script)], capture_output=True, text=True, check=True)
    assert [json.loads(line) for line in done.stdout.splitlines()] == PARTS
