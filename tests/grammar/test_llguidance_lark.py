"""What llguidance adds to Lark's notation: counts, hyphens, empty terminals, `&`, `~`, `%regex`, attributes,
grammars in grammars, and rules with a parameter."""

from __future__ import annotations

import random
import re

import pytest

from sluicegate.grammar import GrammarError, GrammarLimit, InvalidGrammar, UnsupportedGrammar, compile_lark
from sluicegate.grammar.lark.extensions.substrings import substrings, words_of
from tests.grammar.grammar_checks import accepts, byte_vocabulary, check_masks

CALLS = r"""
start: (call-a | call-b)* rest
rest: TEXT
TEXT: /[^<]*/
open-a[lazy]: /(.|\n)*<function/
call-a: open-a "=a>" %json {"type": "object"} "</function>"
call-b: open-a "=b>" /[0-9]+/{,2} "</function>"
"""
READ: dict[str, tuple[str, list[str], list[str]]] = {
    "counts": (
        'start: "a"{2,3} "b"{2} ("c" "d"){2,} "e"{,1} ["f"]{1,}',
        ["aabbcdcdf", "aaabbcdcdcdef", "aabbcdcdff", "aabbcdcd"],
        ["abbcdcd", "aabbcd", "aabbcdcdee"],
    ),
    "names with hyphens": (
        'start: a-b X-Y (a_b)?\na-b: "q"\nX-Y: /z+/\na_b: "n" -> left-over',
        ["qz", "qzz", "qzn"],
        ["nz", "q", "qn"],
    ),
    "what may be empty": (
        'start: "a" "" B C? D "z"\nB: ""\nC: /c*/\nD: C | "d"*\n%ignore / */',
        ["az", "accz", "a ddz"],
        ["ab", "a", "adcz", "a d dz"],
    ),
    "both, and not": (
        "start: A\nA: /[a-z ]*/ & ~/(?s:.*)foo(?s:.*)/",
        ["bar", "fo", "", "f oo"],
        ["afoo", "foo", "xfoox", "1"],
    ),
    "precedence": (
        'start: A | B\nA: /a+/ & /.{2,3}/ | "x"\nB: ~A & /[ax]{1,5}/ | ~"y"{2} & "zz"',
        ["aa", "x", "a", "aaaa", "xx", "zz"],
        ["", "aaaaaa", "y", "zzz"],
    ),
    "terminals of the library": (
        'start: A\nA: (INT & ~"7") | "\\"" LETTER~2..3 "\\"" | "p".."r"\n%import common (INT, LETTER)',
        ["12", "77", '"ab"', '"abc"', "q"],
        ["7", "a", '"a"', "s"],
    ),
    "runs of texts": (
        'start: "<" %regex {"substring_chunks": ["abc", "de", "", "fg"]} ">"',
        ["<>", "<abc>", "<de>", "<abcde>", "<defg>", "<abcdefg>"],
        ["<ab>", "<cde>", "<abcfg>", "<deabc>"],
    ),
    "runs of words": (
        '%llguidance {}\nstart: A "!"\nA: %regex {"substring_words": "foo bar. baz"} & /.{3,}/',
        ["foo!", " bar.!", "bar. baz!"],
        ["fo!", "r. baz!", "!"],
    ),
    "runs of characters": (
        'start: %regex {"substring_chars": "ab c\u00e9"}',
        ["", "b c", "ab", "\u00e9"],
        ["a c", "ba"],
    ),
    "a suffix": (
        'start: x "b"\nx[suffix="<end>"]: /.*/',
        ["foo<end>b", "<end>b"],
        ["foob", "foo<end>a<end>b", "foo<end>"],
    ),
    "a suffix that is a terminal": (
        "start: x Y?\nx[suffix=Y]: /[a-z0-9]+/\nY: /[0-9];/",
        ["ab1;", "ab1;2;", "11;"],
        ["ab", "ab1;x"],
    ),
    "a lazy rule": ("start: x y\nx[lazy]: /.*<end>/\ny: /[^<]*/", ["foo<end>", "foo<end>bar"], ["foo<end>bar<end>"]),
    "a stop": (
        'start: x "<end>"\nx[stop="<end>"]: /.*/',
        ["foo<end>", "<en<end>", "<end>"],
        ["foo<end>bar<end>", "foo"],
    ),
    "a stop at the end": ('start: x "."\nx[stop=""]: /[a-z]+/', ["foo."], ["foo", "."]),
    "each of several once, in any order": (
        'start: list::0 "."\n'
        'list::_: "" %if is_ones([0:3])\n'
        '| "a" list::set_bit(0) %if bit_clear(0)\n'
        '| ("b" list::set_bit(1) %if bit_clear(1) | c-c list::bit_or(0x4) %if not(bit_set(2)))\n'
        'c-c: "c"',
        ["abc.", "cba.", "bac."],
        ["ab.", "aab", "abca", "."],
    ),
    "counted together": (
        "start: list::0\n"
        'list::_: (last::decr([0:2]) ";")? %if ge([0:2], 1)\n'
        '| "a" list::incr([0:2]) %if lt([0:2], 2)\n'
        '| "b" list::incr([2:4]) %if and(le([2:4], 0), true)\n'
        'last::_: "x" %if bit_count_gt(_, 0) | "y" last::3 %if or(is_zeros(_), gt([2:3], 0))',
        ["a", "aa", "ba", "aba", "aax;", "ayx;", "baax;"],
        ["", "b", "aaa", "abb", "ax;", "aayx;", "a;"],
    ),
    "a grammar with blanks of its own": (
        'start: "<" %lark {\n  start: x+ // "}"\n  x: "a" | /[b}]/ %json {"type": "integer"}\n  %ignore / +/\n} end\n'
        'end: "x"? ">"\n%ignore "_"',
        ["<a>", "_<_aa_x_>_", "<a b 1 >", "<}2x>", "<a  >"],
        ["< a>", "<>", "<a_a>", "<b>", "<x>"],
    ),
    "a grammar in a grammar": (
        'start: %lark { start: %lark { start: A{1,2}\nA: "a" } B\nB: "b" } B\nB: "c"',
        ["abc", "aabc"],
        ["ab", "abb", "ac"],
    ),
    "calls amid text": (
        CALLS,
        ["hi", 'a < b <function=a>{"a": 1}</function>', "x<function=b>12</function>y", "<function=b></function>"],
        ["a<function", "<function=b>1a</function>", "<function=c></function>", "<function=a>1</function>"],
    ),
}


@pytest.mark.parametrize("name", READ)
def test_the_texts_are_those_that_llguidance_describes(name: str) -> None:
    text, valid, invalid = READ[name]
    compiled = compile_lark(text, byte_vocabulary())
    for expected, examples in ((True, valid), (False, invalid)):
        for example in examples:
            for seed in (0, 1):
                assert accepts(compiled, example, seed) is expected, example


@pytest.mark.parametrize("name", READ)
def test_the_mask_equals_trying_every_token(name: str) -> None:
    for seed in range(3):
        check_masks(compile_lark(READ[name][0], byte_vocabulary()), seed, steps=10)


@pytest.mark.parametrize("seed", range(20))
def test_runs_of_texts_are_all_runs_and_no_others(seed: int) -> None:
    pick = random.Random(seed)
    chunks = ["".join(pick.choices("ab c", k=pick.randrange(4))) for _ in range(pick.randrange(7))]
    runs = {"".join(chunks[n:m]) for m in range(len(chunks) + 1) for n in range(m + 1)}
    found = substrings(chunks)
    assert set(found.enumerate(10_000)) == runs
    assert "".join(words_of("a b-c\n d")) == "a b-c\n d"


@pytest.mark.parametrize("seed", range(20))
def test_sets_of_texts_are_those_of_expressions(seed: int) -> None:
    """`&`, `~`, repetitions and alternatives of random terminals, against Python's `re`."""
    pick = random.Random(seed)
    parts = pick.sample(["a", "ab", "b+", "[ab]", "a?b", "(ab)*", "c|a"], 3)
    low, more = pick.randrange(3), pick.randrange(3)
    grammar = f"start: A\nA: (/{parts[0]}/ | /{parts[1]}/){{{low},{low + more}}} & ~/{parts[2]}/+ | /x/"
    compiled = compile_lark(grammar, byte_vocabulary())
    for size in range(5):
        for _ in range(8):
            text = "".join(pick.choices("abc", k=size))
            both = re.fullmatch(f"(?:{parts[0]}|{parts[1]}){{{low},{low + more}}}", text)
            # `~` binds tighter than `+`: one text or more, of which none is the expression
            cuts = [text[i:] for i in range(len(text) + 1)]
            outside = any(_cuts_without(parts[2], cut) for cut in cuts[:1])
            assert accepts(compiled, text, 1) is bool(both and outside), (grammar, text)


def _cuts_without(pattern: str, text: str) -> bool:
    """Return whether `text` is one text or more after each other, none of which `pattern` matches."""
    if not re.fullmatch(pattern, text):
        return True
    return any(not re.fullmatch(pattern, text[:n]) and _cuts_without(pattern, text[n:]) for n in range(1, len(text)))


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        (
            'start[capture]: "a"',
            UnsupportedGrammar,
            "line 1, column 7: the attribute capture is not supported; answers",
        ),
        ("start: x\nx[temperature=0.5]: /a/", UnsupportedGrammar, "line 2, column 3: the attribute temperature"),
        ("start: x\nx[often]: /a/", InvalidGrammar, "line 2, column 3: unknown attribute 'often'; read are lazy"),
        ('start: <|eot|> "a"', InvalidGrammar, "line 1, column 8: the model has no token <|eot|>. Write a text in"),
        ("start: @other", UnsupportedGrammar, "line 1, column 8: another grammar cannot be referred to"),
        ('start: "a" & "b"', UnsupportedGrammar, "line 1, column 12: & joins terminals: define one"),
        ('start: "a"{3,2}', InvalidGrammar, "line 1, column 11: {3,2} repeats"),
        ('start: "a"{2000}', GrammarLimit, "line 1, column 11: {2000} repeats more than 1000 times"),
        ('start: A\nA: ~B\nB: A "x"', InvalidGrammar, "line 2, column 5: terminal B refers to itself"),
        ('start: A\nA: /a/ & b\nb: "x"', InvalidGrammar, "line 2, column 10: b is a rule"),
        ('start: A\nA: ( "a" & "b"', InvalidGrammar, "line 2, column 4: this group is never closed"),
        ("start: A\nA: /a/ & /b/", InvalidGrammar, "line 2, column 1: this terminal matches nothing"),
        ('start: %regex {"type": "number"}', UnsupportedGrammar, "line 1, column 8: %regex takes one of"),
        ("start: %lark {}", InvalidGrammar, "line 1, column 15: the grammar of this %lark has no rule `start`"),
        ("start: %lark { start: x", InvalidGrammar, "line 1, column 14: the braces of this grammar are never closed"),
        ("start: %lark start", InvalidGrammar, "line 1, column 14: a grammar in braces stands after %lark"),
        ('start: %lark {\n  start: "a"\n    | <|x|> }', InvalidGrammar, "line 3, column 7: the model has no token"),
        ('start: A\nA: %lark { start: "a" }', InvalidGrammar, "line 2, column 4: %lark can stand in a rule only"),
        ('start: a::1\na: "x"', InvalidGrammar, "line 1, column 8: the rule 'a' has no parameter; define it as a::_"),
        ('start: a\na::_: "x"', InvalidGrammar, "line 1, column 8: the rule 'a' needs a parameter, as in a::0"),
        ("start: a::_\na::_: /x/", InvalidGrammar, "line 1, column 8: the rule 'start' has no parameter to use"),
        ("start: a::1\na::_: /x/ %if eq([3:3], 0)", InvalidGrammar, "line 2, column 18: the bits [3:3] are none"),
        ("start: a::1\na::_: /x/ %if maybe(3)", InvalidGrammar, "line 2, column 15: unknown condition 'maybe'"),
        ("start: a::more(1)\na::_: /x/", InvalidGrammar, "line 1, column 11: a parameter stands after ::, one of"),
        ("start: a::99999999999999999999\na::_: /x/", InvalidGrammar, "line 1, column 11: the number needs more"),
        ('start: a::0\na::_: "x" a::incr(_)', GrammarLimit, "line 2, column 1: parameters take more than 20000"),
        ("start: A\nA: a::0\na::_: /x/", InvalidGrammar, "line 2, column 4: parameters can stand in rules only"),
    ],
)
def test_what_is_not_read_is_named_with_its_place_and_what_to_write(
    text: str, error: type[GrammarError], said: str
) -> None:
    with pytest.raises(error) as raised:
        compile_lark(text, byte_vocabulary())
    assert said in str(raised.value)
