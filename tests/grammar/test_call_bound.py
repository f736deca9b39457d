"""A token whose rules take too much work ends with an error that names a rule: the same one on every machine."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from sluicegate.grammar import (
    GrammarError,
    GrammarOptions,
    LazyMatcher,
    Vocabulary,
    compile_json_schema,
    compile_lark,
    compile_structural_tags,
    is_compiled,
)
from sluicegate.grammar.automata import CharDfa, string_table
from sluicegate.grammar.automata.lengths import LengthSets
from sluicegate.grammar.budget import meter
from sluicegate.grammar.budget.meter import WorkExhausted
from sluicegate.grammar.classification import automata
from sluicegate.grammar.classification.automata import of_automaton
from sluicegate.grammar.given.texts import GivenTexts
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.lexemes.string_supply import supply_of
from sluicegate.grammar.lexemes.without_given import WithoutGiven, without_given
from sluicegate.grammar.matching import grammar as matching
from sluicegate.grammar.matching.call_limits import CallLimits
from sluicegate.grammar.parsing import tokens
from sluicegate.grammar.schema.semantics import Semantics
from sluicegate.grammar.schema.strings import Strings
from sluicegate.grammar.schema.value_set import only
from sluicegate.grammar.token_ids import I32
from sluicegate.grammar.vocabulary.trie import build_trie
from sluicegate.grammar.vocabulary.trie_node import TrieNode
from sluicegate.plugins import GrammarTooCostly
from sluicegate.plugins.errors import GrammarLimit
from tests.fuzz import costly
from tests.grammar.grammar_checks import allowed, byte_vocabulary
from tests.reference.mask_by_trial import mask_by_trial

NESTED = 'start: line+\nline: "(" line* ")" | WORD line "!"\nWORD: /[a-z()!]+/\n'
"""Each letter may begin another line inside the last one."""


def work_of(matcher: LazyMatcher, charges: float) -> None:
    matcher._bounds = CallLimits(charges=charges)


def test_naming_what_is_read_takes_no_work_of_the_call_that_had_too_little() -> None:
    schema = {"properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}}
    matcher = compile_json_schema({"type": "object", **schema}, byte_vocabulary()).matcher()
    for byte in b'{"n':
        matcher.accept(byte)
    work_of(matcher, 0)
    with pytest.raises(GrammarTooCostly, match="0 s of work with its rules"):
        matcher.fill_mask(np.zeros(matcher._grammar.vocabulary.row_words, np.int32))


def test_too_much_work_names_the_rule_and_leaves_the_matcher_where_it_was() -> None:
    matcher = compile_lark(NESTED, byte_vocabulary()).matcher()
    row = np.zeros(matcher._grammar.vocabulary.row_words, np.int32)
    for byte in b"ab(":
        matcher.accept(byte)
    work_of(matcher, 100)
    with pytest.raises(GrammarTooCostly, match=r"0\.0001 s of work with its rules.* while it reads (WORD|line|start)"):
        matcher.fill_mask(row)
    matcher.bound(2.0)
    matcher.fill_mask(row)
    fresh = compile_lark(NESTED, byte_vocabulary()).matcher()
    for byte in b"ab(":
        fresh.accept(byte)
    expected = np.zeros_like(row)
    fresh.fill_mask(expected)
    assert np.array_equal(row, expected)


def test_work_is_told_before_the_first_byte_too() -> None:
    matcher = compile_lark(NESTED, byte_vocabulary()).matcher()
    work_of(matcher, 10)
    with pytest.raises(GrammarTooCostly, match="while it reads start"):
        matcher.fill_mask(np.zeros(matcher._grammar.vocabulary.row_words, np.int32))


@pytest.mark.parametrize(
    ("value", "text", "place"),
    [
        ({"type": "regex", "pattern": "[a-z]+"}, b"a", "/format/pattern"),
        (
            {"type": "tag", "begin": "<", "content": {"type": "regex", "pattern": "[a-z]+"}, "end": ">"},
            b"<a",
            "/format/content",
        ),
        ({"type": "json_string", "content": {"type": "regex", "pattern": "[a-z]+"}}, b'"a', "/format/content/pattern"),
        ({"type": "any_text", "max_chars": 9}, b"a", "free text"),
        ({"type": "tag", "begin": "<", "content": {"type": "any_text"}, "end": [">", "!"]}, b"<a", "free text"),
        ({"type": "json_schema", "json_schema": {}}, b"", "the structural tag"),
        ({"type": "grammar", "grammar": NESTED}, b"ab(", "WORD"),
    ],
)
def test_too_much_work_with_a_tag_names_the_part_that_is_read(value: Any, text: bytes, place: str) -> None:
    matcher = compile_structural_tags({"format": value}, byte_vocabulary()).matcher()
    for byte in text:
        matcher.accept(byte)
    work_of(matcher, 0)
    with pytest.raises(GrammarTooCostly, match=f"while it reads {place}"):
        matcher.fill_mask(np.zeros(matcher._grammar.vocabulary.row_words, np.int32))


def test_too_much_work_before_anything_with_a_place_says_so() -> None:
    matcher = compile_json_schema({"type": "array", "uniqueItems": True}, byte_vocabulary()).matcher()
    work_of(matcher, 0)
    with pytest.raises(GrammarTooCostly, match="while it reads the value as a whole"):
        matcher.fill_mask(np.zeros(matcher._grammar.vocabulary.row_words, np.int32))


def test_a_text_that_may_be_two_values_at_once_names_the_rule() -> None:
    matcher = compile_lark(
        'start: (word | value)+\nword: /[^x]/\nvalue: %json {"type": "object"}', byte_vocabulary()
    ).matcher()
    row = np.zeros(matcher._grammar.vocabulary.row_words, np.int32)
    with pytest.raises(GrammarLimit, match=r"two readings .* while it reads (word|value|start)"):
        _follow(matcher, row, b'{"a{"b')


def test_too_much_work_under_a_schema_names_its_place_and_may_be_asked_for_again() -> None:
    patterns = [{"pattern": f"^[a-z]{{0,{n}}}[{n}x-z]"} for n in range(3, 6)]
    schema = {"properties": {"a": {"type": "string", "allOf": patterns}}, "required": ["a"]}
    vocabulary = byte_vocabulary()
    matcher = compile_json_schema({"type": "object", **schema}, vocabulary).matcher()
    assert matcher._bounds.charges < math.inf
    row = np.zeros(vocabulary.row_words, np.int32)
    for byte in b'{"a":':
        matcher.accept(byte)
    matcher._bounds = CallLimits(charges=20, advice=matcher._bounds.advice)
    with pytest.raises(GrammarTooCostly, match=r"while it reads /properties/a; make fewer alternatives"):
        matcher.fill_mask(row)
    assert matcher.shortest_completion() is None
    assert matcher.forced_tokens() == []
    matcher.bound(2.0)
    matcher.fill_mask(row)
    assert np.array_equal(row, mask_by_trial(matcher, vocabulary))


def ticked(times: int) -> None:
    for _ in range(times):
        meter.tick()


def test_states_of_automata_steps_and_walks_are_charged() -> None:
    def spent(act: Callable[[], object], step: float = 0.0) -> float:
        with meter.allowed(meter.Allowance(5.0, ValueError("over"), charges=1e6, step=step)):
            act()
            return 1e6 - meter.left()

    texts = CharDfa.from_pattern("^[a-c]{2,30}d$")
    other = CharDfa.from_pattern("^.{0,20}d$")
    assert spent(lambda: texts.intersection(other)) > 4 * min(texts.state_count, other.state_count)
    assert spent(lambda: string_table(texts)) >= 3 * texts.state_count
    assert spent(lambda: LengthSets(texts).within(0, 40)) > 4
    assert spent(lambda: ticked(600), step=2.0) == 2 * 2 * 256
    lexeme = DfaLexeme(string_table(CharDfa.from_pattern("^[a-c]{5,6}e$")))
    assert spent(lambda: of_automaton(byte_vocabulary(), lexeme, 0)) >= 300


def test_a_table_that_may_not_be_charged_for_is_not_made_in_full() -> None:
    texts = CharDfa.from_pattern("^(.*c.{7}|[a-z]{3,40})$")
    with (
        meter.allowed(meter.Allowance(5.0, ValueError("over"), charges=300)),
        pytest.raises(ValueError, match="over"),
    ):
        string_table(texts)


def charged(text: str, seed: int) -> tuple[list[float], str]:
    """Walk; return what each call was charged, and how the walk ended."""
    found: list[float] = []
    pick = random.Random(seed)
    matcher = compile_lark(text, byte_vocabulary()).matcher()
    row = np.zeros(matcher._grammar.vocabulary.row_words, np.int32)
    for _ in range(6):
        work_of(matcher, 40_000)
        try:
            matcher.fill_mask(row)
            bits = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
            going = np.setdiff1d(bits, matcher._grammar.vocabulary.eos_token_ids)
            if not len(going):
                return found, "whole"
            matcher.accept(int(pick.choice(going.tolist())))
        except GrammarTooCostly:
            return found, "costly"
        found.append(float(row.sum()))
    return found, "long"


@pytest.mark.thorough
def test_the_same_grammar_ends_alike_each_time() -> None:
    looked = 0
    for seed in range(12):
        text = costly.lark(random.Random(f"bound:{seed}"))
        try:
            first = charged(text, seed)
        except GrammarError:  # it does not compile
            continue
        looked += 1
        assert charged(text, seed) == first
    assert looked > 6


def test_whoever_sets_a_bound_of_time_is_not_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "_CHARGES", 0)
    matcher = compile_lark(NESTED, byte_vocabulary()).matcher()
    with pytest.raises(GrammarTooCostly):
        matcher.accept(ord("a"))
    matcher.bound(2.0)
    matcher.accept(ord("a"))


def test_a_charge_past_the_allowance_is_its_error() -> None:
    with meter.allowed(meter.Allowance(5.0, ValueError("over"), charges=3)):
        meter.charge(3)
        with pytest.raises(ValueError, match="over"):
            meter.charge(1)


def test_what_is_left_of_an_allowance_is_what_may_still_be_charged() -> None:
    assert meter.left() == math.inf
    with meter.allowed(meter.Allowance(5.0, ValueError("over"), charges=30)):
        meter.charge(12.5)
        assert meter.left() == 17.5


def test_walks_of_tags_that_may_end_anywhere_are_charged() -> None:
    """Integers without anything between them can be told apart at each digit, in each of which another reading is."""
    digits = [str(number).zfill(size).encode() for size in (2, 3, 4) for number in range(10**size)]
    words = [bytes([value]) for value in range(256)] + [b"", *digits]
    vocabulary = Vocabulary.from_bytes(words, eos_token_ids=[256])
    ways = [
        {"type": "grammar", "grammar": 'start: s\ns: s s | "a"'},
        {"type": "regex", "pattern": "(a|b){1,30}"},
        {"type": "json_schema", "json_schema": {"type": "integer"}},
    ]
    loop = {"type": "star", "content": {"type": "or", "elements": ways}}
    matcher = compile_structural_tags({"format": loop}, vocabulary).matcher()
    with pytest.raises(GrammarTooCostly):
        _follow(matcher, np.zeros(vocabulary.row_words, np.int32), b"12345678901234567890")


def _follow(matcher: LazyMatcher, row: I32, text: bytes) -> None:
    for byte in text:
        matcher.fill_mask(row)
        matcher.accept(byte)


def test_only_tokens_that_may_go_on_in_json_are_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text may end anywhere before a value, but the value begins with one byte."""
    sizes: list[int] = []

    def build(words: Iterable[tuple[bytes, int]]) -> TrieNode:
        listed = list(words)
        sizes.append(len(listed))
        return build_trie(listed)

    monkeypatch.setattr(tokens, "build_trie", build)
    monkeypatch.setattr(automata, "build_trie", build)
    words = [bytes([value]) for value in range(256)] + [b"", *[f"w{number}".encode() for number in range(500)], b'w{"']
    vocabulary = Vocabulary.from_bytes(words, eos_token_ids=[256])
    matcher = compile_lark('start: /[^{]+/ j\nj: %json {"type": "object"}', vocabulary).matcher()
    assert ord("w") in allowed(matcher, vocabulary)
    assert max(sizes) == 1
    row = np.zeros(vocabulary.row_words, np.int32)
    matcher.fill_mask(row)
    assert np.array_equal(row, mask_by_trial(matcher, vocabulary))


def test_letters_below_many_places_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values between characters may begin in each place of the vocabulary, with some hundreds of letters below."""
    looked: list[int] = []
    monkeypatch.setattr(tokens, "tick", lambda: looked.append(1))
    pairs = [bytes([first, second]) for first in range(97, 123) for second in range(97, 123)]
    words = [bytes([value]) for value in range(256)] + [b"", *pairs, b"ab{", b'x{"']
    vocabulary = Vocabulary.from_bytes(words, eos_token_ids=[256])
    matcher = compile_lark('start: (/./ | j)+\nj: %json {"type": "object"}', vocabulary).matcher()
    with meter.allowed(meter.Allowance(5.0, ValueError("over"), charges=1e6)):
        assert allowed(matcher, vocabulary) >= {256 + 1, len(words) - 1}
    assert 0 < len(looked) < 500 or is_compiled()  # compiled code calls what was there when it was compiled


def test_reading_beside_given_texts_is_charged() -> None:
    """300 names of 36 characters took 90 ms that were charged for as 34."""

    def spent(act: Callable[[], object]) -> float:
        with meter.allowed(meter.Allowance(5.0, ValueError("over"), charges=1e6)):
            act()
            return 1e6 - meter.left()

    strings = Strings(dfa=CharDfa.from_pattern("^[a-c]{2,30}$"))
    supply, texts = supply_of(strings), ["a" * 30, "b" * 30]
    assert spent(lambda: supply.used_up(texts[0], texts)) >= 30
    given = GivenTexts().plus("aa").plus("ab").plus("ac")
    small = supply_of(Strings(dfa=CharDfa.from_pattern("^[a-c]{2}$")))
    lexeme = without_given(DfaLexeme(string_table(CharDfa.from_pattern("^[a-c]{2}$"))), given, small)
    assert isinstance(lexeme, WithoutGiven)
    assert lexeme.dead.start is not None
    assert spent(lambda: lexeme.run(lexeme.start, b"a")) >= 2


def test_sets_of_values_that_are_put_together_are_charged() -> None:
    semantics = Semantics(GrammarOptions().limits)
    some, other = only(booleans=frozenset({True})), only(booleans=frozenset({False}))
    with meter.allowed(meter.Allowance(1.0, WorkExhausted, charges=1_000)):
        for _ in range(100):
            semantics.intersect(some, other)
        assert meter.left() <= 700


def test_words_of_a_trie_are_charged() -> None:
    with meter.allowed(meter.Allowance(1.0, WorkExhausted, charges=500)), pytest.raises(WorkExhausted):
        build_trie((f"{number}".encode(), number) for number in range(1_000))
