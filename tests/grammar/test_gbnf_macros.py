"""What XGrammar's EBNF has beside GBNF: macros, options of rules, and a lookahead that promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sluicegate.grammar import GrammarError, GrammarLimit, InvalidGrammar, UnsupportedGrammar, compile_lark
from sluicegate.grammar.tags import compile_structural_tags
from tests.grammar.grammar_checks import accepts, byte_vocabulary, check_masks

CALLS = 'TagDispatch(("<t>", one), ("<u>", two){more})\none ::= "1" [p]*\ntwo ::= "2" | two "q"'
READ: dict[str, tuple[str, list[str], list[str]]] = {
    "an expression": (
        r'root ::= "ID-" Regex("\\d{2}[a-z]?") | Regex("x*")',
        ["ID-12", "ID-12c", "", "xx"],
        ["ID-1", "ID-1x", "x1"],
    ),
    "any character is a line break too": ('root ::= Regex("a.c")', ["a\nc", "abc"], ["ac"]),
    "flags": ('root ::= Regex("a.c", flags="i")', ["ABC", "abC"], ["a\nc"]),
    "flags inside": ('root ::= Regex("(?i)abc") Regex("x.", flags="s")', ["aBCx\n"], ["abcX\n"]),
    "a digit is one of ten": (r'root ::= Regex("\\d")', ["7"], ["٣"]),
    "in front of what is read by rules": (
        'root ::= Regex("[a-z]+") root | "(" root ")" | ""',
        ["ab(c)", ""],
        ["(a", "A"],
    ),
    "inside JSON": (r'root ::= "\"" Regex(".+", json_string=true) "\""', ['"ab"', '"é "'], ['"a\nb"', '"a\\b"', '""']),
    "substrings": (
        'root ::= Substring("abc", "de", "fg")',
        ["", "abc", "de", "abcde", "defg", "abcdefg"],
        ["ab", "cde", "abcfg"],
    ),
    "substrings of nothing": ('root ::= "<" Substring() ">"', ["<>"], ["<"]),
    "tags in text": (
        "root ::= " + CALLS.format(more=""),
        ["", "hi <t", "<t>1", "a<t>1pp b<u>2qq<t>1!"],
        ["<t>", "<t>2", "a<u>"],
    ),
    "tags once": (
        "root ::= " + CALLS.format(more=", loop_after_dispatch=false"),
        ["hi", "a<t>1pp", "<u>2qq"],
        ["<t>1 b", "<t>1<t>1", "<t>"],
    ),
    "tags up to an end": (
        'root ::= body "</a>"\nbody ::= ' + CALLS.format(more=', excludes=("</a>",)'),
        ["</a>", "x<t>1y</a>", "<t>1</a>"],
        ["x", "</a></a>", "x</a>y</a>"],
    ),
    "excluded texts in one another": (
        'root ::= TagDispatch(excludes=("abc", "xabcq", "b"), loop_after_dispatch=false)',
        ["ac", "xa"],
        ["xabc", "b"],
    ),
    "a tag that holds an excluded text is never read": (
        'root ::= TagDispatch(("xabc", one), ("y", one), excludes="abc")\none ::= "!"',
        ["y!", "xab"],
        ["xabc", "xabc!"],
    ),
    "text alone": ("root ::= TagDispatch()", ["", "any\n"], []),
    "tokens": ("root ::= Token(97, 98)+", ["ab", "b"], ["", "c"]),
    "so many tokens": ('root ::= x "."\nx[max_tokens=3] ::= [q-z]*', [".", "xyz."], ["wxyz.", "xyz"]),
    "no token": ('root ::= x "."\nx[max_tokens=0] ::= [a-z]+', ["."], ["a."]),
    "tokens of an expression": (
        'root ::= x "."\nx[max_tokens=3] ::= Regex("(aa)*|b+;")',
        [".", "aaaa.", "bbbbbb;."],
        ["aaa.", "aaaaaa."],
    ),
    "so many characters": ('root ::= x "."\nx[max_chars=2] ::= [^.]*', [".", "é中.", "ab."], ["abc."]),
    "characters up to where it may end": (
        'root ::= x "."\nx[max_chars=3] ::= ("aa")* | "b"+ ";"',
        ["aaaa.", "bbbbb;.", "aa."],
        ["aaaaaa.", "aaa.", "bbbb."],
    ),
    "the first match": ('root ::= "<" r ">"\nr[lazy] ::= [a-z] [a-z]*', ["<a>"], ["<ab>", "<>"]),
    "a bound of both kinds": ('root ::= x "."\nx[ max_tokens=5 , max_chars=2 ] ::= [a-z]*', ["ab."], ["abc."]),
    "options in front of a class": ('root ::= x [y]\nx[max_chars=1] ::= "a" | "aa"', ["ay"], ["aay", "a"]),
    "a promise of what follows": ('root ::= x "b"\nx ::= ("a" | "aa") (=[b] "b")', ["ab", "aab"], ["a", "abb"]),
    "a promise over lines": ('root ::= x\nx ::= "a"\n  (= "b" y)\ny ::= "c"', ["a"], ["ab"]),
    "an escape": (r'root ::= "\e" [\e]', ["\x1b\x1b"], ["e"]),
}


@pytest.mark.parametrize("name", READ)
def test_what_xgrammar_reads_beside_gbnf_is_read(name: str) -> None:
    text, taken, refused = READ[name]
    compiled = compile_lark(text, byte_vocabulary())
    for each in taken:
        assert accepts(compiled, each), each
    for each in refused:
        assert not accepts(compiled, each), each
    check_masks(compiled, 1, steps=8)


def test_a_macro_inside_a_json_string_is_spelled_as_json() -> None:
    content = {"type": "grammar", "grammar": 'root ::= Regex("[a\\"\\n]+")'}
    compiled = compile_structural_tags({"format": {"type": "json_string", "content": content}}, byte_vocabulary())
    assert accepts(compiled, r'"a\"\n"')
    assert not accepts(compiled, '"a\n"')


NESTED = "root ::= TagDispatch(" + "(" * 5_000
WRONG: list[tuple[str, type[GrammarError], str]] = [
    ('root ::= Regex("(")', InvalidGrammar, "line 1, column 10: Regex: "),
    ('root ::= Regex("a{1,90000}b{1,90000}")', GrammarLimit, "line 1, column 10: Regex: the pattern needs more"),
    ("root ::= Regex(x)", InvalidGrammar, "line 1, column 10: Regex takes one expression"),
    ('root ::= Regex("a", flags="x")', InvalidGrammar, "the flags of an expression are i, s and u, not 'x'"),
    ('root ::= Regex("a", flags=1)', InvalidGrammar, "the argument flags has another form"),
    ('root ::= Regex("a", more="x")', InvalidGrammar, "unknown argument 'more'; known are flags, json_string"),
    ('root ::= Regex("a" "b")', InvalidGrammar, "separated by commas"),
    ('root ::= Regex("a', InvalidGrammar, "line 1, column 16: this text is never closed"),
    ("root ::= Substring(1)", InvalidGrammar, "Substring takes texts"),
    ('root ::= Token("a")', InvalidGrammar, "Token takes numbers of tokens"),
    ("root ::= Token(99999)", InvalidGrammar, "line 1, column 10: the model has no token 99999"),
    ('root ::= TagDispatch(("a", b))', InvalidGrammar, "line 1, column 28: rule 'b' is used but not defined"),
    ('root ::= TagDispatch("a")', InvalidGrammar, "TagDispatch takes pairs of a text and a rule"),
    ('root ::= TagDispatch(("a", root), ("a", root))', InvalidGrammar, "'a' does not"),
    ('root ::= TagDispatch(("a", root), ("xa", root))', UnsupportedGrammar, "the tag 'xa' holds another one"),
    ('root ::= TagDispatch(excludes=("",))', InvalidGrammar, "excludes are texts that are not empty"),
    (NESTED, InvalidGrammar, "line 1, column 24"),
    (
        "root ::= TokenTagDispatch((1, root))",
        UnsupportedGrammar,
        "TokenTagDispatch(...); masks are made of texts: use TagDispatch",
    ),
    ("root ::= ExcludeToken(1)", UnsupportedGrammar, "ExcludeToken(...); write !<[5]>*"),
    ('root[capture="x"] ::= "a"', UnsupportedGrammar, "line 1, column 6: not supported: the option capture: answers"),
    ('root[temperature=0] ::= "a"', UnsupportedGrammar, "the option temperature"),
    (
        'root ::= x\nx[late] ::= "a"',
        InvalidGrammar,
        "line 2, column 3: unknown option 'late'; read are lazy, max_tokens=NUMBER",
    ),
    ('root[lazy=1] ::= "a"', InvalidGrammar, "options are written lazy, max_tokens=9"),
    ('root[max_chars] ::= "a"', InvalidGrammar, "options are written lazy, max_tokens=9"),
    ('root[lazy, lazy] ::= "a"', InvalidGrammar, "stands here twice"),
    (
        'root ::= x\nx[lazy] ::= "a" x | "b"',
        UnsupportedGrammar,
        "line 2, column 1: not supported: options of a rule that refers",
    ),
    (
        'root ::= "a" (= "b") "c"',
        UnsupportedGrammar,
        "line 1, column 14: not supported: a lookahead that is not the end",
    ),
    ('root ::= "a" (= "b"', InvalidGrammar, "line 1, column 14: this lookahead is never closed"),
]


@pytest.mark.parametrize(("text", "error", "said"), WRONG)
def test_what_is_wrong_is_said_with_its_place(text: str, error: type[GrammarError], said: str) -> None:
    with pytest.raises(error) as raised:
        compile_lark(text, byte_vocabulary())
    assert said in str(raised.value)


def naive(tags: dict[str, str], excludes: tuple[str, ...], text: str) -> bool:
    """Say whether a text is one of `TagDispatch`, each tag of which leads to one text, by its description."""
    at = begun = 0
    while at <= len(text):
        free = text[begun:at]
        tag = next((each for each in tags if free.endswith(each)), None)
        if any(each in free for each in excludes):
            return False
        if tag is not None:
            if not text.startswith(tags[tag], at):
                return False
            at = begun = at + len(tags[tag])
        else:
            at += 1
    return True


def test_dispatched_texts_are_those_of_a_plain_search() -> None:
    pick = np.random.default_rng(3)
    for tags, excludes in (({"ab": "c", "ba": "a"}, ("cc",)), ({"aa": "b"}, ("ca", "c")), ({}, ("ab", "bab"))):
        pairs = "".join(f'("{tag}", r{n}), ' for n, tag in enumerate(tags))
        rules = "".join(f'\nr{n} ::= "{text}"' for n, text in enumerate(tags.values()))
        listed = ", ".join(f'"{each}"' for each in excludes)
        compiled = compile_lark(f"root ::= TagDispatch({pairs}excludes=({listed})){rules}", byte_vocabulary())
        found: dict[str, Any] = {}
        for _ in range(150):
            text = "".join(pick.choice(list("abc"), size=int(pick.integers(0, 8))))
            found[text] = accepts(compiled, text)
            assert found[text] is naive(tags, excludes, text), (tags, text)
        assert set(found.values()) == {True, False}
