"""Objects among unique items of which little is left to write: nothing is begun that could only repeat earlier ones."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema_rs
import numpy as np
import pytest

from sluicegate.grammar import GrammarOptions, compile_json_schema
from sluicegate.grammar.options import PropertyOrder
from tests.fuzz.repeats import case
from tests.grammar.grammar_checks import accepts, allowed, byte_vocabulary
from tests.reference.mask_by_trial import mask_by_trial

BOOLEAN: Any = {"type": "boolean"}
TEXT: Any = {"type": "string"}


def unique(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "uniqueItems": True, **more}


def members(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False, "required": list(properties)}


KINDS: dict[str, dict[str, Any]] = {
    "a name and a switch": unique(members(name=TEXT, on=BOOLEAN)),
    "a switch and a name": unique(members(on=BOOLEAN, name=TEXT)),
    "one of a few words last": unique(members(name=TEXT, role={"enum": ["admin", "adm", "user"]})),
    "several of a few values": unique(members(id={"type": "integer"}, kind={"enum": ["a", 1, None]}, on=BOOLEAN)),
    "a constant last": unique(members(name=TEXT, kind={"const": "x"})),
    "an object last": unique(members(name=TEXT, on={"enum": [{"a": 1}, {"b": 2}, [1]]})),
    "as many as there must be": unique(members(name=TEXT, on=BOOLEAN, k={"enum": [1, 2]}), minItems=3),
    "what is left out counts": unique(
        {**members(name=TEXT, on=BOOLEAN, k={"const": 1}), "required": ["name", "on"], "maxProperties": 3}
    ),
}


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("kind", KINDS)
def test_items_that_begin_alike_always_have_a_way_on(kind: str, order: PropertyOrder) -> None:
    """Names are mostly empty, so that many items begin alike."""
    options = GrammarOptions(property_order=order, whitespace="compact")
    compiled = compile_json_schema(KINDS[kind], byte_vocabulary(), options=options)
    judge, vocabulary = jsonschema_rs.validator_for(KINDS[kind]), compiled.vocabulary
    row = np.zeros(vocabulary.row_words, np.int32)
    for seed in range(12):
        pick, matcher, text = random.Random(seed), compiled.matcher(), b""
        for _ in range(90):
            tokens = sorted(allowed(matcher, vocabulary) - set(vocabulary.eos_token_ids))
            assert tokens or matcher.can_stop, f"dead end after {text!r}"
            if pick.random() < 0.04:
                matcher.fill_mask(row)
                assert np.array_equal(row, mask_by_trial(matcher, vocabulary)), text
            if not tokens:
                break
            likely = [ord('"')] if ord('"') in tokens and pick.random() < 0.7 else tokens
            token = pick.choice(likely)
            matcher.accept(token)
            text += vocabulary.words[token]
        found = matcher.shortest_completion()
        assert found is not None, f"no way to the end after {text!r}"
        assert judge.is_valid(json.loads(text + found.text)), text + found.text


@pytest.mark.parametrize("seed", range(40))
def test_random_items_that_begin_alike(seed: int) -> None:
    outcome = case(seed)
    assert not outcome.startswith("FINDING"), outcome


def test_blanks_before_a_bracket_that_only_a_new_item_may_have_leave_a_comma() -> None:
    schema = unique({**members(a=BOOLEAN, b={"type": "integer"}), "required": ["a"]})
    assert accepts(compile_json_schema(schema, byte_vocabulary()), '[{"a":true},{"a":true\n,"b":1}]')


def test_what_is_left_of_a_member_is_offered_and_no_more() -> None:
    compiled = compile_json_schema(KINDS["a name and a switch"], byte_vocabulary())
    both = '[{"name":"x","on":true},{"name":"x","on":false}'
    assert accepts(compiled, both + "]")
    for begun, refused, offered in (
        ('[{"name":"x","on":true},{"name":"x","on":', "t", "f"),
        ('[{"name":"x","on":true},{"name":"y","on":', None, "t"),
        (both + ',{"name":"x', '"', "y"),
        (both + ',{"name":"', None, '"'),
    ):
        matcher = compiled.matcher()
        for byte in begun.encode():
            matcher.accept(byte)
        tokens = allowed(matcher, compiled.vocabulary)
        assert refused is None or ord(refused) not in tokens
        assert ord(offered) in tokens
        matcher.accept(ord(offered))
        matcher.rollback(1)
        assert allowed(matcher, compiled.vocabulary) == tokens
