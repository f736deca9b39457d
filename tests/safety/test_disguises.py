"""However a phrase is disguised, it is found; and a text without it is left alone."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.plugins import Message, Request
from sluicegate.safety import MatchPolicy, MatchRail, MatchScreen, compile_phrases, compile_pii, find_all
from sluicegate.safety.matching import uts39
from sluicegate.safety.matching.confusable_letters import BY_LETTER, pairs
from sluicegate.safety.matching.confusables import EITHER, look_alike
from sluicegate.safety.matching.symbols import coded, narrow, wide
from tests.safety.driving import CALLER, cuts, cuttings, run

PHRASE = "operation glass harbour"
AUTOMATON = compile_phrases([PHRASE])
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u202e\u2066\u2069\ufe0f\u034f\u180e\U000e0061"
MARKS = "\u0300\u0301\u0336\u0327\u20dd"
SPACES = " \t\n\r\u00a0\u2003\u3000\u2028\u0085"


def variants() -> dict[str, str]:
    """Return every character of Unicode that folds to one letter, by that letter."""
    found: dict[str, str] = dict.fromkeys(set(PHRASE) - {" "}, "")
    for code in range(0x20, 0x1F200):
        char = chr(code)
        if (folded := wide(char)) in found:
            found[folded] += char
    return found


VARIANTS = variants()
DISGUISED = st.tuples(
    *(
        st.tuples(
            st.text(SPACES, min_size=1, max_size=3) if letter == " " else st.sampled_from(VARIANTS[letter]),
            st.text(INVISIBLE, max_size=1) if letter == " " else st.text(INVISIBLE + MARKS, max_size=2),
        ).map("".join)
        for letter in PHRASE
    )
).map("".join)


def test_there_are_many_ways_to_write_a_letter() -> None:
    assert min(len(written) for written in VARIANTS.values()) > 15


@settings(max_examples=200, deadline=None)
@given(DISGUISED, cuts)
def test_a_disguised_phrase_is_found_and_nothing_of_it_leaves(written: str, places: list[int]) -> None:
    text = f"the {written}, they said"
    rail = MatchRail("words", AUTOMATON, MatchPolicy())
    visible = written.rstrip(INVISIBLE)
    for pieces in cuttings(text, places):
        out, blocked, (redaction,) = run(pieces, rail)
        assert blocked is None
        assert text[redaction.start : redaction.end].startswith(visible)
        assert out.startswith("the [REDACTED]")


@given(st.text(max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    assert find_all(AUTOMATON, text) == []
    assert run([text], MatchRail("words", AUTOMATON, MatchPolicy()))[0] == text


def test_folding_is_idempotent_on_every_code_point() -> None:
    """So a phrase and a text fold alike, whichever was folded before."""
    for code in range(0x30000):
        char = chr(code)
        for fold in (narrow, coded, wide):
            once = fold(char)
            assert "".join(map(fold, once)) == once, (hex(code), once)


def test_look_alikes_have_the_case_of_what_they_replace() -> None:
    for code in range(0x80, 0x2000):
        latin = look_alike(chr(code))
        if latin != chr(code) and latin.isalpha() and unicodedata.category(chr(code)) in ("Lu", "Ll"):
            assert latin.isupper() == chr(code).isupper()


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("mx_curp", "ΝΟΥΥ640728ΗDFΒCD02"),
        ("gb_nino", "ΗΜ 12 34 56 А"),
        ("sg_nric", "ꓢ1234567ꓓ"),
        ("tw_id", "ᗅ196785975"),
        ("in_pan", "ꓮꓐꓚꓑꓡ1234ꓠ"),
        ("es_dni", "x-1234567-ⅼ"),
    ],
)
def test_codes_are_found_in_letters_that_look_like_theirs(label: str, value: str) -> None:
    """Of capitals that have no case, and of Greek ones whose small letters resemble others."""
    found = find_all(compile_pii(), f"It is {value}, they say.")
    assert [(match.label, match.start, match.end) for match in found] == [(label, 6, 6 + len(value))]


async def test_long_messages_are_screened_too() -> None:
    screen = MatchScreen("words", AUTOMATON, MatchPolicy(), frozenset({"user"}))
    request = Request(id="r", model="m", messages=(Message("user", "word " * 10_000 + PHRASE),))
    result = await screen.screen(request, CALLER)
    assert result.action == "redact"
    assert result.messages is not None
    assert result.messages[0].content.endswith("word [REDACTED]")


@pytest.mark.parametrize("letter", sorted(BY_LETTER))
def test_every_letter_of_the_table_counts_as_the_latin_one(letter: str) -> None:
    """In both cases, where it has two."""
    for char in BY_LETTER[letter]:
        assert {wide(char), wide(char.upper()[:1])} == {letter}, char


@pytest.mark.parametrize(
    "spelled", ["Ꮒalberd", "haլberd", "ꓧꓮꓡꓐꓰꓣꓓ", "ᕼᗩᒪᗷᕮᖇᗪ", "hⲁlⲃⲉrԁ", "Һаӏьеґԁ", "ⱨⱥłƀɇɍđ", "ʜᴀʟʙᴇʀᴅ", "𐋏𐌀𐌋𐌁𐌄𐍂𐌃"]
)
def test_a_phrase_is_found_in_look_alikes_of_every_script(spelled: str) -> None:
    automaton = compile_phrases(["halberd"])
    assert [(match.start, match.end) for match in find_all(automaton, f"the {spelled} is")] == [(4, 4 + len(spelled))]


@pytest.mark.parametrize("phrase", ["Хлеб и соль", "Հայաստան", "საქართველო", "ᎣᏏᏲ ᎣᎩᎾᎵᎢ", "ΕΛΛΗΝΙΚΗ λέξη", "ᓄᓇᕗᑦ"])
def test_phrases_of_other_scripts_are_still_found_whatever_their_case(phrase: str) -> None:
    automaton = compile_phrases([phrase])
    for spelled in (phrase, phrase.upper(), phrase.lower()):
        assert find_all(automaton, f"a {spelled} b"), spelled


@pytest.mark.parametrize("part", [uts39.LETTERS, uts39.ALSO])
def test_every_look_alike_that_unicode_lists_is_taken_for_its_letter(part: dict[str, str]) -> None:
    """Where the table by hand says another letter (a Cyrillic palochka is an l, and no i), that one counts."""
    by_hand = pairs()
    for latin, chars in part.items():
        automaton = compile_phrases([f"qu{latin}ox{latin}z"])
        for char in chars:
            if by_hand.get(char.lower(), by_hand.get(char)) is None:
                assert find_all(automaton, f"a qu{char}ox{char}z b"), (latin, hex(ord(char)))


@pytest.mark.parametrize(("written", "plain"), [("fœtus", "foetus"), ("Ꜳchen", "aachen"), ("bꝏk", "book")])
def test_letters_that_look_like_two_are_two(written: str, plain: str) -> None:
    assert "".join(map(wide, written)) == plain


@pytest.mark.parametrize("text", ["modern times", "sa1d", "дом 5б", "3 × 4", "وَالِدٌ"])
def test_look_alikes_take_nothing_away_from_ordinary_words(text: str) -> None:
    """`rn` is no m, a Russian flat 5б no number 56, and a word of another script no word of Latin letters."""
    assert find_all(compile_phrases(["modem", "said", "56", "3x4", "lo"], evasions=False), text) == []


@pytest.mark.parametrize(("letter", "read"), [(char, each) for char, both in EITHER.items() for each in both])
def test_a_letter_that_looks_like_two_hides_neither(letter: str, read: str) -> None:
    """`\u0196` is Iota's capital and is drawn as an l; UTS #39 and the hand-written table name one letter each."""
    rail = compile_phrases([f"zo{read}mebk"])
    for char in {letter, letter.upper()}:
        assert find_all(rail, f"It is zo{char}mebk here.")
