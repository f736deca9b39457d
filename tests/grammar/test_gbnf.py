"""Grammars in GBNF: their texts, against Lark's parser and by hand, and what is refused with its place."""

from __future__ import annotations

import random
import signal

import lark
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.grammar import (
    GrammarError,
    GrammarLimit,
    InvalidGrammar,
    LazyGrammar,
    TokenRejected,
    Unsatisfiable,
    compile_lark,
)
from sluicegate.grammar.tags import compile_structural_tags
from tests.grammar.grammar_checks import accepts, byte_vocabulary, check_masks, tokens_of

LARK_S = 2.0
"""For one text; where the library takes longer, nothing is compared."""
JSON = r"""
# values, as GBNF's own examples write them
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws (
    value ("," ws value)*   # over lines
  )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9]{1,3})? ws
ws     ::= | " " | "\n" [ \t]{0,20}
"""


@pytest.mark.parametrize(
    ("text", "valid", "invalid"),
    [
        (JSON, ['{"a": [1, 2.5e3, {"b": null}], "c": "\\u00e9x"}', "{}", '{"é":{}}'], ['{"a":}', '{"a": tru}', "[1]"]),
        ('root ::= "a" [b-d]+ [^e]{2,3} # c\n  | "\\x41\\u00e9"', ["abxx", "ab\n\n", "abxxx", "Aé"], ["abee", "aabc"]),
        ('root ::= ("(" root ")")? "x"{0,2}', ["", "(x)", "((xx))"], ["(", "xxx", "x(x)"]),
        ('root ::= x{2}\nx ::= "a" x | "b"', ["bb", "abab", "aabb"], ["ab", "bbb"]),
        ('root ::= x{1,3} y\nx ::= "a" x? | "b"\ny::="."', ["b.", "aaaa.", "ab."], [".", "a"]),
        ('root ::= x{2,}\nx ::= "(" x ")" | "b"', ["bb", "b(b)b"], ["b", "(bb)"]),
        ('root ::= "a"{2, -1}', ["aa", "aaa"], ["a", ""]),
        (r'root ::= [-a\]\[\\^]+ "\"\\\n\t" [^^] [\U0001F600-\u{0}a]'.replace(r"\u{0}a", r"\U0001F64F"),
         ['-a][\\^"\\\n\tx😀'], ['b"\\\n\tx😀', '-"\\\n\t^😀']),
        ("my-rule-2 ::= .\nroot ::=\n  my-rule-2 |\n  root my-rule-2", ["é", "ab\n"], [""]),
        ('root ::= "a"\nsecond-unused ::= missing-nothing*\nmissing-nothing ::= [x]', ["a"], ["x"]),
        ('root ::= ("a" | "b" root)* ("c")', ["c", "abcc", "bacac"], ["ab", "bc"]),
    ],
)  # fmt: skip
def test_the_texts_are_those_of_the_grammar(text: str, valid: list[str], invalid: list[str]) -> None:
    compiled = compile_lark(text, byte_vocabulary())
    for expected, examples in ((True, valid), (False, invalid)):
        for example in examples:
            for seed in (0, 1):
                assert accepts(compiled, example, seed) is expected, example


def both_notations(pick: random.Random) -> tuple[str, str]:
    """Draw one random grammar in GBNF and in Lark's notation. A group holds no other: Lark writes each way through
    counted and optional parts as a rule of its own, which takes gigabytes where they are nested."""
    names = {"root": "start", "p": "p", "q-r": "q_r"}

    def piece(nested: bool) -> tuple[str, str]:
        kind = pick.choice([0, 1, 3, 4, 5] if nested else range(6))
        if kind == 0:
            text = pick.choice(["a", "ab", "b"])
            return f'"{text}"', f'"{text}"'
        if kind == 1:
            return pick.choice([("[b-c]", "/[b-c]/"), ("[^a]", r"/[^a]/s"), (".", "/./s"), (r'"\x61"', '"a"')])
        if kind == 2:
            inner = alternatives(1, nested=True)
            return f"({inner[0]})", f"({inner[1]})"
        name = pick.choice(list(names))
        return name, names[name]

    def sequence(most: int, nested: bool) -> tuple[str, str]:
        items = []
        for _ in range(pick.randrange(1, most)):
            ours, theirs = piece(nested)
            again = pick.choice(
                [("", ""), ("", ""), ("?", "?"), ("*", "*"), ("+", "+"), ("{1,2}", "~1..2"), ("{2}", "~2")]
            )
            items.append((ours + again[0], theirs + again[1]))
        return " ".join(ours for ours, _ in items), " ".join(theirs for _, theirs in items)

    def alternatives(most: int, nested: bool = False) -> tuple[str, str]:
        ways = [sequence(3, nested) for _ in range(pick.randrange(1, most + 2))]
        return " | ".join(ours for ours, _ in ways), " | ".join(theirs for _, theirs in ways)

    rules = {name: alternatives(2) for name in names}
    return (
        "\n".join(f"{name} ::= {ours}" for name, (ours, _) in rules.items()),
        "\n".join(f"{names[name]}: {theirs}" for name, (_, theirs) in rules.items()),
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.text("abcx", max_size=5), min_size=8, max_size=8, unique=True))
def test_random_grammars_have_the_texts_that_lark_gives_them(seed: int, texts: list[str]) -> None:
    ours, theirs = both_notations(random.Random(seed))
    try:
        compiled = compile_lark(ours, byte_vocabulary())
    except Unsatisfiable:
        return
    parser = lark.Lark(theirs, parser="earley", lexer="dynamic_complete")
    for text in texts:
        try:
            taken, expected = takes(compiled, text), parses(parser, text)
        except (GrammarLimit, TooLong):  # too many readings of a very ambiguous grammar
            return
        assert taken is expected, (ours, text)


def takes(compiled: LazyGrammar, text: str) -> bool:
    """Return whether the text is taken, without looking at masks, which takes long where a text has hundreds of
    readings."""
    matcher = compiled.matcher()
    try:
        for token in tokens_of(text, compiled.vocabulary):
            matcher.accept(token)
    except TokenRejected:
        return False
    return matcher.can_stop


class TooLong(Exception):
    """Lark's parser has not come to an end: some ambiguous grammars take it hours."""


def parses(parser: lark.Lark, text: str) -> bool:
    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LARK_S, LARK_S)  # again and again: what is raised in a callback of gc is lost
    try:
        parser.parse(text)
    except lark.exceptions.LarkError:
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return True


def test_the_mask_equals_trying_every_token() -> None:
    for seed in range(4):
        check_masks(compile_lark(JSON, byte_vocabulary()), seed)


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ('root ::= "a', InvalidGrammar, "line 1, column 10: this text is never closed"),
        ("# a list\n  root ::= b", InvalidGrammar, "line 2, column 12: rule 'b' is used but not defined"),
        ('a ::= "b"', InvalidGrammar, "no rule 'root'"),
        ("root ::= [z-a]", InvalidGrammar, "line 1, column 11: this range runs backwards"),
        ('root ::= "a" )', InvalidGrammar, "line 1, column 14"),
        ('root ::= ("a"', InvalidGrammar, "line 1, column 10: this group is never closed"),
        ('root ::= "a"{2,1}', InvalidGrammar, "line 1, column 13"),
        ('root ::= "a"{,2}', InvalidGrammar, "line 1, column 13"),
        ('root ::= "a"\nroot ::= "b"', InvalidGrammar, "line 2, column 1: rule 'root' is defined twice"),
        (r'root ::= "\q"', InvalidGrammar, r"line 1, column 11: unknown escape \q"),
        (r'root ::= "\x4"', InvalidGrammar, "line 1, column 11"),
        (r'root ::= "\ud800"', InvalidGrammar, "line 1, column 11: this is no character"),
        ('root ::= "a" | ::= "b"', InvalidGrammar, "line 1, column 16"),
        ("root ::= [", InvalidGrammar, "line 1, column 10"),
        ('root ::= "a"{1,-2}', InvalidGrammar, "line 1, column 13: a repetition is {n}"),
        ("root ::= <think>", InvalidGrammar, "line 1, column 10: the model has no token <think>"),
        ('root ::= "a" root', Unsatisfiable, "`root` recurses without end"),
        ("root ::= []", Unsatisfiable, "no text"),
        ('root ::= x{99999}\nx ::= "a" x | "b"', GrammarLimit, "50000"),
        ("root ::= " + "(" * 300 + '"a"' + ")" * 300, GrammarLimit, "nested"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, error: type[GrammarError], said: str) -> None:
    with pytest.raises(error) as raised:
        compile_lark(text, byte_vocabulary())
    assert said in str(raised.value)


def test_a_lark_grammar_that_speaks_of_gbnf_is_still_one() -> None:
    assert accepts(compile_lark('// root ::= x\nstart: "::="', byte_vocabulary()), "::=")


def test_automata_that_would_grow_too_large_stay_rules() -> None:
    """As one automaton this one has a million states."""
    compiled = compile_lark('root ::= [ab]* "a" [ab]{20}', byte_vocabulary())
    assert accepts(compiled, "ba" + "b" * 20)
    assert not accepts(compiled, "bb" + "b" * 20)


def test_a_structural_tag_can_hold_one() -> None:
    content = {"type": "grammar", "grammar": 'root ::= "a"+ | "(" root ")"'}
    tag = {"type": "tag", "begin": "<n>", "content": content, "end": "</n>"}
    compiled = compile_structural_tags({"format": tag}, byte_vocabulary())
    assert accepts(compiled, "<n>((aa))</n>")
    assert not accepts(compiled, "<n>(a</n>")
