"""Looking before reading: never another answer than reading everything."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.safety import Automaton, compile_patterns, compile_phrases, compile_pii, compile_secrets, find_all
from sluicegate.safety.matching.scanner import SHORT, scan_all

AUTOMATA = {
    "pii": compile_pii(),
    "secrets": compile_secrets(),
    "patterns": compile_patterns({"a": "\\bab+c?\\b", "b": "[^a\\s]é+x", "c": "(?i)ß.{2,3}a", "d": "^x+", "e": "z$"}),
}
PARTS = [
    "jane@example.com", "4111 1111 1111 1111", "123-45-6789", "+44 20 7946 0730", "call 555 1234", "203.0.113.7",
    "GB82 WEST 1234 5698 7654 32", "born on 3/4/1980", "AKIAIOSFODNN7EXAMPLE", "https://a:b@c.example",
    "ghp_" + "a1" * 18, "abbc", "ééx", "ß12a", "x", "z", " ", "\n", ".", "-", "7", "a", "\u200b", "…", "½", "\ufb01",
    "e\u0301", "日", "\t", "\x00", "word ", ", and ",
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(AUTOMATA)), st.lists(st.sampled_from(PARTS), max_size=24).map("".join))
def test_looking_first_finds_what_reading_everything_finds(name: str, text: str) -> None:
    automaton: Automaton = AUTOMATA[name]
    text = text + " " * (SHORT - len(text))
    assert find_all(automaton, text) == scan_all(automaton, text)


@pytest.mark.parametrize("filler", ["word ", "wörd… ", "e\u0301 "])
def test_matches_are_found_anywhere_in_a_long_text(filler: str) -> None:
    text = filler * 500 + "jane@example.com " + filler * 500 + "x\u200b123-45-6789 123\u200b-45-6789"
    found = [text[m.start : m.end] for m in find_all(AUTOMATA["pii"], text)]
    assert found == ["jane@example.com", "123\u200b-45-6789"]


PHRASES = ["project nightingale", "so", "a", "café noir", "中文字", "straße", "x y z", "!!", "foo-bar"]
BETWEEN = ["", "", "", "", " ", "*", "_", "\n", ".", "-", "\u200b", "\u0301", "\u3000", "*_"]
ALIKE = str.maketrans({"o": "0", "e": "3", "a": "\uff41", "p": "\u0440", "c": "\u0441", "t": "T"})


@st.composite
def spelled(draw: st.DrawFn) -> str:
    """Draw a phrase as somebody may write it: other letters, and marks or spaces between them."""
    letters = draw(st.sampled_from(PHRASES))
    between = draw(st.lists(st.sampled_from(BETWEEN), min_size=len(letters), max_size=len(letters)))
    alike = draw(st.booleans())
    return "".join(
        (letter.translate(ALIKE) if alike else letter) + mark for letter, mark in zip(letters, between, strict=True)
    )


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from(PHRASES), min_size=1, max_size=4),
    st.lists(st.one_of(spelled(), st.sampled_from(PARTS)), max_size=12).map("".join),
    st.booleans(),
    st.booleans(),
)
def test_looking_first_finds_phrases_however_they_are_written(
    phrases: list[str], text: str, borders: bool, evasions: bool
) -> None:
    automaton = compile_phrases(phrases, borders=borders, evasions=evasions)
    assert automaton.prefilter is not None
    text = text + " " * (SHORT - len(text))
    assert find_all(automaton, text) == scan_all(automaton, text)


def test_long_lists_of_phrases_are_read_without_looking_first() -> None:
    """One of them begins like nearly any word."""
    phrases = [f"{a}{b}" for a in "abcdefgh" for b in "ijklmnop"]
    automaton = compile_phrases(phrases)
    assert automaton.prefilter is None
    assert [match.start for match in find_all(automaton, "word " * 20 + "ck")] == [100]
