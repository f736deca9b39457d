"""The laws of languages, and what can be read off an automaton."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.grammar.automata import Budget, CharDfa
from sluicegate.plugins.errors import GrammarLimit, InvalidGrammar
from tests.grammar.automata.strategies import any_text, patterns, texts

_SETTINGS = settings(max_examples=150, deadline=None)
languages = patterns("^", "$").map(lambda pattern: CharDfa.from_pattern(pattern)) | st.lists(texts, max_size=4).map(
    CharDfa.from_literals
)


@_SETTINGS
@given(languages, languages, languages)
def test_boolean_laws_hold_as_equal_digests(a: CharDfa, b: CharDfa, c: CharDfa) -> None:
    assert a.union(b) == b.union(a)
    assert a.intersection(b.union(c)) == a.intersection(b).union(a.intersection(c))
    assert a.union(b).complement() == a.complement().intersection(b.complement())
    assert a.complement().complement() == a
    assert a.difference(b) == a.intersection(b.complement())
    assert a.union(a.complement()) == CharDfa.any_string()
    assert a.intersection(a.complement()) == CharDfa.nothing()
    assert a.intersection(b).is_subset(a)


@_SETTINGS
@given(languages, languages, st.lists(texts, min_size=4, max_size=8))
def test_operations_mean_what_they_say(a: CharDfa, b: CharDfa, samples: list[str]) -> None:
    both, either, neither = a.intersection(b), a.union(b), a.union(b).complement()
    joined = a.concat(b)
    for text in samples:
        assert both.accepts(text) == (a.accepts(text) and b.accepts(text))
        assert either.accepts(text) == (a.accepts(text) or b.accepts(text))
        assert neither.accepts(text) != either.accepts(text)
        splits = ((text[:cut], text[cut:]) for cut in range(len(text) + 1))
        assert joined.accepts(text) == any(a.accepts(left) and b.accepts(right) for left, right in splits)


@_SETTINGS
@given(st.sets(any_text, max_size=20))
def test_literals_are_exactly_themselves(words: set[str]) -> None:
    dfa = CharDfa.from_literals(words)
    assert set(dfa.enumerate(100)) == words
    assert dfa.count() == len(words)
    assert dfa.length_range() == ((min(map(len, words)), max(map(len, words))) if words else None)
    pattern = "|".join("".join(rf"\u{{{ord(c):x}}}" for c in word) for word in words)
    assert not words or dfa == CharDfa.from_pattern(pattern, anchored=True)


@_SETTINGS
@given(languages)
def test_enumeration_is_by_length_then_code_point_and_the_shortest_is_accepted(dfa: CharDfa) -> None:
    words = list(dfa.enumerate(30))
    assert words == sorted(set(words), key=lambda word: (len(word), word))
    assert all(map(dfa.accepts, words))
    shortest = dfa.shortest()
    assert (shortest is None) == dfa.is_empty() == (not words)
    assert shortest is None or (dfa.accepts(shortest) and len(shortest) == len(words[0]))
    assert len(words) == 30 or dfa.count() == len(words)


@_SETTINGS
@given(languages, texts)
def test_transitions_are_sorted_disjoint_and_walkable(dfa: CharDfa, text: str) -> None:
    state = dfa.start
    for character in text:
        ranges = dfa.transitions(state)
        assert all(a[1] < b[0] for a, b in itertools.pairwise(ranges))
        target = next((t for low, high, t in ranges if low <= ord(character) <= high), -1)
        assert target == dfa.step(state, character)
        if target < 0:
            return
        state = target
    assert (state in dfa.accepting) == dfa.accepts(text)


@pytest.mark.parametrize(("low", "high"), [(0, None), (0, 0), (2, None), (2, 5), (3, 2)])
def test_length_counts_code_points(low: int, high: int | None) -> None:
    dfa = CharDfa.length_between(low, high)
    for length in range(8):
        assert dfa.accepts("😀" * length) == (low <= length and (high is None or length <= high))
    if high is None or low <= high:
        counts = f"{{{low},{'' if high is None else high}}}"
        assert dfa == CharDfa.from_pattern(f"^[^]{counts}$")
    else:
        assert dfa == CharDfa.nothing()


def test_equal_languages_have_equal_digests_whatever_their_spelling() -> None:
    spellings = ["^(a|b)*c$", "^[ab]*c$", "^(?:a*b*)*c$", "^(?=.*c$)[abc]*$(?<![c].*c)", r"^[\x61-b]{0,}c$"]
    assert len({CharDfa.from_pattern(p).digest for p in spellings[:3] + spellings[4:]}) == 1
    assert CharDfa.from_pattern("^a*$") != CharDfa.from_pattern("^a+$")


@pytest.mark.parametrize("states", [100, 2_000])
def test_large_cyclic_automata_are_minimised_like_small_ones(states: int) -> None:
    """A cycle of 3 * n states whose third states accept is a cycle of three."""
    dfa = CharDfa.from_pattern(f"^(?:(?:aaa){{{states}}})*(?:aaa){{0,{states}}}$")
    assert dfa == CharDfa.from_pattern("^(aaa)*$")
    assert dfa.state_count == 3


def test_ten_thousand_literals_are_quick_to_ask() -> None:
    words = [f"item-{number:05d}-{number * 7919 % 10007:x}" for number in range(10_000)]
    dfa = CharDfa.from_literals(words)
    assert all(dfa.accepts(word) for word in words[::97])
    assert not dfa.accepts("item-10000")
    assert dfa.count() == 10_000


def test_a_lone_surrogate_is_no_literal() -> None:
    with pytest.raises(InvalidGrammar, match="surrogate"):
        CharDfa.from_literal("\ud800")
    assert not CharDfa.any_string().accepts("\ud800")


def test_a_budget_of_states_or_time_is_kept() -> None:
    a, b = CharDfa.from_pattern("^(a{7})*$"), CharDfa.from_pattern("^(a{11})*$")
    assert a.intersection(b).state_count == 77
    with pytest.raises(GrammarLimit, match="50 automaton states"):
        a.intersection(b, budget=Budget(max_states=50))
    with pytest.raises(GrammarLimit, match="CPU time"):
        CharDfa.from_pattern("(a|b)*a(a|b){18}c", budget=Budget(max_states=10**9, max_seconds=0.05))


def test_what_grows_only_on_the_way_is_within_the_budget() -> None:
    """The pattern for addresses of web pages that is copied most: 35,000 states, of which a fifth are left."""
    letters = r"-a-zA-Z0-9@:%._\+~#="
    pattern = rf"https?:\/\/(www\.)?[{letters}]{{1,256}}\.[a-zA-Z0-9()]{{1,6}}\b([{letters}?&/()]*)"
    dfa = CharDfa.from_pattern(pattern, budget=Budget(max_seconds=60))  # of states, not of a loaded machine's time
    assert dfa.accepts("see https://example.com/a, please")
    assert not dfa.accepts("https://example")
    with pytest.raises(GrammarLimit, match="20000 automaton states"):
        CharDfa.from_pattern("^(a|b)*a(a|b){14}$", budget=Budget(max_seconds=60))  # 32,768 states are left of it


def test_a_pattern_is_found_where_re_finds_it_in_a_long_text() -> None:
    text = "lorem ipsum " * 50 + "id-4711." + "x" * 300
    assert CharDfa.from_pattern(r"id-\d{4}\.").accepts(text) == bool(re.search(r"id-\d{4}\.", text))
