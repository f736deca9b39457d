"""A pattern's automaton accepts exactly what a backtracking engine finds."""

from __future__ import annotations

import re
import tracemalloc
from typing import Any

import interegular
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.grammar.automata import Budget, CharDfa, charsets
from sluicegate.grammar.budget.meter import within
from sluicegate.plugins.errors import GrammarLimit, InvalidGrammar, UnsupportedGrammar
from tests.grammar.automata.strategies import lookaround_patterns, patterns, texts

_SETTINGS = settings(max_examples=250, deadline=None)
_PATIENT = Budget(max_seconds=60.0)  # a busy machine must not fail the comparison


def check(pattern: str, found: list[str], not_found: list[str], **options: object) -> None:
    """Search semantics unless `anchored` is among the options."""
    dfa = CharDfa.from_pattern(pattern, **options)  # type: ignore[arg-type]
    assert [text for text in found if not dfa.accepts(text)] == []
    assert [text for text in not_found if dfa.accepts(text)] == []


@_SETTINGS
@given(patterns(), st.lists(texts, min_size=5, max_size=10))
def test_python_patterns_without_anchors_agree_with_re(pattern: str, samples: list[str]) -> None:
    found = CharDfa.from_pattern(pattern, dialect="python")
    whole = CharDfa.from_pattern(pattern, dialect="python", anchored=True)
    for text in samples:
        assert found.accepts(text) == (re.search(pattern, text) is not None), (pattern, text)
        assert whole.accepts(text) == (re.fullmatch(pattern, text) is not None), (pattern, text)


@_SETTINGS
@given(patterns("^", "$", "\\b", "\\Z"), st.lists(texts, min_size=5, max_size=10))
def test_anchors_anywhere_agree_with_re(pattern: str, samples: list[str]) -> None:
    found = CharDfa.from_pattern(pattern, dialect="python")
    whole = CharDfa.from_pattern(pattern, dialect="python", anchored=True)
    for text in samples:
        assert found.accepts(text) == (re.search(pattern, text) is not None), (pattern, text)
        assert whole.accepts(text) == (re.fullmatch(pattern, text) is not None), (pattern, text)


@_SETTINGS
@given(patterns("^", "\\Z", "\\b", "\\B"), st.lists(texts, min_size=5, max_size=10))
def test_word_edges_agree_with_regex(pattern: str, samples: list[str]) -> None:
    """Python's `re` before 3.14 finds no `\\B` in an empty text; the `regex` module does, as ECMA-262 does."""
    found = CharDfa.from_pattern(pattern, dialect="python", budget=_PATIENT)
    for text in samples:
        assert found.accepts(text) == (regex.search(pattern, text) is not None), (pattern, text)


@_SETTINGS
@given(lookaround_patterns(), st.lists(texts, min_size=5, max_size=10))
def test_lookaround_agrees_with_regex(pattern: str, samples: list[str]) -> None:
    found = CharDfa.from_pattern(pattern, dialect="python", budget=_PATIENT)
    for text in samples:
        assert found.accepts(text) == (regex.search(pattern, text) is not None), (pattern, text)


@_SETTINGS
@given(patterns(), st.lists(texts, min_size=5, max_size=10))
def test_whole_matches_agree_with_interegular(pattern: str, samples: list[str]) -> None:
    """A second automaton library, for the notation it knows (ASCII classes)."""
    ours = CharDfa.from_pattern(f"(?a){pattern}", dialect="python", anchored=True)
    theirs = interegular.parse_pattern(pattern).to_fsm()
    for text in samples:
        if text.isascii():
            assert ours.accepts(text) == theirs.accepts(text), (pattern, text)


@_SETTINGS
@given(patterns(), texts)
def test_ignoring_case_agrees_with_re(pattern: str, text: str) -> None:
    found = CharDfa.from_pattern(pattern, dialect="python", ignore_case=True)
    for variant in (text, text.upper()):
        assert found.accepts(variant) == (re.search(pattern, variant, re.IGNORECASE) is not None)


@pytest.mark.parametrize(
    ("pattern", "found", "not_found"),
    [
        ("", ["", "x"], []),
        ("foo", ["foo", "a foo b"], ["fo", ""]),
        ("^(a|b)$", ["a", "b"], ["ab", "", "a\n"]),
        ("(^a|b$)", ["ax", "xb", "a"], ["xa", "bx"]),
        ("a^", [], ["a", "a\na"]),
        ("^[]$", [], ["", "x"]),
        ("^[^]$", ["x", "\n"], ["", "xx"]),
        (r"^\d$", ["7"], ["٧"]),
        (r"^\w$", ["a", "_"], ["é"]),
        (r"^\s$", ["\ufeff", "\u2029", "\xa0"], ["\x85", "x"]),
        ("^.$", ["x", "😀", "\x85"], ["\n", "\r", "\u2028"]),
        (r"^[\b]$", ["\b"], ["b"]),
        (r"^\cJ$", ["\n"], ["J"]),
        (r"^\0$", ["\0"], ["0"]),
        (r"^\x41\u0042\u{1F600}\ud83d\ude00$", ["AB😀😀"], ["AB😀"]),
        (r"^[\ud83d\ude00-\ud83d\ude02]$", ["😁"], ["a"]),
        (r"^[\w-.]+$", ["a-.", "-"], ["!"]),
        (r"^\-\_\@\/\ $", ["-_@/ "], []),
        ("^a{,2}{$", ["a{,2}{"], ["aa"]),
        ("^}]$", ["}]"], []),
        (r"^\p{Lu}\p{Letter}\P{L}$", ["Éa1"], ["éa1", "ÉaA"]),
        (r"^\p{Script=Greek}\p{sc=Latn}\p{Han}$", ["αx漢"], ["xαx"]),
        (r"^(?<year>\d{4})(?:-)(\d+?)$", ["2026-1"], ["26-1"]),
        ("(?i)^straSSe$", ["STRASSE", "ſtrasse"], ["Straße"]),
        ("^(?i:a)b$", ["Ab", "ab"], ["AB"]),
        (r"^(?!foo)(?=.*\d)", ["x1", "fo1"], ["foo1", "x"]),
        (r"^(?:(?!--).)*$", ["a-b", ""], ["a--b"]),
        (r"(?<=\$)\d+$", ["a$12"], ["a12"]),
        (r"(?<!\.)x$", ["x", "ax"], [".x"]),
        (r"^a(?=b(?!c))", ["ab", "abd"], ["abc", "a"]),
        (r"(?<=^|,)x(?=,|$)", ["x", "a,x", "x,a"], ["ax", "xa"]),
    ],
)
def test_ecma_constructs(pattern: str, found: list[str], not_found: list[str]) -> None:
    check(pattern, found, not_found)


@pytest.mark.parametrize(
    ("pattern", "found", "not_found"),
    [
        ("^a$", ["a", "a\n"], ["a\n\n"]),
        (r"^a\Z", ["a"], ["a\n"]),
        (r"\Aa", ["ab"], ["ba"]),
        ("(?m)^a$", ["b\na\nc"], ["ba"]),
        ("(?s)^.$", ["\n"], ["ab"]),
        ("(?x) a b # comment", ["ab"], ["a b"]),
        ("(?P<n>a)[]b]", ["a]"], ["a[]"]),
        (r"^\d\w$", ["٧é"], [""]),
        (r"(?a)^\w$", ["a"], ["é"]),
        ("^a{,2}$", ["", "aa"], ["aaa"]),
        (r"^\U0001F600\a$", ["😀\a"], []),
    ],
)
def test_python_constructs(pattern: str, found: list[str], not_found: list[str]) -> None:
    check(pattern, found, not_found, dialect="python")


@pytest.mark.parametrize(
    ("pattern", "position"),
    [("a)", 1), ("(a", 0), ("[a", 0), ("*", 0), ("a**", 2), ("a{3,2}", 1), ("[b-a]", 1), (r"\Z", 0), (r"\x1", 0)],
)
def test_a_syntax_error_points_at_its_place(pattern: str, position: int) -> None:
    with pytest.raises(InvalidGrammar) as caught:
        CharDfa.from_pattern(pattern)
    assert f"(position {position})" in caught.value.reason
    assert caught.value.reason.splitlines()[-1] == "  " + " " * position + "^"


@pytest.mark.parametrize(
    "pattern", [r"(a)\1", r"(?<n>a)\k<n>", r"\ud800", r"[\ud800-\udfff]", "[[:alpha:]]", r"\p{Emoji}", r"(?<=a(?=b))b"]
)
def test_what_is_not_supported_is_named(pattern: str) -> None:
    with pytest.raises(UnsupportedGrammar, match="not supported"):
        CharDfa.from_pattern(pattern)


@pytest.mark.parametrize("pattern", ["a++", "(?>a)", r"(?P<n>a)(?P=n)", r"\N{DIGIT ONE}", "(a)(?(1)b|c)"])
def test_what_python_has_and_automata_have_not_is_named(pattern: str) -> None:
    with pytest.raises(UnsupportedGrammar, match="not supported"):
        CharDfa.from_pattern(pattern, dialect="python")


@pytest.mark.parametrize(
    "pattern", ["(a|b)*a(a|b){40}", "^.{1,1000000}$", "(x{1,1000}){1,1000}", "^(((a?){100}){100}){100}$", "(" * 500]
)
def test_explosive_patterns_end_in_a_limit(pattern: str) -> None:
    with pytest.raises(GrammarLimit):
        CharDfa.from_pattern(pattern)


@pytest.mark.parametrize("dialect", ["ecma", "python"])
@pytest.mark.parametrize(
    "pattern",
    [
        "x" * 900_000,
        "|" * 900_000,
        "()" * 400_000,
        "[" + "a" * 900_000 + "]",
        "[a]" * 300_000,
        "^" * 900_000,
        "a" * 8_000_000,
    ],
    ids=["text", "branches", "groups", "class", "classes", "anchors", "megabytes"],
)
def test_long_patterns_are_refused_while_they_are_read(pattern: str, dialect: Any) -> None:
    """Reading one of megabytes took a minute, and the tree was millions of objects that the collector walks at once."""
    tracemalloc.start()
    try:
        with pytest.raises(GrammarLimit, match=r"more than 50000|at most 1000000"):
            CharDfa.from_pattern(pattern, dialect=dialect)
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < 40_000_000


def test_a_class_of_many_sets_is_united_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """`sorted` keeps the interpreter until it is done: 50,000 sets of hundreds of ranges took seconds."""
    most, union = 0, charsets.union

    def counted(*sets: Any) -> Any:
        nonlocal most
        most = max(most, sum(map(len, sets)))
        return union(*sets)

    monkeypatch.setattr(charsets, "union", counted)
    dfa = CharDfa.from_pattern(r"^[\w\d" + r"\w\S" * 200 + "]$", dialect="python")
    assert most < 10_000
    assert dfa.accepts("é")
    assert not dfa.accepts(" ")


def test_the_time_of_reading_counts_as_that_of_compiling() -> None:
    with pytest.raises(GrammarLimit, match="CPU time"), within(0.02):
        CharDfa.from_pattern("[" + r"\w\W" * 12_000 + "]", dialect="python")


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)*$", "(.*a){20}", r"^(\w+\s?)*$"])
def test_patterns_that_make_backtracking_explode_are_small(pattern: str) -> None:
    assert CharDfa.from_pattern(pattern).state_count < 30
