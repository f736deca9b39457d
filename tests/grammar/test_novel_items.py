"""Objects among unique items of which little is left to write: nothing is begun that could only repeat earlier ones."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import jsonschema_rs
import numpy as np
import pytest

from sluicegate.grammar import GrammarOptions, LazyGrammar, LazyMatcher, compile_json_schema
from sluicegate.grammar.budget.meter import WorkExhausted, charge
from sluicegate.grammar.json.arrays import novelty as arrays
from sluicegate.grammar.json.objects import novelty as objects
from sluicegate.grammar.options import PropertyOrder
from sluicegate.plugins import GrammarTooCostly
from tests.fuzz.repeats import case
from tests.grammar.grammar_checks import accepts, allowed, byte_vocabulary
from tests.reference.mask_by_trial import mask_by_trial

BOOLEAN: Any = {"type": "boolean"}
TEXT: Any = {"type": "string"}


def unique(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "uniqueItems": True, **more}


def members(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False, "required": list(properties)}


def check_offered(compiled: LazyGrammar, begun: str, refused: str | None, offered: str) -> tuple[LazyMatcher, set[int]]:
    """Check that after `begun` the byte `offered` is allowed and `refused` is not. Return the matcher there, and what
    it allows."""
    matcher = compiled.matcher()
    for byte in begun.encode():
        matcher.accept(byte)
    tokens = allowed(matcher, compiled.vocabulary)
    assert refused is None or ord(refused) not in tokens
    assert ord(offered) in tokens
    return matcher, tokens


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
    "a number last": unique(members(on=BOOLEAN, price={"type": "number"})),
    "a number below 100 last": unique(members(on=BOOLEAN, n={"type": "integer", "minimum": 0, "maximum": 99})),
    "a date last": unique(members(on=BOOLEAN, day={"type": "string", "format": "date"})),
    "pairs of digits": unique(
        {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "minItems": 2, "maxItems": 2}
    ),
    "a pair last": unique(members(on=BOOLEAN, at={"type": "array", "items": {"type": "integer"}, "maxItems": 1})),
    "an object with a number last": unique(members(on=BOOLEAN, o=members(q={"type": "integer"}))),
    "a name out of a pattern": unique(
        {"type": "object", "patternProperties": {"^x..$": BOOLEAN}, "additionalProperties": False, "maxProperties": 1}
    ),
    "few objects beside texts": unique({"anyOf": [members(a=BOOLEAN), {"const": [1]}, TEXT]}),
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


ROLES = '[{"name":"x","role":"admin"},{"name":"x","role":"adm"},{"name":"x","role":"user"}'
ROWS = [
    ("a number last", '[{"on":true,"price":0},{"on":true,"price":0', "e", "."),
    ("a number last", '[{"on":true,"price":0},{"on":false,"price":0', None, "e"),
    ("a number below 100 last", '[{"on":true,"n":99},{"on":true,"n":9', "9", "8"),
    ("a date last", '[{"on":true,"day":"2020-01-01"},{"on":true,"day":"2020-01-0', "1", "2"),
    ("pairs of digits", "[[1,2],[1,", "2", "3"),
    ("a pair last", '[{"on":true,"at":[0]},{"on":true,"at":[', "0", "1"),
    ("an object with a number last", '[{"on":true,"o":{"q":0}},{"on":true,"o":{"q":', "0", "1"),
    ("a name out of a pattern", '[{"xaa":true},{"xaa":', "t", "f"),
    ("a name out of a pattern", '[{"xaa":true},{"xaa":false},{"xa', "a", "b"),
    ("pairs of digits", json.dumps([[1, n] for n in range(10)], separators=(",", ":"))[:-1] + ",[", "1", "2"),
    ("one of a few words last", ROLES + ',{"name":"x', '"', "y"),
    ("few objects beside texts", '[{"a":true},{"a":', "t", "f"),
    ("few objects beside texts", '[{"a":true},[1],{"a":false},', "{", '"'),
    ("few objects beside texts", '[{"a":true},[1],', "[", "{"),
]


@pytest.mark.parametrize(("kind", "begun", "refused", "offered"), ROWS)
def test_what_could_only_repeat_is_not_begun(kind: str, begun: str, refused: str | None, offered: str) -> None:
    compiled = compile_json_schema(KINDS[kind], byte_vocabulary(), options=GrammarOptions(whitespace="compact"))
    check_offered(compiled, begun, refused, offered)


@pytest.mark.parametrize(("kind", "begun", "refused", "offered"), ROWS)
def test_a_call_that_ran_out_of_its_bound_leaves_no_guard_out(
    kind: str, begun: str, refused: str | None, offered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What may still come is looked for once in each state: again, where the first look was cut short."""
    cuts = random.Random(0)

    def charge_or_end(amount: float) -> None:
        if cuts.random() < 0.9:
            raise WorkExhausted
        charge(amount)

    for module in (arrays, objects):
        monkeypatch.setattr(module, "charge", charge_or_end)
    compiled = compile_json_schema(KINDS[kind], byte_vocabulary(), options=GrammarOptions(whitespace="compact"))
    matcher = compiled.matcher()
    for byte in begun.encode():
        until_done(partial(allowed, matcher, compiled.vocabulary))
        until_done(partial(matcher.accept, byte))
    tokens = until_done(partial(allowed, matcher, compiled.vocabulary))
    assert refused is None or ord(refused) not in tokens
    assert ord(offered) in tokens


def until_done(call: Callable[[], Any]) -> Any:
    """Return what `call` answers once no bound ends it."""
    for _ in range(10_000):
        with contextlib.suppress(WorkExhausted, GrammarTooCostly):
            return call()
    raise AssertionError("the call never came to its end")


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
        matcher, tokens = check_offered(compiled, begun, refused, offered)
        matcher.accept(ord(offered))
        matcher.rollback(1)
        assert allowed(matcher, compiled.vocabulary) == tokens
