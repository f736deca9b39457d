"""A JSON value inside other text ends where it may end, and what follows decides."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from sluicegate.gateway.answer import tag_validation
from sluicegate.grammar import LazyGrammar, TokenRejected, compile_json_schema, compile_lark, compile_structural_tags
from tests.grammar.grammar_checks import accepts, byte_vocabulary, check_masks

VALUES: list[dict[str, Any]] = [
    {"type": "integer"},
    {"type": "number"},
    {"type": "integer", "minimum": 3, "maximum": 127},
    {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5},
    {"enum": [1, 12, 1.5, -2]},
    {"enum": [1, "a", None, True, [1], 10]},
    {"type": ["number", "null"]},
    {},
]
ENDS = ["..", "px", "END", "e5", ".5", "0", "-1", "E", "2", "1px", ".", "+", "12", "ull", "]"]
SPELLED = ["0", "1", "12", "-2", "1.5", "10", "127", "300", "5.5", "1e2", "0.5", "null", "true", '"a"', "[1]", "3.0"]


def whole_values(schema: dict[str, Any], text: str) -> list[int]:
    """Return every offset at which the beginning of `text` is a value of `schema`, asked of the schema alone."""
    matcher = compile_json_schema(schema, byte_vocabulary()).matcher()
    found = []
    for at, byte in enumerate(text.encode()):
        try:
            matcher.accept(byte)
        except TokenRejected:
            break
        if matcher.can_stop:
            found.append(at + 1)
    return found


def lark_of(schema: dict[str, Any], end: str) -> LazyGrammar:
    return compile_lark(f"start: %json {json.dumps(schema)} {json.dumps(end)}", byte_vocabulary())


def tag_of(schema: dict[str, Any], end: str) -> dict[str, Any]:
    content = {"type": "json_schema", "json_schema": schema}
    return {"format": {"type": "tag", "begin": "BEG", "content": content, "end": end}}


def trials(pick: random.Random, end: str) -> list[str]:
    """Draw texts that are near to a value and `end`."""
    texts = [text + end for text in SPELLED]
    texts += [pick.choice(SPELLED) + pick.choice(ENDS) + end for _ in range(4)]
    return [*texts, *("".join(pick.choices("0123.5eE+-px", k=5)) + end for _ in range(4)), end]


@pytest.mark.parametrize("schema", VALUES, ids=json.dumps)
def test_a_value_ends_where_what_follows_begins(schema: dict[str, Any]) -> None:
    pick = random.Random(json.dumps(schema))
    taken = 0
    for end in ENDS:
        grammar = lark_of(schema, end)
        tagged = compile_structural_tags(tag_of(schema, end), byte_vocabulary())
        for text in trials(pick, end):
            expected = text.endswith(end) and len(text) - len(end) in whole_values(schema, text)
            taken += expected
            assert accepts(grammar, text, seed=1) is expected, text
            assert accepts(tagged, "BEG" + text, seed=0) is expected, text
            if expected:
                assert judged(tag_of(schema, end), "BEG" + text), text
    assert taken > len(ENDS)


def judged(tag: dict[str, Any], text: str) -> bool:
    """Return whether the judge before the answer leaves, who knows no masks, takes `text`."""
    schema = tag["format"]["content"]["json_schema"]
    grammar = compile_json_schema(schema, byte_vocabulary())

    def judge(_: Any, value: Any) -> str | None:
        return None if accepts(grammar, json.dumps(value)) else "no value"

    return tag_validation.complaint(tag, text, judge, json.JSONDecoder()) is None


@pytest.mark.parametrize("end", ENDS)
def test_masks_at_both_readings_are_what_trying_every_token_gives(end: str) -> None:
    for number, schema in enumerate(VALUES):
        check_masks(lark_of(schema, end), number, steps=8)
        check_masks(compile_structural_tags(tag_of(schema, end), byte_vocabulary()), number, steps=12)


def test_numbers_and_patterns_meet_anywhere() -> None:
    grammar = compile_lark(
        'start: "[" range ("," range)* "]"\n'
        'range: %json {"type": "integer"} ".." %json {"type": "integer"} | %json {"type": "number"} /[0-9]px/',
        byte_vocabulary(),
    )
    for text in ("[1..5]", "[11px]", "[1..5,2.50px,-3..12]"):
        assert accepts(grammar, text)
    for text in ("[1.5]", "[1px]", "[1...5]", "[..5]"):
        assert not accepts(grammar, text)
