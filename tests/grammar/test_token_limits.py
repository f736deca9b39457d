"""A rule with `max_tokens` ends, once it took so many tokens, where it first may."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest

from sluicegate.grammar import GrammarError, InvalidGrammar, UnsupportedGrammar, Vocabulary, compile_lark
from sluicegate.grammar.tags import compile_structural_tags
from tests.grammar.grammar_checks import accepts, allowed, byte_vocabulary, check_masks, reads

READ: dict[str, tuple[str, list[str], list[str]]] = {
    "any text": ('start: x "."\nx[max_tokens=3]: /[^.]*/', [".", "a.", "a.", "abc.", "xyz."], ["wxyz.", "abc"]),
    "no text at all": ('start: x "."\nx[max_tokens=0]: /[^.]+/', ["."], ["a.", ""]),
    "ends where it may": (
        'start: x "."\nx[max_tokens=3]: /(aa)*/ | /b+;/',
        ["aa.", "aaaa.", "bbbbbb;."],
        ["aaa.", "aaaaaa.", "bbbb."],
    ),
    "whole characters": ('start: x "."\nx[max_tokens=3]: /[^.]*/', ["öö.", "öc."], ["öco.", "ööa."]),
    "beside others": ('start: (x | "zzzzz") "."\nx[max_tokens=2]: /z+/', ["z.", "zz.", "zzzzz."], ["zzz.", "zzzz."]),
    "each time anew": ('start: (x ",")* x\nx[max_tokens=2]: /[q-z]+/', ["x", "xy,vw,t", "xy,z"], ["xyz", "x,xyz"]),
    "begun wherever it may": ('start: x+ "."\nx[max_tokens=2]: /z+/', ["z.", "zzzzz."], ["."]),
    "a stop": (
        'start: x "<end>"?\nx[stop="<end>", max_tokens=3]: /.*/',
        ["wxy", "<en<end>", "<end>"],
        ["wxyz", "wxyz<end>"],
    ),
    "a first match": ("start: x /z*/\nx[lazy, max_tokens=2]: /z*y/", ["zzzzy", "yzzzz"], ["zzzz", "zyy"]),
    "before a value": (
        'start: (x %json {"type": "integer"})+\nx[max_tokens=2]: /[q-z]+/',
        ["xy12", "x1zz2"],
        ["xyz1", "12", "x1xyz1"],
    ),
    "beside ignored text": (
        'start: "(" x ")"\nx[max_tokens=2]: W\nW: /[q-z]+/\n%ignore " "',
        ["( xy      )", "(     xy)"],
        ["(xyz)", "(x y)"],
    ),
}
"""Grammars, texts and no texts, where each byte is a token."""


@pytest.mark.parametrize("name", READ)
def test_a_rule_takes_no_more_tokens_than_it_may_where_it_can_end(name: str) -> None:
    text, valid, invalid = READ[name]
    compiled = compile_lark(text, byte_vocabulary())
    for expected, examples in ((True, valid), (False, invalid)):
        for example in examples:
            assert reads(compiled, example) is expected, example


@pytest.mark.parametrize("name", READ)
def test_the_mask_equals_trying_every_token_and_always_leaves_one(name: str) -> None:
    compiled = compile_lark(READ[name][0], byte_vocabulary())
    for seed in range(4):
        check_masks(compiled, seed, steps=12)
        matcher, pick = compiled.matcher(), random.Random(seed)
        for _ in range(12):
            completion = matcher.fork().shortest_completion()
            assert completion is not None
            other = matcher.fork()
            for token in completion.tokens:
                other.accept(token)
            assert other.can_stop
            choices = sorted(allowed(matcher, compiled.vocabulary) - set(compiled.vocabulary.eos_token_ids))
            if not choices:
                break
            matcher.accept(pick.choice(choices))


@pytest.mark.parametrize("seed", range(10))
def test_tokens_are_counted_from_the_one_that_begins_the_text_to_the_one_that_ends_it(seed: int) -> None:
    """Random token sequences, against a count beside Python's `re`."""
    vocabulary, pick = byte_vocabulary(), random.Random(seed)
    most = pick.randrange(1, 4)
    compiled = compile_lark(f'start: "<" x ">"\nx[max_tokens={most}]: /(?:ab|c)*/', vocabulary)
    words = [token for token, word in enumerate(vocabulary.words) if re.fullmatch(rb"[<>abc]{1,3}", word)]
    assert len(words) > 6
    for _ in range(300):
        tokens = [ord("<"), *(pick.choice(words) for _ in range(pick.randrange(6))), ord(">")]
        matcher, expected = compiled.matcher(), _follows([vocabulary.words[token] for token in tokens], most)
        taken = 0
        for token in tokens:
            if token not in allowed(matcher, vocabulary):
                break
            matcher.accept(token)
            taken += 1
        assert (taken == len(tokens) and matcher.can_stop) is expected, [vocabulary.words[token] for token in tokens]


def _follows(words: list[bytes], most: int) -> bool:
    """Return whether `words` are a text of `<`, `(ab|c)*` and `>`, of which no word continues the middle where that
    took `most` words and was whole."""
    text = b"".join(words)
    if not re.fullmatch(rb"<(?:ab|c)*>", text):
        return False
    end, at, count = text.index(b">"), 0, 0
    for word in words:
        inner = text[1 : min(at + len(word), end)]
        if at + len(word) > 1 and inner[max(at - 1, 0) :]:
            if count >= most and re.fullmatch(rb"(?:ab|c)*", text[1:at]):
                return False
            count += 1
        at += len(word)
    return True


def test_rolling_back_and_forking_restore_the_count() -> None:
    vocabulary = byte_vocabulary()
    matcher = compile_lark('start: x "."\nx[max_tokens=2]: /[a-z]*/', vocabulary).matcher()
    rows = []
    for byte in b"ab":
        rows.append(np.zeros(vocabulary.row_words, np.int32))
        matcher.fill_mask(rows[-1])
        matcher.accept(byte)
    assert allowed(matcher, vocabulary) == {ord(".")}
    other = matcher.fork()
    for row in reversed(rows):
        matcher.rollback(1)
        again = np.zeros(vocabulary.row_words, np.int32)
        matcher.fill_mask(again)
        assert np.array_equal(again, row)
    assert allowed(other, vocabulary) == {ord(".")}


def test_texts_that_are_judged_byte_by_byte_are_not_counted() -> None:
    """The tokens of an answer of another server are not known."""
    judge = Vocabulary.from_bytes([*(bytes([byte]) for byte in range(256)), b""], eos_token_ids=[256])
    compiled = compile_lark('start: x "."\nx[max_tokens=2]: /[a-z]*/', judge)
    assert reads(compiled, "abcdef.")
    assert accepts(compiled, "abcdef.")


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("start: x\nx[max_tokens=many]: /a/", InvalidGrammar, "line 2, column 2: max_tokens is a whole number"),
        ('start: x\nx[max_tokens="4"]: /a/', InvalidGrammar, "line 2, column 2: max_tokens is a whole number"),
        ("start: x\nx[max_tokens]: /a/", InvalidGrammar, "line 2, column 3: unknown attribute 'max_tokens'"),
        ('start: x\nx[max_tokens=4]: "a" y\ny: "b"', UnsupportedGrammar, "line 2, column 22: max_tokens stands at"),
        ("start: x\nx[max_tokens=4]: %json {}", UnsupportedGrammar, "line 2, column 18: max_tokens stands at"),
        ('start: x\nx[max_tokens=4, suffix=";"]: /a/', UnsupportedGrammar, "line 2, column 2: max_tokens with suffix"),
    ],
)
def test_what_cannot_end_early_is_refused_with_its_place(text: str, error: type[GrammarError], said: str) -> None:
    with pytest.raises(error) as raised:
        compile_lark(text, byte_vocabulary())
    assert said in str(raised.value)


TAGS: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "up to the end of the text": ({}, ["", "x", "xyz"], ["wxyz"]),
    "up to an end": ({"end": ">"}, ["<>", "<xyz>", "<öy>"], ["<wxyz>", "<xyz", "<xööx>"]),
    "up to one of several ends": ({"end": ["/>", "!"]}, ["<x/>", "<xy!", "<x/!"], ["<wxyz!", "<x/"]),
    "without a text": ({"end": "/>", "excludes": ["yy"]}, ["<xy/>", "</>"], ["<yy/>", "<wxyz/>"]),
    "no token": ({"end": "/>", "max_tokens": 0}, ["</>"], ["<x/>"]),
    "characters too": ({"end": "/>", "max_chars": 2}, ["<ö/>", "<xy/>"], ["<xyz/>"]),
}


@pytest.mark.parametrize("name", TAGS)
def test_free_text_of_a_tag_counts_its_tokens(name: str) -> None:
    given, taken, refused = TAGS[name]
    free = {"type": "any_text", "max_tokens": 3, **{key: value for key, value in given.items() if key != "end"}}
    value = {"type": "tag", "begin": "<", "content": free, "end": given["end"]} if given else free
    compiled = compile_structural_tags({"format": value}, byte_vocabulary())
    for text in taken:
        assert reads(compiled, text), text
    for text in refused:
        assert not reads(compiled, text), text
    check_masks(compiled, 1, steps=6)
