"""Tokens that a grammar names, in Lark's notation and in GBNF: special ones are offered where they are named alone."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from sluicegate.grammar import (
    GrammarError,
    GrammarLimit,
    GrammarOptions,
    InvalidGrammar,
    LazyMatcher,
    TokenRejected,
    UnsupportedGrammar,
    Vocabulary,
    compile_lark,
)
from sluicegate.grammar.completion import Completion

THE, CLOSE, SYSTEM, CALL, END, STOP = 256, 257, 258, 259, 260, 261
NAMES = {"</think>": CLOSE, "<|system|>": SYSTEM, "<|call|>": CALL, "<|end|>": END}


@lru_cache(maxsize=1)
def vocabulary() -> Vocabulary:
    words = [bytes([byte]) for byte in range(256)] + [b"the ", b"</think>", b"", b"", b"", b""]
    return Vocabulary.from_bytes(words, eos_token_ids=[END, STOP], special=NAMES)


def spelled(*parts: str | int) -> list[int]:
    return [token for part in parts for token in (part.encode() if isinstance(part, str) else [part])]


def walked(text: str, tokens: list[int], options: GrammarOptions | None = None) -> tuple[LazyMatcher, set[int]] | None:
    """Return the matcher after `tokens` and what its mask allows; None where a mask refuses one of them."""
    matcher = compile_lark(text, vocabulary(), options=options).matcher()
    for token in tokens:
        if token not in allowed(matcher):
            with pytest.raises(TokenRejected):
                matcher.accept(token)
            return None
        matcher.accept(token)
    return matcher, allowed(matcher)


def allowed(matcher: LazyMatcher) -> set[int]:
    row = np.zeros(vocabulary().row_words, np.int32)
    matcher.fill_mask(row)
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


READ: dict[str, tuple[str, list[list[int]], list[list[int]]]] = {
    "before and behind text": (
        "start: <|system|> /a+/ <|call|>",
        [spelled(SYSTEM, "aa", CALL)],
        [spelled("a"), spelled(SYSTEM, CALL), spelled(SYSTEM, "a", SYSTEM), spelled(SYSTEM, "a", CALL, CALL)],
    ),
    "not as text": (
        "start: /(?s:.)*/ <|call|>",
        [spelled("x", THE, CALL)],
        [spelled(SYSTEM), spelled("<|call|>")],
    ),
    "by number, repeated": (
        f'start: (/x/ | <[{SYSTEM}-{CALL}]> | <[{THE}]>){{2,3}} "."',
        [spelled("x", CALL, "."), spelled(THE, SYSTEM, "x."), spelled("the the .")],
        [spelled("x."), spelled("the", CALL)],
    ),
    "beside a JSON value": (
        'start: <|call|> %json {"type": "integer"} <|system|> %lark { start: "b" <|call|> }',
        [spelled(CALL, "12", SYSTEM, "b", CALL)],
        [spelled(CALL, "12b"), spelled("1"), spelled(CALL, SYSTEM)],
    ),
    "one that ends a text": (
        "start: x | y\nx: <|system|> /a/ <|end|>\ny: /b/ (<|call|> | <|end|>)",
        [spelled(SYSTEM, "a"), spelled("b"), spelled("b", CALL)],
        [spelled(SYSTEM, "aa"), spelled(SYSTEM)],
    ),
    "in GBNF": (
        f'root ::= <|system|> ("a" | <[{CALL}]>)* "b" | deep\ndeep ::= "(" deep? ")" <|call|>',
        [spelled(SYSTEM, "a", CALL, "ab"), spelled("()", CALL), spelled("((", ")", CALL, ")", CALL)],
        [spelled(SYSTEM, SYSTEM), spelled("()"), spelled("((", ")", CALL, CALL)],
    ),
    "thoughts in GBNF": (
        'root ::= "<think>" thinking </think> [a-z]*\nthinking ::= !</think>*',
        [spelled("<think>hm <b", CLOSE, "yes"), spelled("<think>", CLOSE), spelled("<think>a</think>")],
        [spelled("<think>", CLOSE, "A"), spelled("<think>", SYSTEM)],
    ),
    "text without a special token in GBNF": (
        "root ::= !<|call|>+ <|call|>",
        [spelled("x", THE, CALL)],
        [spelled(CALL), spelled("x", SYSTEM)],
    ),
}


@pytest.mark.parametrize("name", READ)
def test_a_token_is_offered_where_the_grammar_names_it_and_nowhere_else(name: str) -> None:
    text, valid, invalid = READ[name]
    for tokens in valid:
        found = walked(text, tokens)
        assert found is not None, tokens
        assert found[0].can_stop, tokens
        assert END in found[1]
    for tokens in invalid:
        found = walked(text, tokens)
        assert found is None or not found[0].can_stop, tokens


def test_a_completion_spells_special_tokens_which_have_no_text() -> None:
    found = walked('start: "a" <|system|> "b" <|call|>', spelled("a"))
    assert found is not None
    matcher, _ = found
    assert matcher.shortest_completion() == Completion(b"b", (SYSTEM, ord("b"), CALL))
    matcher.accept(SYSTEM)
    matcher.accept(ord("b"))
    matcher.rollback(2)
    assert allowed(matcher) == {SYSTEM}


def test_a_blocklist_holds_beside_special_tokens() -> None:
    options = GrammarOptions.from_mapping({"blocklist": ["bad"]})
    assert walked("start: <|call|> /[a-z ]*/", spelled(CALL, "a good"), options) is not None
    assert walked("start: <|call|> /[a-z ]*/", spelled(CALL, "a bad"), options) is None


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("start: /a/\n  | <|other|>", InvalidGrammar, "line 2, column 5: the model has no token <|other|>; it has <"),
        ("start: <[300]>", InvalidGrammar, "line 1, column 8: the model has no token 300; the last one is 261"),
        ("start: <[5-2]>", InvalidGrammar, "line 1, column 8: the range 5-2 runs backwards"),
        ("start: <[1,x]>", InvalidGrammar, "line 1, column 8: tokens are written <[5]>, <[5-9]> or <[5,7-9]>"),
        ("start: <[*]>", UnsupportedGrammar, "line 1, column 8: <[*]> and <[^...]> count tokens"),
        ("start: A\nA: <|call|>", InvalidGrammar, "line 2, column 4: a token can stand in a rule only"),
        ('start: x "a"\nx: <|end|>', UnsupportedGrammar, "line 2, column 4: <|end|> ends a text, but something may"),
        ('root ::= "a"\n <nope>', InvalidGrammar, "line 2, column 2: the model has no token <nope>"),
        ("root ::= !<|call|>", UnsupportedGrammar, "line 1, column 10: not supported: one token that is not <|call|>"),
        ('root ::= (<|end|> | "b") "a"', UnsupportedGrammar, "line 1, column 11: <|end|> ends a text"),
        ('root ::= < "a"', InvalidGrammar, "line 1, column 10: a token is written <name> or <[5]>"),
    ],
)
def test_a_token_that_cannot_be_read_is_named_with_its_place(text: str, error: type[GrammarError], said: str) -> None:
    with pytest.raises(error) as raised:
        compile_lark(text, vocabulary())
    assert said in str(raised.value)


def test_ranges_are_bounded() -> None:
    large = Vocabulary.from_bytes([b"a"] * 6_000 + [b""], eos_token_ids=[6_000])
    with pytest.raises(GrammarLimit, match=r"the range 0-5999 has more than 5000 tokens"):
        compile_lark("start: <[0-5999]>", large)
