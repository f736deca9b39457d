"""What can be read, told from facts, is what a walk over all places finds."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from sluicegate.grammar import GrammarOptions, LazyGrammar, Vocabulary, compile_json_schema
from sluicegate.grammar.automata import CharDfa, utf8
from sluicegate.grammar.classification.openings import by_steps, of_automaton, opening_of
from sluicegate.grammar.lexemes.base import QUOTE, DfaLexeme
from sluicegate.grammar.lexemes.scalars import string_automaton, string_lexemes
from sluicegate.grammar.reading.lookahead import Lookahead
from sluicegate.grammar.reading.reading import by_walk
from sluicegate.grammar.reading.readings import InLexeme
from sluicegate.grammar.schema.strings import Strings
from sluicegate.grammar.vocabulary import kernels
from sluicegate.grammar.vocabulary.lru import SizedLru
from sluicegate.grammar.vocabulary.punctuation import PunctuationTrie, bit_numbers
from tests.grammar.grammar_checks import byte_vocabulary, check_masks
from tests.reference.mask_by_trial import mask_by_trial

SCHEMAS: list[Any] = [
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]},
    {"type": "object", "properties": {"c": {"type": "string"}, "d": {"type": "number"}}, "required": ["c"]},
    {"type": "object", "properties": {"id": {"type": "string"}, "name": {}}, "additionalProperties": False},
    {"properties": {"name": {"properties": {"id": {"type": "array"}}}, "the": {"items": {"type": "string"}}}},
    {"type": "array", "items": {"type": "array", "items": {"enum": ["", "a", "ab", 1, None]}, "minItems": 1}},
    {"type": "array", "items": {"type": "string", "maxLength": 3}, "uniqueItems": True},
    {"type": "array", "items": {"type": "number"}, "uniqueItems": True, "maxItems": 3},
    {"anyOf": [{"properties": {"a": {"const": "x"}}}, {"properties": {"a": {"type": "array"}}, "required": ["a"]}]},
    {"type": "object", "properties": {"": {"type": "string"}, '"': True, "é": {"type": "boolean"}}, "maxProperties": 2},
    {"type": "object", "additionalProperties": {"type": "object", "propertyNames": {"pattern": "^[a-c]*$"}}},
    {"contains": {"type": "string", "pattern": "b"}, "minContains": 2, "type": "array"},
    {
        "$defs": {"n": {"properties": {"a": {"$ref": "#/$defs/n"}, "b": {"items": {"$ref": "#/$defs/n"}}}}},
        "$ref": "#/$defs/n",
    },
]


def read(found: Lookahead, punctuation: PunctuationTrie) -> dict[Any, set[bytes]]:
    """Return texts by guards."""
    texts: dict[Any, set[bytes]] = {}
    for guards, bits in [((), found.read), *((guards, bits) for guards, _, bits, _ in found.doubtful)]:
        spelled = {punctuation.all[n].path for n in bit_numbers(bits) if punctuation.all[n].ids is not None}
        texts.setdefault(tuple(map(type, guards)), set()).update(spelled)
    return {guards: some for guards, some in texts.items() if some}


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("schema", SCHEMAS)
def test_what_can_be_read_is_what_a_walk_finds(schema: Any, order: Any) -> None:
    vocabulary = byte_vocabulary()
    punctuation = vocabulary.punctuation
    grammar = compile_json_schema(schema, vocabulary, options=GrammarOptions(property_order=order))
    row, compared = np.zeros(vocabulary.row_words, np.int32), 0
    for seed in range(4):
        pick, matcher = random.Random(seed), grammar.matcher()
        for _ in range(60):
            for reading in matcher._at.readings:
                if not isinstance(reading, InLexeme):
                    assert read(reading.lookahead(punctuation.root, vocabulary), punctuation) == read(
                        by_walk(reading, vocabulary), punctuation
                    )
                    compared += 1
                elif reading.state == reading.lexeme.start or reading.lexeme.outcome(reading.state) is None:
                    pass
            matcher.fill_mask(row)
            allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
            if matcher.is_finished or not allowed:
                break
            token = pick.choice(allowed)
            if token in vocabulary.eos_token_ids:
                break
            matcher.accept(token)
    assert compared


@pytest.mark.parametrize("pattern", ["", "a*", '[a-c"]{2,3}', "(id|name)?", "é|[{}]", "[^,]*"])
def test_an_automaton_reads_down_the_places_as_any_lexeme_does(pattern: str) -> None:
    punctuation = byte_vocabulary().punctuation
    quoted = string_automaton(CharDfa.from_pattern(pattern, anchored=True))
    number = DfaLexeme(utf8(CharDfa.from_pattern(r"-?(0|[1-9]\d*)(\.\d+)?", anchored=True)))
    assert quoted.start is not None
    for lexeme in (quoted, number):
        start = punctuation.root.below(QUOTE) if lexeme.is_string else punctuation.root
        assert start is not None
        inside, ended = of_automaton(lexeme, start, punctuation)
        assert (inside, dict(ended)) == (by_steps(lexeme, start)[0], dict(by_steps(lexeme, start)[1]))


_BOUNDS = [(0, None), (0, 400), (0, 0), (0, 1), (1, None), (1, 1), (2, 3), (4, None), (300, None), (300, 400)]


@pytest.mark.parametrize(("low", "high"), _BOUNDS)
@pytest.mark.parametrize("pattern", [None, "^[a-z]*$", "^(ab)*c?$", '^[^a"]*$'])
def test_a_counted_string_reads_what_steps_find(pattern: str | None, low: int, high: int | None) -> None:
    punctuation = byte_vocabulary().punctuation
    dfa = None if pattern is None else CharDfa.from_pattern(pattern)
    (lexeme,) = string_lexemes((Strings(dfa=dfa, low=low, high=high),))
    start = punctuation.root.below(QUOTE)
    assert start is not None
    inside, ended = opening_of(lexeme, punctuation)
    assert (inside, dict(ended)) == (by_steps(lexeme, start)[0], dict(by_steps(lexeme, start)[1]))


def new_vocabulary() -> Vocabulary:
    """Return a vocabulary of which no grammar has worked out anything."""
    return byte_vocabulary.__wrapped__()


@pytest.mark.parametrize("schema", SCHEMAS)
def test_masks_that_grammars_share_are_those_of_each_alone(schema: Any) -> None:
    """The same walks in a vocabulary that has masks of other grammars, some with other blanks, and in a new one."""
    shared, rows = new_vocabulary(), []
    for other in SCHEMAS:
        for whitespace in ("compact", "flexible"):
            follow(compile_json_schema(other, shared, options=GrammarOptions(whitespace=whitespace)), shared)
    for vocabulary in (shared, new_vocabulary()):
        rows.append(follow(compile_json_schema(schema, vocabulary), vocabulary))
    assert rows[0] == rows[1]
    assert len(shared.masks)


UNSPECIFIC: list[Any] = [
    True,
    {"type": "array"},
    {"type": ["object", "null"]},
    {"type": ["object", "array", "string"]},
    {"properties": {"a": {"type": "object"}, "b": {"type": "array", "maxItems": 1}}},
]
OPTIONS = [
    GrammarOptions(),
    GrammarOptions(whitespace="compact"),
    GrammarOptions(integer_digits=1, fraction_digits=0),
    GrammarOptions(blocklist=("a",)),
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("schema", UNSPECIFIC)
def test_lookaheads_that_grammars_share_are_those_of_each_alone(schema: Any, options: GrammarOptions) -> None:
    """What can be read of values of which no schema says what they hold, behind other grammars and in a new
    vocabulary."""
    shared, rows = new_vocabulary(), []
    for other in UNSPECIFIC:
        for some in OPTIONS:
            follow(compile_json_schema(other, shared, options=some), shared)
    kept = len(shared.lookaheads)
    for vocabulary in (shared, new_vocabulary()):
        rows.append(follow(compile_json_schema(schema, vocabulary, options=options), vocabulary))
    assert rows[0] == rows[1]
    assert kept
    assert len(shared.lookaheads) == kept


def test_a_value_whose_parts_a_schema_describes_shares_no_lookahead() -> None:
    vocabulary = new_vocabulary()
    described = {"type": "array", "items": {"type": "string"}}
    follow(compile_json_schema({"items": described, "type": "array"}, vocabulary), vocabulary)
    assert not len(vocabulary.lookaheads)


def follow(grammar: LazyGrammar, vocabulary: Vocabulary) -> list[bytes]:
    """Return all masks of some walks that hang on nothing but the masks."""
    row, rows = np.zeros(vocabulary.row_words, np.int32), []
    for seed in range(3):
        pick, matcher = random.Random(seed), grammar.matcher()
        for _ in range(40):
            matcher.fill_mask(row)
            rows.append(row.tobytes())
            allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
            token = pick.choice(allowed) if allowed else vocabulary.eos_token_ids[0]
            if token in vocabulary.eos_token_ids:
                break
            matcher.accept(token)
    return rows


@pytest.mark.parametrize("ids", [[], [3, 40, 41], list(range(64))])
@pytest.mark.parametrize("others", [[], [3], [3, 3, 50], [0, 63]])
def test_tokens_are_set_but_for_some_which_stay_as_they_were(ids: list[int], others: list[int]) -> None:
    row = np.array([0b1001, 1 << 18], np.int32)
    expected = {n for n in range(64) if row[n >> 5] >> (n & 31) & 1} | (set(ids) - set(others))
    kernels.set_bits_except(row, np.array(ids, np.int32), np.array(others, np.int32))
    assert {n for n in range(64) if row[n >> 5] >> (n & 31) & 1} == expected


def test_what_is_remembered_is_bounded_in_bytes_and_the_oldest_goes_first() -> None:
    kept = SizedLru(10_000)
    for number in range(100):
        kept.put(number, str(number), 1_000)
        assert kept.get(0) == "0" or number > 90  # used every time, so never the oldest
        assert kept.bytes <= 10_000
    assert kept.get(99) == "99"
    assert kept.get(50) is None
    kept.put(99, "new", 2_000)
    assert kept.get(99) == "new"
    assert kept.bytes <= 10_000


@pytest.mark.parametrize("bound", ["minItems", "maxItems"])
@pytest.mark.parametrize("items", [{"type": "string"}, {"type": "string", "maxLength": 9}, {"type": "null"}])
def test_bounds_of_hundreds_of_items_nest_no_calls(bound: str, items: object) -> None:
    """Where tokens hold whole items, what comes behind one depends on what comes behind the next: a stack of calls."""
    pieces = ['""', '","', ',""', ',"",', ',"","', '"]]', "null", ",null,", "],[", '"],["']
    words = [*(bytes([byte]) for byte in range(256)), *(piece.encode() for piece in pieces), b""]
    vocabulary = Vocabulary.from_bytes(words, eos_token_ids=[len(words) - 1])
    schema = {"type": "array", "items": {"type": "array", "items": items, bound: 300}, bound: 300}
    compiled = compile_json_schema(schema, vocabulary)
    check_masks(compiled, seed=1, steps=8)
    matcher, row = compiled.matcher(), np.zeros(vocabulary.row_words, np.int32)
    for byte in json.dumps([[None if items == {"type": "null"} else ""] * 290]).encode()[:-2]:
        matcher.accept(byte)
    for byte in b",":
        matcher.fill_mask(row)
        assert np.array_equal(row, mask_by_trial(matcher, vocabulary))
        matcher.accept(byte)
