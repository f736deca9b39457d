"""What a match is, said by the whole-text function and by slower twins."""

from __future__ import annotations

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.plugins import ConfigurationError
from sluicegate.safety import Scanner, compile_patterns, compile_phrases, find_all
from tests.safety.driving import cuts, cuttings

PATTERNS = ["ab+", "a[bc]{1,3}c", "(?:ab|ba)+c", "c.a", "b{2}(?:a|c)?", "[^a]a{2}", "a|bc|cab"]


def merged(pattern: str, text: str) -> list[tuple[int, int]]:
    """Match by the definition, slowly: the longest match at every start, overlapping ones joined."""
    compiled = regex.compile(pattern, regex.POSIX)
    found: list[tuple[int, int]] = []
    for start in range(len(text)):
        match = compiled.match(text, start)
        if match and found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], match.end()))
        elif match:
            found.append((start, match.end()))
    return found


@given(st.sampled_from(PATTERNS), st.text("abc\n", max_size=30))
def test_all_matches_are_found_and_joined(pattern: str, text: str) -> None:
    found = find_all(compile_patterns({"x": pattern}), text)
    assert [(m.start, m.end) for m in found] == merged(pattern, text)


@given(st.sampled_from(PATTERNS), st.text("abc\n", max_size=20))
def test_held_is_exactly_the_longest_suffix_that_may_still_match(pattern: str, text: str) -> None:
    """The twin is partial matching at the end of the text."""
    scanner = Scanner(compile_patterns({"x": pattern}))
    scanner.feed(text)
    compiled = regex.compile(pattern, regex.POSIX)
    live = [i for i in range(len(text)) if compiled.fullmatch(text, i, partial=True)]
    expected = min(live, default=len(text))
    inside = [start for start, end in merged(pattern, text) if start < expected < end]
    assert scanner.clear_to == min(inside, default=expected)


@settings(max_examples=60)
@given(st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3, unique=True), st.text("abc", max_size=25), cuts)
def test_a_scanner_finds_the_same_in_pieces(patterns: list[str], text: str, places: list[int]) -> None:
    automaton = compile_patterns({str(i): p for i, p in enumerate(patterns)})
    for pieces in cuttings(text, places):
        scanner = Scanner(automaton)
        found = [m for piece in pieces for m in scanner.feed(piece)] + scanner.close()
        assert found == find_all(automaton, text)


def test_long_runs_cost_linear_time() -> None:
    """The classic trap of backtracking: every start and every split would be tried."""
    automaton = compile_patterns({"x": "(?:a|aa)+(?:a*b)*c"})
    text = "a" * 50_000
    assert find_all(automaton, text) == []


@pytest.mark.parametrize(
    ("pattern", "place"),
    [
        ("ab(?=c)", 2),
        ("(a)\\1", 3),
        ("a*?", 2),
        ("(a", 0),
        ("a)", 1),
        ("a{3,1}", 1),
        ("a{5000}", 1),
        ("[a", 0),
        ("x^y", 1),
        ("\\p{L}", 0),
        ("a**", 2),
        ("a*", 0),
        ("+a", 0),
        ("[z-a]", 4),
        ("^a|b", 0),
        ("a\\", 2),
        ("\\xg0", 2),
    ],
)
def test_what_is_not_regular_or_not_well_formed_is_refused_with_the_place(pattern: str, place: int) -> None:
    with pytest.raises(ConfigurationError) as refused:
        compile_patterns({"rule": pattern})
    assert "'rule'" in str(refused.value)
    assert f"at character {place}:" in str(refused.value)


def test_patterns_that_blow_up_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="states"):
        compile_patterns({"x": "(?:a{900}b{900}){900}"})


def parts(listed: list[str], text: str, *, borders: bool = True) -> list[str]:
    return [text[m.start : m.end] for m in find_all(compile_phrases(listed, borders=borders), text)]


@pytest.mark.parametrize(
    "written",
    [
        "operation glass harbour",
        "OPERATION Glass harbouR",
        "operation   glass\n\tharbour",
        "operation\u00a0glass\u2003harbour",
        "op\u200beration gl\u00adass\u2060 harb\ufeffour",
        "o\u202eperation glass harbour\u202c"[:-1],
        "ｏｐｅｒａｔｉｏｎ　ｇｌａｓｓ ｈａｒｂｏｕｒ",
        "𝐨𝐩𝐞𝐫𝐚𝐭𝐢𝐨𝐧 𝐠𝐥𝐚𝐬𝐬 𝐡𝐚𝐫𝐛𝐨𝐮𝐫",
        "оperаtiоn glass hаrbоur",  # Cyrillic а and о
        "o̶p̶e̶r̶a̶t̶i̶o̶n̶ glass harbour",
        "ⓞⓟⓔⓡⓐⓣⓘⓞⓝ glass harbour",
        "óperation gläss harbour",
    ],
)
def test_a_phrase_is_found_however_it_is_written(written: str) -> None:
    assert parts(["Operation Glass  Harbour"], f"the {written}, they said") == [written]


@pytest.mark.parametrize("text", ["Halberds", "aHalberd", "Halberd1", "Halber", "Hal berd", "Halb\u200berds"])
def test_a_phrase_ends_at_word_borders(text: str) -> None:
    assert parts(["halberd"], text) == []


@pytest.mark.parametrize("text", ["_halberd_", "my_halberd_var", "(Halberd)", "**halberd**", "halberd's", "halberd—so"])
def test_anything_but_a_letter_or_digit_is_a_border(text: str) -> None:
    assert [part.lower() for part in parts(["halberd"], text)] == ["halberd"]


def test_scripts_without_spaces_have_borders_everywhere() -> None:
    assert parts(["夜鷹計画"], "これは夜鷹計画です") == ["夜鷹計画"]
    assert parts(["halberd"], "これはhalberdです") == ["halberd"]


def test_one_character_may_stand_for_several() -> None:
    assert parts(["strasse"], "Straße!") == ["Straße"]
    assert parts(["office"], "the oﬃce.") == ["oﬃce"]
    assert parts(["stras"], "Straße", borders=False) == ["Straß"]


def test_combining_marks_go_with_their_character() -> None:
    assert parts(["cafe"], "a cafe\u0301\u0327 b") == ["cafe\u0301\u0327"]


def test_thousands_of_phrases_are_one_automaton() -> None:
    listed = [f"secret number {i}" for i in range(20_000)]
    assert parts(listed, "the Secret  Number 19999.") == ["Secret  Number 19999"]


def test_an_invisible_phrase_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no visible characters"):
        compile_phrases(["\u200b"])
