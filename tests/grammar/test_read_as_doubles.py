"""Clients hold numbers as doubles: what an answer spells must satisfy its schema as they read it, too."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema_rs
import pytest

from sluicegate.gateway.answer.validation import Validator
from sluicegate.grammar import GrammarOptions, compile_json_schema
from sluicegate.plugins import Answer, Constraint
from sluicegate.plugins.testing import make_request
from tests.grammar.grammar_checks import allowed, byte_vocabulary, reads

NUMBER: dict[str, Any] = {"type": "number"}
WHOLE: dict[str, Any] = {"type": "integer"}
CASES: list[tuple[Any, list[str], list[str]]] = [
    (
        NUMBER | {"exclusiveMinimum": 3},
        ["3.0000000000000004", "3.1", "4", "33"],
        ["3", "3.0000000000000000000000000000000000000001", "3.0000000000000002"],
    ),
    (
        NUMBER | {"exclusiveMaximum": -0.1},
        ["-0.10000000000000002", "-0.2"],
        ["-0.1", "-0.100000000000000000001"],
    ),
    (
        {"oneOf": [WHOLE, NUMBER]},
        ["1.5", "0.30000000000000004", "3.000000000000002", "123456789012345.5", "-2.25"],
        ["1", "1.0", "1.00000000000000000000000001", "0.99999999999999999999999999", "11111111111111111111.5"],
    ),
    (
        NUMBER | {"not": {"enum": [1, 0.1]}},
        ["1.0000000000000002", "0.9999999999999999", "0.10000000000000002", "2"],
        ["1", "1.0000000000000000000000000000000000000001", "0.99999999999999999999", "0.1000000000000000000001"],
    ),
    (
        NUMBER | {"not": {"multipleOf": 0.25}},
        ["1.3", "0.251"],
        ["1.25", "1.2500000000000000000000000001", "3000000000000000000000.1"],
    ),
    (
        NUMBER | {"multipleOf": 3},
        ["3", "3.0", "123123123123123123123", "3.00000000000000000000"],
        ["4", "123123123123123123123.0"],
    ),
    ({"not": {"type": "integer", "minimum": 0}}, ["5.5", "-1"], ["5", "555555555555555555555555.1"]),
    (
        {"not": {"anyOf": [{"type": ["string", "null", "boolean", "array", "object"]}, {"multipleOf": 2}]}},
        ["3", "3.0", "33333333333333333333", "2.5"],
        ["2", f"3{'2' * 79}.5", "32.0000000000000000000000000000001"],
    ),
]


@pytest.mark.parametrize(("schema", "written", "refused"), CASES, ids=range(len(CASES)))
def test_a_number_is_spelled_only_so_that_it_is_valid_as_it_is_read(
    schema: Any, written: list[str], refused: list[str]
) -> None:
    compiled = compile_json_schema(schema, byte_vocabulary())
    validator = jsonschema_rs.validator_for(schema)
    for text in written:
        assert reads(compiled, text), text
        assert validator.is_valid(json.loads(text)), text
    for text in refused:
        assert not reads(compiled, text), text
        assert not validator.is_valid(json.loads(text)), text


@pytest.mark.parametrize("schema", [*(case[0] for case in CASES), {"oneOf": [WHOLE, NUMBER | {"minimum": 5}]}])
@pytest.mark.parametrize("digits", [(80, 40), (5, 3), (0, 0)])
def test_a_walk_that_repeats_a_digit_ends_in_a_number_that_readers_find_valid(schema: Any, digits: Any) -> None:
    """What weak models do: digits go on until they may not."""
    options = GrammarOptions(integer_digits=digits[0], fraction_digits=digits[1])
    compiled, vocabulary = compile_json_schema(schema, byte_vocabulary(), options=options), byte_vocabulary()
    validator = jsonschema_rs.validator_for(schema)
    for seed in range(20):
        pick, matcher, text, last = random.Random(seed), compiled.matcher(), b"", b""
        for _ in range(60):
            tokens = sorted(allowed(matcher, vocabulary) - set(vocabulary.eos_token_ids))
            if not tokens:
                break
            same = [token for token in tokens if vocabulary.words[token] == last]
            token = same[0] if same and pick.random() < 0.9 else pick.choice(tokens)
            last = vocabulary.words[token]
            text += last
            matcher.accept(token)
        found = matcher.shortest_completion()
        assert found is not None, text
        assert validator.is_valid(json.loads(text + found.text)), text + found.text


@pytest.mark.parametrize("more", [{"multipleOf": 10}, {"multipleOf": 10, "minimum": 7}, {"minimum": 7}])
def test_an_integer_of_draft_4_has_no_point_whatever_else_is_asked(more: Any) -> None:
    """As there 10.0 is none: the judge of whole answers refused it."""
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer", **more}
    compiled = compile_json_schema(schema, byte_vocabulary())
    assert reads(compiled, "10")
    assert reads(compiled, "120")
    for text in ("10.0", "1e1", "100e-1", "10.00"):
        assert not reads(compiled, text), text


@pytest.mark.parametrize(
    ("schema", "written", "refused"),
    [
        ({"const": 1234567890123456789}, ["1234567890123456789"], ["1234567890123456789.0", "1234567890123456790"]),
        ({"enum": [9007199254740993, 2]}, ["9007199254740993", "2", "2.0"], ["9007199254740993.0"]),
        ({"const": 1e22}, ["1e22", "1e+22", "10000000000000000000000", "10000000000000000000000.0"], ["2e22"]),
        ({"const": 1e23}, ["1e+23", "1e23"], ["99999999999999991611392", "100000000000000000000000"]),
        (
            {"const": 1.2345678901234567e19},
            ["1.2345678901234567e+19", "12345678901234567168.0"],
            ["12345678901234567000"],
        ),
        ({"const": 2**60}, ["1152921504606846976", "1152921504606846976.0"], ["1152921504606846977"]),
        (WHOLE | {"minimum": 9007199254740993}, ["9007199254740993"], ["9007199254740993.0", "9007199254740992"]),
        (WHOLE | {"maximum": 1e23}, ["1", "99999999999999991611392"], ["100000000000000000000000"]),
    ],
)
def test_large_whole_numbers_are_spelled_as_those_that_are_compared(
    schema: Any, written: list[str], refused: list[str]
) -> None:
    """Whole numbers are read exactly where they have no point, and as doubles where they do."""
    compiled, judge = compile_json_schema(schema, byte_vocabulary()), Validator()
    request = make_request(constraint=Constraint("json_schema", schema))
    for text in written:
        assert reads(compiled, text), text
        assert judge.complaint(request, Answer(0, text, "stop")) is None, text
    for text in refused:
        assert not reads(compiled, text), text


def test_bounds_between_which_no_double_lies_still_have_numbers() -> None:
    compiled = compile_json_schema(
        NUMBER | {"exclusiveMinimum": 3, "exclusiveMaximum": 3.0000000000000004}, byte_vocabulary()
    )
    assert reads(compiled, "3.0000000000000002")
