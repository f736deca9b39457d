"""The probability of each value: computed again from the model's own numbers, and told with its alternatives."""

from __future__ import annotations

import json
import math
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.gateway.answer.confidence import drawn_of, values_of
from sluicegate.gateway.answer.leaves import LeafReader, leaves_of
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import TokenStep
from tests.gateway.conftest import RunningGateway

CHAT = "/v1/chat/completions"
SCHEMA: Any = {
    "type": "object",
    "properties": {
        "mood": {"enum": ["glad", "sad", "angry"]},
        "urgent": {"type": "boolean"},
        "count": {"type": "integer", "minimum": 0, "maximum": 999},
        "name": {"type": "string", "maxLength": 20},
        "kind": {"const": "note"},
    },
    "required": ["mood", "urgent", "count", "name", "kind"],
    "additionalProperties": False,
}
ASKED: Any = {
    "model": "bundled",
    "messages": [{"role": "user", "content": "Extract the fields.\n\nAda is glad. She sent 12 parcels."}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
    "sluicegate": {"confidence": True, "explain": True},
    "temperature": 0,
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


def steps(*tokens: tuple[str, float] | tuple[str, float, dict[str, float]]) -> list[TokenStep]:
    """Make tokens with their probability under the mask, and those of others."""
    made = []
    for text, law, *others in tokens:
        likely = {text: law, **(others[0] if others else {})}
        told = tuple((other.encode(), math.log(value)) for other, value in likely.items())
        made.append(TokenStep(0, 0, text, 0.0, law == 1.0, None, None, text.encode(), math.log(law), told))
    return made


def described(schema: Any, *tokens: Any) -> dict[str, dict[str, Any]]:
    drawn = drawn_of(steps(*tokens))
    return {value["pointer"]: value for value in values_of(drawn, drawn.text.decode(), 0, schema)}


# --- leaves ----------------------------------------------------------------------------------------------------------


@given(JSON, st.integers(1, 7), st.sampled_from([None, 1]))
def test_leaves_are_those_of_the_value_however_it_is_cut(value: Any, size: int, indent: int | None) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    reader = LeafReader()
    found = [leaf for i in range(0, len(text), size) for leaf in reader.feed(text[i : i + size])]
    found += reader.feed("", last=True)
    assert found == leaves_of(text)
    assert all(json.loads(text[leaf.start : leaf.end]) == leaf.value == at(value, leaf.path) for leaf in found)
    assert len(found) == count(value)


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def count(value: Any) -> int:
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return sum(map(count, inner)) if inner else 1


# --- probabilities ---------------------------------------------------------------------------------------------------


def test_a_value_is_as_likely_as_its_tokens_together() -> None:
    """Borders: a token that also spells structure counts for the value; the token that ends a number counts for it."""
    found = described({}, ('{"a": "', 1.0), ("x", 0.5), ("y", 0.5), ('", "b": 1', 0.8), ("2", 0.9), ("}", 0.7))
    assert found["/a"]["probability"] == pytest.approx(0.5 * 0.5 * 0.8)
    assert found["/b"]["probability"] == pytest.approx(0.8 * 0.9 * 0.7)
    assert (found["/a"]["tokens"], found["/a"]["forced"]) == (4, 1)


def test_alternatives_are_told_where_a_token_decides() -> None:
    schema = {"properties": {"c": {"enum": ["red", "rose", "blue"]}, "d": {"type": "boolean"}}}
    found = described(
        schema,
        ('{"c": "', 1.0),
        ("r", 0.6, {"b": 0.3, "bl": 0.1}),
        ("ed", 0.75, {"os": 0.25}),
        ('", "d": ', 1.0),
        ("true", 0.9, {"fal": 0.1}),
        ("}", 1.0),
    )
    told = {a["value"]: a["probability"] for a in found["/c"]["alternatives"]}
    assert told == pytest.approx({"red": 0.45, "blue": 0.4, "rose": 0.15})
    assert {a["value"]: a["probability"] for a in found["/d"]["alternatives"]} == pytest.approx({True: 0.9, False: 0.1})
    assert found["/c"]["rest"] == found["/d"]["rest"] == 0.0


def test_what_no_token_decides_is_left_open() -> None:
    """`red` and `rose` behind another first token: nobody asked the model which of them it would have been."""
    schema = {"enum": ["red", "rose", "blue"]}
    found = described(schema, ('"', 1.0), ("b", 0.4, {"r": 0.6}), ('lue"', 1.0))[""]
    assert [a["value"] for a in found["alternatives"]] == ["blue"]
    assert found["rest"] == pytest.approx(0.6)


# --- with the bundled model ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def answer(gateway: RunningGateway) -> dict[str, Any]:
    body: dict[str, Any] = httpx.post(gateway.url + CHAT, json=ASKED, timeout=120).json()
    return body


def test_every_leaf_of_an_answer_has_a_probability(answer: dict[str, Any]) -> None:
    value = json.loads(answer["choices"][0]["message"]["content"])
    [told] = answer["sluicegate"]["confidence"]
    found = {entry["pointer"]: entry for entry in told["values"]}
    assert sorted(found) == sorted(f"/{name}" for name in value)
    assert all(0.0 <= entry["probability"] <= 1.0 for entry in told["values"])
    assert found["/kind"]["probability"] == pytest.approx(1.0, abs=0.01)  # it can be cut into tokens in several ways
    for name in ("mood", "urgent"):
        alternatives = {a["value"]: a["probability"] for a in found[f"/{name}"]["alternatives"]}
        drawn = found[f"/{name}"]["probability"]  # of the tokens drawn; the value's other spellings count for it too
        assert drawn - 1e-6 <= alternatives[value[name]] <= drawn + 0.05
        assert sum(alternatives.values()) + found[f"/{name}"]["rest"] == pytest.approx(1.0, abs=1e-4)


def test_a_probability_is_at_least_the_models_own_without_masks(answer: dict[str, Any]) -> None:
    """A mask takes mass from tokens that are refused, so none that is left gets less likely."""
    own = sum(token["logprob"] or 0.0 for token in answer["sluicegate"]["tokens"])
    under = sum(math.log(max(v["probability"], 1e-9)) for v in answer["sluicegate"]["confidence"][0]["values"])
    assert under >= own - 1e-3


def test_a_stream_tells_it_at_its_end(gateway: RunningGateway, answer: dict[str, Any]) -> None:
    asked = {**ASKED, "stream": True, "sluicegate": {"confidence": True}}
    raw = httpx.post(gateway.url + CHAT, json=asked, timeout=120).text
    last = [json.loads(line[6:]) for line in raw.splitlines() if line.startswith("data: {")][-1]
    told, whole = last["sluicegate"]["confidence"][0]["values"], answer["sluicegate"]["confidence"][0]["values"]
    assert [v["pointer"] for v in told] == [v["pointer"] for v in whole]
    for one, other in zip(told, whole, strict=True):
        assert one["probability"] == pytest.approx(other["probability"], abs=1e-3)


def test_arguments_of_calls_have_probabilities(gateway: RunningGateway) -> None:
    tool = {"type": "function", "function": {"name": "save", "parameters": SCHEMA}}
    asked = {"model": "bundled", "messages": ASKED["messages"], "tools": [tool], "tool_choice": "required",
             "parallel_tool_calls": False, "temperature": 0, "sluicegate": {"confidence": True}}  # fmt: skip
    [told] = httpx.post(gateway.url + CHAT, json=asked, timeout=120).json()["sluicegate"]["confidence"]
    assert told["call"] == 0
    assert {v["pointer"] for v in told["values"]} == {f"/{name}" for name in SCHEMA["properties"]}


def test_a_generator_that_describes_no_tokens_is_said() -> None:
    with TestApp(script=["{", "}"]) as gateway:
        asked = {**ASKED, "model": "scripted", "response_format": {"type": "json_object"}}
        said = gateway.client.post(CHAT, json=asked).json()["sluicegate"]
    assert "confidence" not in said
    assert "described" in said["confidence_missing"]
