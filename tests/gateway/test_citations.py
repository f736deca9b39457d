"""Which spans of an answer stand in which document: always exact, and never slow."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.gateway.answer.citations import SHORTEST, citations_of

WORDS = st.lists(st.sampled_from(["the", "Parcel", "17", "of", "Anna's", "Ærø", "ﬁsh", "\n", "-", "…"]), max_size=40)


def words(text: str) -> list[str]:
    return [word.casefold() for word in re.findall(r"\w+", text)]


@given(WORDS.map(" ".join), st.lists(WORDS.map(" ".join), max_size=3))
def test_every_citation_has_the_words_that_it_names(answer: str, documents: list[str]) -> None:
    at = 0
    for one in citations_of(answer, documents, structured=False):
        here, there = answer[one.start : one.end], documents[one.document][one.document_start : one.document_end]
        assert one.start >= at
        assert words(here) == words(there)
        assert len(words(here)) >= SHORTEST
        assert (one.kind == "verbatim") == (here == there)
        at = one.end


@given(WORDS.map(" ".join), WORDS.map(" ".join), WORDS.map(" ".join))
def test_a_copied_sentence_is_found_whatever_stands_around_it(before: str, sentence: str, after: str) -> None:
    copied = f"Kjell keeps every single key safe {sentence}"
    found = citations_of(f"{before} {copied} {after}", [copied], structured=False)
    covered = {i for one in found for i in range(one.start, one.end)}
    start = len(before) + 1
    assert set(range(start, start + len("Kjell keeps every single key safe"))) <= covered


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"city": "Aarhus"}, [("/city", "verbatim")]),
        ({"a/b": ["Aar"]}, []),
        ({"a/b": ["x", "harbour office"]}, [("/a~1b/1", "verbatim")]),
        ({"n": 17, "ok": True, "s": "17"}, []),
        ("left at the HARBOUR office", [("", "words")]),
    ],
)
def test_values_of_json_are_cited_by_their_pointers(value: object, expected: list[tuple[str, str]]) -> None:
    document = "Parcel 17 was left at the harbour office in Aarhus."
    found = citations_of(json.dumps(value), [document], structured=True)
    assert [(one.pointer, one.kind) for one in found] == expected


def test_escapes_of_json_do_not_shift_spans() -> None:
    document = 'She said "go home now, all of you" twice.'
    value = 'x: "go home now, all of you"\n'
    [one] = citations_of(json.dumps({"a": value}), [document], structured=True)
    assert value[one.start : one.end] == document[one.document_start : one.document_end] == "go home now, all of you"


def test_what_is_no_json_is_not_cited() -> None:
    assert citations_of('{"a": "Aarh', ["Aarhus"], structured=True) == []
    assert citations_of("[" * 10_000, ["a"], structured=True) == []


def test_repetition_costs_no_more_than_other_text() -> None:
    """Every n-gram occurs everywhere: of each only so many places are tried."""
    text = "so " * 20_000
    [one] = citations_of(text, [text, text], structured=False)
    assert (one.start, one.end) == (0, len(text) - 1)
