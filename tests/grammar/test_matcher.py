"""Promises of the matcher: masks equal to trial, undo, fork, the end."""

from __future__ import annotations

import random

import jsonschema_rs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import common
from sluicegate import grammar
from sluicegate.grammar import GrammarOptions, TokenRejected, compile_choices, compile_json_schema, compile_regex
from sluicegate.grammar.matching.state import ParserState
from tests.grammar.grammar_checks import allowed, byte_vocabulary, check_masks, walk

MASKBENCH = common.DATA / "maskbench.jsonl.gz"
SCHEMAS = [
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "abc": {"type": "string", "maxLength": 4}},
        "required": ["abc"],
    },
    {"type": "object", "additionalProperties": {"type": "boolean"}, "maxProperties": 3},
    {"type": "array", "items": {"enum": ["a", "ab", "b", 1, 12, None]}, "uniqueItems": True, "minItems": 2},
    {"type": "array", "items": {"type": "string", "minLength": 1}, "uniqueItems": True, "maxItems": 4},
    {"anyOf": [{"type": "string", "pattern": "^a[bc]*$"}, {"type": "object", "required": ["x"], "maxProperties": 2}]},
    {
        "type": "object",
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        "properties": {"a": {}, "b": {}, "c": {}},
        "maxProperties": 4,
    },
    {
        "type": "object",
        "patternProperties": {"^a": {"type": "null"}},
        "minProperties": 1,
        "additionalProperties": False,
    },
    {"type": "number", "minimum": -2.5, "maximum": 40},
    {"type": "array", "prefixItems": [{"const": {"a": [1, "x"]}}], "contains": {"type": "integer"}, "maxItems": 4},
    {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "object", "not": {"required": ["b"]}}}},
        "required": ["a"],
    },
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
@pytest.mark.parametrize("order", ["schema", "any"])
def test_the_mask_equals_trying_every_token(schema: dict[str, object], order: str) -> None:
    """Along random answers, at every step, for every token of the vocabulary."""
    compiled = compile_json_schema(schema, byte_vocabulary(), options=GrammarOptions(property_order=order))  # type: ignore[arg-type]
    for seed in range(2):
        check_masks(compiled, seed)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SCHEMAS), st.integers(0, 10**6), st.sampled_from(["schema", "required_first", "any"]))
def test_random_answers_under_the_mask_satisfy_an_independent_validator(schema: dict, seed: int, order: str) -> None:  # type: ignore[type-arg]
    compiled = compile_json_schema(schema, byte_vocabulary(), options=GrammarOptions(property_order=order))  # type: ignore[arg-type]
    text = walk(compiled, seed)
    if text is not None:
        import json

        assert jsonschema_rs.is_valid(schema, json.loads(text)), text


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(SCHEMAS), st.integers(0, 10**6), st.integers(1, 8))
def test_rolling_back_gives_bit_identical_masks(schema: dict, seed: int, back: int) -> None:  # type: ignore[type-arg]
    vocabulary = byte_vocabulary()
    matcher = compile_json_schema(schema, vocabulary).matcher()
    pick = random.Random(seed)
    rows, tokens = [], []
    for _ in range(20):
        row = np.zeros(vocabulary.row_words, np.int32)
        matcher.fill_mask(row)
        rows.append(row)
        if matcher.is_finished:
            break
        tokens.append(pick.choice(sorted(allowed(matcher, vocabulary))))
        matcher.accept(tokens[-1])
    back = min(back, len(tokens))
    matcher.rollback(back)
    row = np.zeros(vocabulary.row_words, np.int32)
    matcher.fill_mask(row)
    assert np.array_equal(row, rows[len(tokens) - back])
    for token in tokens[len(tokens) - back :]:
        matcher.accept(token)


@pytest.mark.skipif(not MASKBENCH.exists(), reason=f"no data at {MASKBENCH}")
def test_rolling_back_gives_bit_identical_masks_under_real_schemas() -> None:
    """Random walks, with random steps back and forks that wander off on the way."""
    vocabulary, pick = byte_vocabulary(), random.Random(7)
    for record in common.records(MASKBENCH, 40):
        try:
            matcher = compile_json_schema(record["schema"], vocabulary).matcher()
        except grammar.GrammarError:
            continue
        rows: list[bytes] = []  # by the number of tokens before them
        here = 0
        for _ in range(60):
            row = np.zeros(vocabulary.row_words, np.int32)
            matcher.fill_mask(row)
            rows[here + 1 :] = []
            rows[here:] = [row.tobytes()]
            tokens = sorted(allowed(matcher, vocabulary))
            if tokens and not matcher.is_finished and pick.random() < 0.8:
                matcher.accept(pick.choice(tokens))
                here += 1
                continue
            back = pick.randrange(here + 1)
            here -= back
            fork = matcher.fork()
            for each in (matcher, fork):
                each.rollback(back)
                each.fill_mask(row)
                assert row.tobytes() == rows[here], record["id"]


def test_a_fork_goes_its_own_way() -> None:
    vocabulary = byte_vocabulary()
    matcher = compile_json_schema({"type": "object"}, vocabulary).matcher()
    for byte in b'{"a"':
        matcher.accept(byte)
    fork = matcher.fork()
    before = allowed(matcher, vocabulary)
    for byte in b':1,"b"':
        fork.accept(byte)
    assert allowed(matcher, vocabulary) == before
    matcher.rollback(4)
    assert allowed(matcher, vocabulary) == allowed(
        compile_json_schema({"type": "object"}, vocabulary).matcher(), vocabulary
    )


def test_a_refused_token_raises_and_changes_nothing() -> None:
    vocabulary = byte_vocabulary()
    matcher = compile_json_schema({"type": "object"}, vocabulary).matcher()
    matcher.accept(ord("{"))
    before = allowed(matcher, vocabulary)
    for token in (ord("x"), vocabulary.eos_token_ids[0], vocabulary.size - 2, vocabulary.size + 5, -1):
        with pytest.raises(TokenRejected):
            matcher.accept(token)
        assert allowed(matcher, vocabulary) == before


def test_after_the_end_only_the_end_is_allowed() -> None:
    vocabulary = byte_vocabulary()
    eos = vocabulary.eos_token_ids[0]
    matcher = compile_json_schema({"type": "integer"}, vocabulary).matcher()
    assert not matcher.can_stop
    matcher.accept(ord("1"))
    assert matcher.can_stop
    assert not matcher.is_finished
    matcher.accept(eos)
    assert matcher.is_finished
    assert allowed(matcher, vocabulary) == {eos}
    matcher.rollback(1)
    assert ord("2") in allowed(matcher, vocabulary)
    closed = compile_json_schema({"type": "array", "maxItems": 0}, vocabulary).matcher()
    closed.accept(ord("["))
    closed.accept(ord("]"))
    assert closed.is_finished


def test_a_longer_row_is_filled_up_with_zeros_and_a_shorter_one_refused() -> None:
    vocabulary = byte_vocabulary()
    matcher = compile_json_schema(True, vocabulary).matcher()
    row = np.full(vocabulary.row_words + 3, -1, np.int32)
    matcher.fill_mask(row)
    assert not row[-3:].any()
    with pytest.raises(ValueError, match="words"):
        matcher.fill_mask(np.zeros(1, np.int32))


def test_a_regex_is_matched_from_end_to_end() -> None:
    vocabulary = byte_vocabulary()
    matcher = compile_regex(r"[ab]{2,3}é?", vocabulary).matcher()
    for byte in "abé".encode():
        matcher.accept(byte)
    assert matcher.is_finished
    with pytest.raises(grammar.Unsatisfiable):
        compile_regex(r"[^\s\S]", vocabulary)
    with pytest.raises(grammar.InvalidGrammar):
        compile_regex("(", vocabulary)


def test_choices_are_taken_whole() -> None:
    vocabulary = byte_vocabulary()
    matcher = compile_choices(["yes", "yesterday", "no"], vocabulary).matcher()
    for byte in b"yes":
        matcher.accept(byte)
    assert matcher.can_stop
    assert not matcher.is_finished
    assert ord("t") in allowed(matcher, vocabulary)
    with pytest.raises(grammar.Unsatisfiable):
        compile_choices([], vocabulary)
    with pytest.raises(grammar.InvalidGrammar):
        compile_choices("yes", vocabulary)


def test_what_is_remembered_is_bounded_and_old_matchers_live_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate.grammar.matching.state._KEPT", 20)
    vocabulary = byte_vocabulary()
    compiled = compile_json_schema({"type": "array"}, vocabulary)
    first = compiled.matcher()
    for byte in b'[{"a": 1, "b": [2]}, ':
        first.accept(byte)
    before = allowed(first, vocabulary)
    second = compiled.matcher()
    second.accept(ord("["))
    assert allowed(first, vocabulary) == before
    first.rollback(20)
    assert allowed(first, vocabulary) == allowed(second, vocabulary)


def test_threads_share_one_grammar() -> None:
    """Eight threads draw answers from one grammar at once; each is what one thread alone would draw."""
    from concurrent.futures import ThreadPoolExecutor

    alone = [walk(compile_json_schema(SCHEMAS[1], byte_vocabulary()), seed, 120) for seed in range(8)]
    shared = compile_json_schema(SCHEMAS[1], byte_vocabulary())
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda seed: walk(shared, seed, 120), range(8))) == alone


def test_plain_tokens_of_a_string_are_not_remembered_one_by_one() -> None:
    """All of them lead back to the state of any string; the text still has them, for the guards."""
    vocabulary = byte_vocabulary()
    matcher = compile_json_schema({"additionalProperties": {"type": "integer"}}, vocabulary).matcher()
    for byte in b'{"xy':
        matcher.accept(byte)
    state = matcher._at
    known = len(state.tokens)
    for word in (b"z", b"foo", "é".encode(), b"bar"):
        assert vocabulary.words.index(word) in allowed(matcher, vocabulary)
        matcher.accept(vocabulary.words.index(word))
        assert matcher._at is state
    assert len(state.tokens) == known
    matcher.rollback(1)
    for byte in b'":1,"xyzfoo':
        matcher.accept(byte)
    assert ord('"') in allowed(matcher, vocabulary)
    matcher.accept("é".encode()[0])
    assert matcher._at is not state
    matcher.accept("é".encode()[1])
    assert matcher._at is state
    assert ord('"') not in allowed(matcher, vocabulary)
    with pytest.raises(TokenRejected):
        matcher.accept(ord('"'))


def test_a_token_that_leads_back_inside_a_character_leaves_no_room_for_others() -> None:
    words = [b'"', b"\xc3", b"\xa9\xc3", b"\xa9", b"a", b""]
    matcher = compile_json_schema({"type": "string"}, grammar.Vocabulary(words, eos_token_ids=[5])).matcher()
    for token in (0, 1, 2):
        matcher.accept(token)
    state = matcher._at
    matcher.accept(2)
    assert matcher._at is state
    with pytest.raises(TokenRejected):
        matcher.accept(4)


def test_states_that_were_forgotten_remember_for_themselves() -> None:
    """They share what they have not worked out again."""
    first, second = ParserState(()), ParserState(())
    for state in (first, second):
        state.keep_step(1, state)
        state.forget()
    first.keep_token(7, second)
    first.keep_step(65, None)
    assert (first.tokens, first.steps, second.tokens, second.steps) == ({7: second}, {65: None}, {}, {})
