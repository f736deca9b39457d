"""Free names of several kinds are read as one lexeme, whose outcome tells the kind."""

from __future__ import annotations

from typing import Any

import pytest

from sluicegate.grammar import compile_json_schema
from sluicegate.grammar.automata import CharDfa
from sluicegate.grammar.lexemes.joint import Joint, joint_lexeme
from tests.grammar.grammar_checks import byte_vocabulary, check_masks, check_schema, walk

OVERLAPPING: dict[str, Any] = {
    "type": "object",
    "patternProperties": {"a": {"type": "integer"}, "b": {"minimum": 5}, "^x.*c$": {"maximum": 7}},
}
CLOSED: dict[str, Any] = {
    "type": "object",
    "patternProperties": {"^a.?$": {"const": 1}, "^.b$": {"type": "integer"}, "^(ab|cb|d+)": {"minimum": 1}},
    "additionalProperties": False,
    "minProperties": 2,
    "maxProperties": 3,
}
LISTED: dict[str, Any] = {
    "type": "object",
    "properties": {"ab": {"type": "string"}},
    "required": ["ab"],
    "propertyNames": {"maxLength": 3},
    "patternProperties": {"a": {"type": ["string", "integer"]}, "b": {"type": ["string", "null"]}},
}
SCHEMAS = pytest.mark.parametrize("schema", [OVERLAPPING, CLOSED, LISTED], ids=["overlapping", "closed", "listed"])


def language(pattern: str) -> CharDfa:
    return CharDfa.from_pattern(pattern, anchored=True)


@SCHEMAS
@pytest.mark.parametrize("seed", range(4))
def test_masks_are_what_trying_every_token_gives(schema: Any, seed: int) -> None:
    check_masks(compile_json_schema(schema, byte_vocabulary()), seed)


@SCHEMAS
def test_no_walk_comes_to_a_dead_end(schema: Any) -> None:
    for seed in range(6):
        walk(compile_json_schema(schema, byte_vocabulary()), seed)


def test_a_value_satisfies_what_all_patterns_of_its_name_ask() -> None:
    check_schema(
        OVERLAPPING,
        [{}, {"z": None}, {"a": 3, "b": "text"}, {"ab": 5}, {"xabc": 6}, {"xc": "text"}, {"\u00e4": []}],
        [{"a": 1.5}, {"b": 4}, {"ab": 5.5}, {"ba": 4}, {"xabc": 8}, {"xac": "text"}],
    )
    check_schema(
        CLOSED,
        [{"a": 1, "ax": 1}, {"ab": 1, "xb": 0, "dd": "text"}],
        [{"a": 1}, {"a": 2, "ax": 1}, {"a": 1, "e": 1}, {"cb": 0, "a": 1}, {"a": 1, "ax": 1, "xb": 2, "d": 3}],
    )


def test_kinds_of_names_share_one_reading() -> None:
    matcher = compile_json_schema(OVERLAPPING, byte_vocabulary()).matcher()
    for byte in b'{"x':
        matcher.accept(byte)
    assert len(matcher._at.readings) == 1


def test_the_outcome_is_the_language_and_every_spelling_counts() -> None:
    lexeme = joint_lexeme((language("a+"), language("b|[c-e]{2,}"), language("")))
    assert isinstance(lexeme, Joint)
    for text, outcome in [(b'aa"', 0), (b'b"', 1), (b'\\u0063d"', 1), (b'"', 2)]:
        state: int | None = lexeme.start
        for byte in text:
            assert state is not None
            state = lexeme.next(state, byte)
        assert state is not None
        assert lexeme.outcome(state) == outcome
        assert not lexeme.grows(state)


def test_languages_of_too_many_states_together_are_read_apart() -> None:
    assert joint_lexeme(tuple(language(f"x{c}.{{300}}") for c in "abcd")) is None
