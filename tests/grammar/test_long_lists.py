"""Long lists and long strings: no call goes through all of a list, and text is read at once where it can be."""

from __future__ import annotations

import json
import random
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from sluicegate.grammar import GrammarOptions, LazyMatcher, compile_json_schema, compile_lark
from sluicegate.grammar.classification import openings
from sluicegate.grammar.classification.openings import opening_of
from sluicegate.grammar.lark.compile import read
from sluicegate.grammar.lexemes.counted import Counted
from sluicegate.grammar.lexemes.literals import literals
from sluicegate.grammar.lexemes.scalars import every_string
from sluicegate.grammar.matching.call_limits import CallLimits
from sluicegate.grammar.parsing.parser import ParserTables
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary
from sluicegate.plugins import GrammarTooCostly
from tests.grammar.grammar_checks import byte_vocabulary
from tests.reference.mask_by_trial import mask_by_trial

FEW_CHARGES = 3_000
"""A tenth of what a call may take."""


def mask_of(matcher: LazyMatcher, vocabulary: Vocabulary) -> np.ndarray[Any, np.dtype[np.int32]]:
    row = np.zeros(vocabulary.row_words, np.int32)
    matcher.fill_mask(row)
    return row


def follow(matcher: LazyMatcher, vocabulary: Vocabulary, text: bytes) -> None:
    for byte in text:
        mask_of(matcher, vocabulary)
        matcher.accept(byte)


@pytest.mark.parametrize("stem", ["value ", 'é"\\', "a/b\n"])
def test_many_words_read_of_tokens_what_each_of_them_reads(stem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that is followed all at once has the opening that is put together word by word."""
    punctuation = byte_vocabulary().punctuation
    words = [f"{stem}{n * 7919 % 1009}" for n in range(1_008)] + ["", '"', "a", "ab", "x"]
    at_once = opening_of(literals(words), punctuation)
    monkeypatch.setattr(openings, "_are_many", lambda words: False)
    one_by_one = opening_of(literals(words), punctuation)
    assert at_once[0] == one_by_one[0]
    assert dict(at_once[1]) == dict(one_by_one[1])
    assert len(at_once[1]) > 0


@pytest.mark.parametrize("values", [[f"City {n}" for n in range(9_000)], list(range(0, 90_000, 10))])
def test_a_long_enum_is_spelled_when_it_is_compiled(values: list[Any]) -> None:
    """No call goes through all values: each would be charged for, or take its time unseen."""
    vocabulary = byte_vocabulary()
    schema = {"type": "object", "properties": {"v": {"enum": values}}, "required": ["v"]}
    matcher = compile_json_schema(schema, vocabulary).matcher()
    matcher._bounds = CallLimits(charges=FEW_CHARGES, step=2.0)
    follow(matcher, vocabulary, b'{"v":')
    for byte in json.dumps(values[123]).encode()[:-1]:
        assert np.array_equal(mask_of(matcher, vocabulary), mask_by_trial(matcher, vocabulary))
        matcher.accept(byte)
    assert matcher.shortest_completion() is not None


def test_a_string_out_of_a_list_is_read_alike_at_once_and_byte_by_byte() -> None:
    words = ["abc", "abd", 'a"b', "a\\n", "é/", "x" * 40]
    lexeme, pick = literals(words), random.Random(5)
    for _ in range(400):
        word = pick.choice(words)
        spelled = b"".join(
            b"\\u%04x" % ord(char) if pick.random() < 0.3 else json.dumps(char, ensure_ascii=False)[1:-1].encode()
            for char in word
        )
        text = spelled[: pick.randint(1, len(spelled))] + pick.choice([b"", b"", b"q", b'"'])
        expected: Any = lexeme.start
        for byte in text:
            expected = None if expected is None or expected.at < 0 else lexeme.next(expected, byte)
        assert lexeme.run(lexeme.start, text) == (None if expected is None or expected.at < 0 else expected)


@pytest.mark.parametrize(("low", "high"), [(0, 12), (5, None), (3, 9)])
def test_a_counted_string_is_read_alike_at_once_and_byte_by_byte(low: int, high: int | None) -> None:
    lexeme, pick = Counted(every_string(), every_string(), low, high), random.Random(7)
    for _ in range(300):
        text = "".join(pick.choices('ab ~é\\n"x', k=pick.randint(1, 14))).encode()
        at: Any = lexeme.start
        for byte in text:
            at = None if at is None or at.size < 0 else lexeme.next(at, byte)
        assert lexeme.run(lexeme.start, text) == (None if at is None or at.size < 0 else at)


def test_an_enum_of_objects_is_charged_for_the_values_that_a_call_spells() -> None:
    """A call that makes the lists of 2,000 numbers took 168 ms before it ended; now it says that it is too much."""
    vocabulary = byte_vocabulary()
    matcher = compile_json_schema({"enum": [{"a": n, "b": [n]} for n in range(2_000)]}, vocabulary).matcher()
    with pytest.raises(GrammarTooCostly):
        follow(matcher, vocabulary, b'{"a":')
    matcher.bound(30.0)
    assert np.array_equal(mask_of(matcher, vocabulary), mask_by_trial(matcher, vocabulary))


def test_what_takes_the_square_of_the_terminals_is_made_when_compiled() -> None:
    text = "start: (w s)+\nw: " + " | ".join(f'"w{n}"' for n in range(300)) + '\ns: " "\n'

    tables = read(text, GrammarOptions()).tables()
    assert isinstance(tables, ParserTables)
    assert not isinstance(getattr(type(tables.symbols), "followers", None), property | cached_property)
    vocabulary = byte_vocabulary()
    matcher = compile_lark(text, vocabulary).matcher()
    assert np.array_equal(mask_of(matcher, vocabulary), mask_by_trial(matcher, vocabulary))
