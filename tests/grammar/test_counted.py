"""A pattern with bounds on its length, counted beside the automaton, is the automaton of both."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from sluicegate.grammar import compile_json_schema
from sluicegate.grammar.automata import CharDfa
from sluicegate.grammar.automata.byte_level import character_ends
from sluicegate.grammar.automata.lengths import LengthSets
from sluicegate.grammar.classification import counted
from sluicegate.grammar.classification.automata import RootClass
from sluicegate.grammar.classification.classify import at_root
from sluicegate.grammar.completion.counted_words import of_counted
from sluicegate.grammar.lexemes import scalars
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.lexemes.counted import Counted
from sluicegate.grammar.lexemes.length_bounds import CountedState
from sluicegate.grammar.lexemes.scalars import every_string, string_automaton
from sluicegate.grammar.schema.strings import Strings
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary
from tests.grammar.grammar_checks import allowed, byte_vocabulary
from tests.reference.byte_automata import json_string_body

PATTERNS = [
    ("^(ab)*$", 1, 5),
    ("^(aa|bbbbb)$|^x+$", 4, 7),
    (r"^(?:\S+\s+){0,3}\S+$", 2, 9),
    ("^[^a]*é?$", 3, 6),
    ("(abc|12)", 0, 8),
    ("^(aaa)*$", 4, None),
    ("^😀*the$", 5, 8),
]


def tokens_of(found: RootClass, vocabulary: Vocabulary) -> tuple[set[int], set[int], set[tuple[int, int]]]:
    inside = set(found.ids.tolist())
    if found.row is not None:
        inside |= set(np.flatnonzero(np.unpackbits(found.row.view(np.uint8), bitorder="little")).tolist())
    closing = {token for ending in found.endings for token in ending.closers.tolist()}
    leaving = {pair for end in found.endings for pair in zip(end.tokens.tolist(), end.numbers.tolist(), strict=True)}
    return inside, closing, leaving


@pytest.mark.parametrize("one_by_one", [200, 0])
@pytest.mark.parametrize(("pattern", "low", "high"), PATTERNS)
def test_counting_equals_the_product(
    pattern: str, low: int, high: int | None, one_by_one: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every step of random walks, whether tokens are tried one by one or by a walk over all of them."""
    monkeypatch.setattr(counted, "_ONE_BY_ONE", one_by_one)
    vocabulary = byte_vocabulary()
    vocabulary = Vocabulary.from_bytes(vocabulary.words, eos_token_ids=vocabulary.eos_token_ids)
    dfa = CharDfa.from_pattern(pattern)
    fast = Counted(string_automaton(dfa), every_string(), low, high, dfa)
    product = dfa.intersection(CharDfa.length_between(low, high))
    slow = DfaLexeme(json_string_body(product), quoted=True)
    for seed in range(12):
        pick = random.Random(seed)
        left, right = fast.start, slow.start
        for _ in range(10):
            inside, closing, leaving = tokens_of(at_root(vocabulary, fast, left), vocabulary)
            assert (inside, closing, leaving) == tokens_of(at_root(vocabulary, slow, right), vocabulary)
            if not inside:
                break
            word = vocabulary.words[pick.choice(sorted(inside))]
            after, twin = fast.run(left, word), slow.run(right, word)
            assert after is not None
            assert twin is not None
            left, right = after, twin


@pytest.mark.parametrize(("pattern", "low", "high"), PATTERNS)
def test_lengths_are_those_of_the_product(pattern: str, low: int, high: int | None) -> None:
    dfa = CharDfa.from_pattern(pattern)
    for least in range(9):
        for most in (*range(least, 12), None):
            some = not dfa.intersection(CharDfa.length_between(least, most)).is_empty()
            assert bool(LengthSets(dfa).within(least, most) & 1) is some


@pytest.mark.parametrize(("pattern", "low", "high"), PATTERNS)
def test_short_words_are_as_short_as_any(pattern: str, low: int, high: int | None) -> None:
    """From every place of random walks, also inside a character and inside an escape."""
    dfa = CharDfa.from_pattern(pattern)
    fast = Counted(string_automaton(dfa), every_string(), low, high, dfa)
    product = dfa.intersection(CharDfa.length_between(low, high))
    for seed in range(30):
        pick = random.Random(seed)
        state: CountedState | None = fast.start
        text = b""
        while state is not None and fast.grows(state):
            words = of_counted(fast, state)
            assert words
            assert all(product.accepts(json.loads(b'"' + text + word.text)) for word in words)
            if state.char == fast.every.start:
                so_far = json.loads(b'"' + text + b'"')
                after = 0
                for character in so_far:
                    after = product.step(after, character)
                added = len(json.loads(b'"' + words[0].text))
                assert added == LengthSets(product).shortest(after, 0, None)
            byte = pick.choice(sorted(fast.next_bytes(state)))
            text += bytes([byte])
            state = fast.next(state, byte)


def test_long_strings_repeat_a_letter_where_the_pattern_settles() -> None:
    for pattern, low in (("^x[ab]*y$", 50_000), ("^(ab)*$", 1_000)):
        dfa = CharDfa.from_pattern(pattern)
        lexeme = Counted(string_automaton(dfa), every_string(), low, None, dfa)
        words = of_counted(lexeme, lexeme.start)
        assert words
        assert all(len(word.text) > low and dfa.accepts(word.text[:-1].decode()) for word in words)
    dfa = CharDfa.from_pattern("^(ab)*$")  # takes turns: too many letters to look for
    lexeme = Counted(string_automaton(dfa), every_string(), 50_000, None, dfa)
    assert of_counted(lexeme, lexeme.start) == []


@pytest.mark.parametrize("loop", [character_ends.gather_ends, None], ids=["compiled", "Python"])
@pytest.mark.parametrize("pattern", ["^(a|é|😀b|[^c])*$", "x" * 70, "[0-9]{3}"])
def test_a_character_that_is_begun_leads_where_its_bytes_lead(
    pattern: str, loop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(character_ends, "gather_ends", loop or character_ends._gather_by_numpy)
    dfa = CharDfa.from_pattern(pattern)
    table = string_automaton(dfa).table
    ends = character_ends.character_ends(table, dfa.state_count)

    def follow(state: int) -> set[int]:
        if state < dfa.state_count:
            return {state}
        return {end for after in set(table[state].tolist()) - {-1} for end in follow(after)}

    for state in range(len(table) - 1):
        bits = int.from_bytes(ends[state].tobytes(), "little")
        assert {k for k in range(dfa.state_count) if bits >> k & 1} == follow(state)


def test_many_strings_without_a_few_are_not_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Items that were given leave an item to come where the pattern has more texts than they are."""

    def refused(*_: object, **__: object) -> CharDfa:
        raise AssertionError("an automaton was made")

    many = CharDfa.from_pattern("^.{1,40}$")
    few = CharDfa.from_pattern("^[ab]$")
    assert Strings(dfa=few, minus=frozenset("ab")).is_empty()
    assert not Strings(dfa=few, minus=frozenset("a")).is_empty()
    monkeypatch.setattr(CharDfa, "difference", refused)
    assert not Strings(dfa=many, minus=frozenset("xyz")).is_empty()


def test_large_patterns_are_spelled_when_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a mask nor a completion waits for their table."""
    words = "|".join(f"w{n * 7919 % 10007}x" for n in range(60))
    schemas = [{"pattern": f"^({words})+$", **more} for more in ({}, {"maxLength": 90})]
    grammars = [compile_json_schema({"type": "string", **each}, byte_vocabulary()) for each in schemas]

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a table was made")

    monkeypatch.setattr(scalars, "string_table", refused)
    for grammar in grammars:
        matcher = grammar.matcher()
        for byte in b'"w':
            assert byte in allowed(matcher, grammar.vocabulary)
            assert matcher.shortest_completion() is not None
            matcher.accept(byte)
