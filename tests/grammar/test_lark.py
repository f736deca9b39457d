"""Grammars in Lark's notation."""

from __future__ import annotations

import random

import lark
import numpy as np
import pytest

from grammar import InvalidGrammar, Unsatisfiable, UnsupportedGrammar, compile_lark
from tests.grammar.grammar_checks import accepts, allowed, byte_vocabulary
from tests.reference.mask_by_trial import mask_by_trial

SUMS = r"""
start: expr
expr: expr "+" term | term
term: term "*" atom | atom
atom: NUMBER | NAME | "(" expr ")" | "-" atom
NAME: /[a-z]+/
%import common.NUMBER
%ignore " "
"""
LISTS = r"""
start: item~2..3 tail?
item: "x"i | "[" (item ("," item)*)? "]"
tail: /\.+/ start?
"""
EMPTY = 'start: a b?\na: "x"*\nb: "y" start | "z"~2..3\n'


@pytest.mark.parametrize(
    ("text", "valid", "invalid"),
    [
        (SUMS, ["1", "a+b", "(1+2)*abc", "a +  b", "--1", "12.5"], ["1+", "", "(", "a b", ")"]),
        (LISTS, ["xX", "x[]x", "[x,[]]X", "xx..xx", "xx."], ["x", "xxxx", "[,]x", ".xx"]),
        (EMPTY, ["", "xxx", "yx", "zz", "zzz", "xyxyzz"], ["zzzz", "zx"]),
    ],
)
def test_the_texts_are_those_of_the_grammar(text: str, valid: list[str], invalid: list[str]) -> None:
    """Checked against Lark's own parser as well."""
    parser = lark.Lark(text, parser="earley", lexer="dynamic_complete")
    compiled = compile_lark(text, byte_vocabulary())
    for expected, examples in ((True, valid), (False, invalid)):
        for example in examples:
            assert _parses(parser, example) is expected
            for seed in (0, 1):
                assert accepts(compiled, example, seed) is expected, example


def _parses(parser: lark.Lark, text: str) -> bool:
    try:
        parser.parse(text)
    except lark.exceptions.LarkError:
        return False
    return True


@pytest.mark.parametrize("text", [SUMS, LISTS, EMPTY])
def test_the_mask_equals_trying_every_token(text: str) -> None:
    vocabulary = byte_vocabulary()
    matcher, pick = compile_lark(text, vocabulary).matcher(), random.Random(3)
    row = np.zeros(vocabulary.row_words, np.int32)
    for _ in range(25):
        matcher.fill_mask(row)
        assert np.array_equal(row, mask_by_trial(matcher, vocabulary))
        if matcher.is_finished:
            break
        matcher.accept(pick.choice(sorted(allowed(matcher, vocabulary))))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("start: x", InvalidGrammar),
        ("start: [", InvalidGrammar),
        ('start: "a" start', Unsatisfiable),
        ('%import os.path\nstart: "a"', UnsupportedGrammar),
        ("%import .secrets (X)\nstart: X", UnsupportedGrammar),
        ("start: %json {}", UnsupportedGrammar),
    ],
)
def test_what_is_wrong_is_said(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        compile_lark(text, byte_vocabulary())


def test_gbnf_is_refused_by_name_and_place() -> None:
    with pytest.raises(UnsupportedGrammar, match=r"line 2, column 3: 'root ::=' is a rule in GBNF"):
        compile_lark('# a list\n  root ::= "a" | "b"', byte_vocabulary())
    compile_lark('start: "::="', byte_vocabulary())


def test_a_terminal_may_end_wherever_it_matches() -> None:
    """As with Lark's lexer `dynamic_complete`; found by fuzzing, when masks and steps read terminals differently."""
    text = 'start: A+ "ab" X\nA: /a+/\nX: /b(ac)?/'
    compiled = compile_lark(text, byte_vocabulary())
    for example in ("aabb", "aaabbac", "aab", "abb"):
        parser = lark.Lark(text, parser="earley", lexer="dynamic_complete")
        assert accepts(compiled, example) is _parses(parser, example)
