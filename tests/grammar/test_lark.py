"""Grammars in Lark's notation."""

from __future__ import annotations

import re
from pathlib import Path

import lark
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.lark import from_lark

from sluicegate.grammar import (
    GrammarError,
    GrammarLimit,
    GrammarOptions,
    InvalidGrammar,
    Unsatisfiable,
    UnsupportedGrammar,
    compile_lark,
)
from tests.grammar.grammar_checks import accepts, byte_vocabulary, check_masks, walk

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
VALUES = """
start: (TEXT | call)*
TEXT: /[^<]+/
call: "<t>" %json {"type": "object", "properties": {"a": {"type": "integer"}},
                   "required": ["a"]} "</t>"
    | "<l>" list
list: %json {"type": "array", "items": {"type": "integer"}, "uniqueItems": true}
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


@pytest.mark.parametrize("text", [SUMS, LISTS, EMPTY, VALUES])
def test_the_mask_equals_trying_every_token(text: str) -> None:
    check_masks(compile_lark(text, byte_vocabulary()), seed=3)


@pytest.mark.parametrize(
    ("text", "error", "place"),
    [
        ("start: x", InvalidGrammar, "line 1, column 8"),
        ("start: [", InvalidGrammar, "line 1"),
        ('start: "a"\n  | "y"\n  | <[9999]>', InvalidGrammar, "line 3, column 5: the model has no token 9999"),
        ('begin: "a"', InvalidGrammar, "no rule `start`"),
        ('start: "a" start', Unsatisfiable, "recurses without end"),
        ('%import os.path\nstart: "a"', UnsupportedGrammar, "line 1, column 1"),
        ("\n%import .secrets (X)\nstart: X", UnsupportedGrammar, "line 2, column 1"),
        ('start: "a"\n  "\\xZZ"', InvalidGrammar, "line 2, column 4: \\x takes 2 hexadecimal digits"),
        ("start: /a\\u{43}/i", InvalidGrammar, "line 1, column 10: \\u takes 4 hexadecimal digits"),
        ('start: "x"\n | "ab".."c"', InvalidGrammar, "line 2, column 4: a range goes from one character to another"),
        ('start: "x"\n | "d".."a"', InvalidGrammar, 'line 2, column 4: the range "d".."a" runs backwards'),
        ("start: /a\nb/", InvalidGrammar, "line 1, column 8: an expression reaches over the end of its line"),
        ('start: "a"{-1,}', InvalidGrammar, "line 1, column 11: a repetition is {n}, {n,}, {,m} or {n,m}"),
        ('start: A\nA: B "x"', InvalidGrammar, "line 2, column 4: "),
        ("%import unicode.LU\nstart: LU", UnsupportedGrammar, "line 1, column 1"),
        ("start: A\n%declare A", UnsupportedGrammar, "line 2, column 1"),
        ('start: "x"~3..2', InvalidGrammar, "line 1, column 12"),
        ("start: A\nA: /[^\\s\\S]/", InvalidGrammar, "line 2, column 4: terminal A: it matches nothing"),
        ("start: /(/", InvalidGrammar, "line 1, column 8"),
        ('start: "a"\n%ignore X', InvalidGrammar, "line 2, column 9"),
        ('start: x{"a"}', InvalidGrammar, "line 1, column 8"),
        ("start: %regex {}", UnsupportedGrammar, "line 1, column 8"),
        ('%llguidance {"skip_repetition": "once"}\nstart: "a"', UnsupportedGrammar, "line 1, column 1"),
        (r"start: /a(b)\1/", UnsupportedGrammar, "line 1, column 8"),
        ('start: "b" %json {\n "type":\n"string"}  [', InvalidGrammar, "line 3, column 13"),
        ('start: %json {"type": "foo"}', InvalidGrammar, "line 1, column 8: %json: type must be"),
        ('start: "a" %json { bad', InvalidGrammar, "line 1, column 20"),
        (
            'start: A\nA: "x" %json {}',
            UnsupportedGrammar,
            "line 2, column 1: terminal A: %json can stand",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, error: type[GrammarError], place: str) -> None:
    with pytest.raises(error) as raised:
        compile_lark(text, byte_vocabulary())
    assert place in str(raised.value)


@pytest.mark.parametrize(
    "pattern", [r"a(?!b)", r"a(?=b)", r"a\b", r"(?<=x)a", "a$", "^a", r"(?!if)[a-z]+", r"(ab|c(?=..))d"]
)
def test_a_terminal_that_looks_past_its_ends_is_refused(pattern: str) -> None:
    """Lark looks at the text around it; a mask cannot, and read these as if nothing stood there."""
    with pytest.raises(UnsupportedGrammar, match=r"line 2, column 4: terminal A: .* say it with rules"):
        compile_lark(f"start: A B\nA: /{pattern}/\nB: /b/", byte_vocabulary())


def test_looks_inside_a_terminal_are_exact() -> None:
    compiled = compile_lark(
        "start: STRING A\nA: /x(?!ab)[a-z]{2}/\n%import common.ESCAPED_STRING -> STRING", byte_vocabulary()
    )
    assert accepts(compiled, r'"a\"b"xac')
    assert not accepts(compiled, r'"a\"b"xab')
    assert not accepts(compiled, r'"a\"xac')


def test_lazy_repetitions_end_where_they_can() -> None:
    """As with Lark: an escaped string of its library ends with its first plain quote."""
    text = "start: ESCAPED_STRING COMMENT?\nCOMMENT: /#.*?;/\n%import common.ESCAPED_STRING"
    compiled = compile_lark(text, byte_vocabulary())
    assert accepts(compiled, '"a"#b;')
    assert not accepts(compiled, '"a"b"')
    assert not accepts(compiled, '"a"#b;c;')
    with pytest.raises(UnsupportedGrammar, match=r"line 1, column 8: .* lazy and greedy"):
        compile_lark("start: /a.*?;+/", byte_vocabulary())


def test_every_terminal_of_larks_library_is_read() -> None:
    library = (Path(lark.__file__).parent / "grammars" / "common.lark").read_text()
    names = re.findall(r"^([A-Z][A-Z_]*)\s*:", library, re.MULTILINE)
    assert len(names) > 15
    for name in names:
        compile_lark(f"start: {name}\n%import common.{name}", byte_vocabulary())


def test_a_terminal_that_may_end_inside_a_token_is_read_both_ways() -> None:
    """Found by random GBNF grammars: a token that stayed inside the terminal hid that it could end there."""
    compiled = compile_lark("start: A B\nA: /[ab]*a/\nB: /[ab]{2}/", byte_vocabulary())
    assert "ab" in {word.decode(errors="replace") for word in byte_vocabulary().words}
    for seed in (0, 1):
        assert accepts(compiled, "abb", seed)


WALKED = {
    "sums": SUMS,
    "lists": LISTS,
    "empty": EMPTY,
    "templates": 'start: _sep{pair, ","} ";"~0..2\npair: KEY "=" value\nvalue: KEY | "{" _sep{pair, "|"} "}"\n'
    "_sep{x, y}: x (y x)*\nKEY: /[a-c]{1,3}/i\n%ignore /[ \\t]+/",
    "priorities": 'start: (KEYWORD | NAME | INT)+\nKEYWORD.2: "if" | "else"\nNAME.-1: /[a-z]+/\n'
    '%import common.INT\n%ignore " "',
    "imports": "start: (NUMBER | ESCAPED_STRING | CNAME | C_COMMENT)+\n"
    "%import common (NUMBER, ESCAPED_STRING, CNAME, C_COMMENT)\n%import common.WS\n%ignore WS",
    "changed": '%import common.INT\n%extend INT: "x"\nstart: INT ("a".."c")? /[^\\n]/s "É"i',
}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(WALKED)), st.integers(0, 10**6))
def test_what_a_walk_under_the_masks_writes_is_parsed_by_lark(name: str, seed: int) -> None:
    text = walk(compile_lark(WALKED[name], byte_vocabulary()), seed, 60)
    if text is not None:
        assert _parses(lark.Lark(WALKED[name], parser="earley", lexer="dynamic_complete"), text), text


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(WALKED)), st.data())
def test_what_lark_parses_is_let_through(name: str, data: st.DataObject) -> None:
    """Texts from hypothesis' own reading of the grammar, a letter changed now and then, so that Lark refuses some."""
    text = data.draw(from_lark(lark.Lark(WALKED[name], parser="earley")))
    if text and data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(text) - 1))
        text = text[:at] + data.draw(st.sampled_from('aif1x",;=| ')) + text[at + 1 :]
    if not text.isascii() and name != "changed":
        return
    theirs = _parses(lark.Lark(WALKED[name], parser="earley", lexer="dynamic_complete"), text)
    assert accepts(compile_lark(WALKED[name], byte_vocabulary()), text, 1) is theirs, text
    if _parses(lark.Lark(WALKED[name], parser="earley", lexer="dynamic"), text):
        assert theirs


def test_embedded_schemas_stand_for_their_values() -> None:
    """Guards too: names and items are told apart within one value and start afresh in the next."""
    compiled = compile_lark(VALUES, byte_vocabulary())
    for text in (
        'hello<t>{"a":1}</t> x',
        '<t>{"a": 1, "b": 2}</t><t>{"a": 2, "b": 1}</t>',
        "<l>[1,2]<l>[1]x",
        '<t>{"a":1,"<t>{":2}</t>',
        "",
    ):
        for seed in (0, 1):
            assert accepts(compiled, text, seed), text
    for text in ('<t>{"a": 1, "b": 2, "b": 3}</t>', "<t>{}</t>", "<l>[1,1]", '<t>{"a":1}', "<t></t>"):
        for seed in (0, 1):
            assert not accepts(compiled, text, seed), text
    numbers = compile_lark(
        'start: %json {"type":"integer"} ("." %json {"type":"string"})?\n%ignore " "', byte_vocabulary()
    )
    assert [accepts(numbers, text) for text in ("12", ' 12 ."a"', "1.5")] == [True, True, False]


def test_two_readings_inside_values_at_once_end_the_request() -> None:
    compiled = compile_lark(r'start: /(.|\n)+/ %json {"type": "object"}', byte_vocabulary())
    with pytest.raises(GrammarLimit, match="two readings that are inside JSON values"):
        accepts(compiled, 'a{"b":{"a":2}}')


def test_a_blocklist_holds_in_text_and_in_values_of_a_grammar() -> None:
    compiled = compile_lark(VALUES, byte_vocabulary(), options=GrammarOptions(blocklist=("abc",)))
    for text in ("abc", '<t>{"a":1,"b":"abc"}</t>', '<t>{"a":1,"b":"\\u0061bc"}</t>', '<t>{"a":1,"ABC":1}</t>'):
        assert not accepts(compiled, text), text
    assert accepts(compiled, 'ab<t>{"a":1,"b":"ab c"}</t>')


def test_a_terminal_may_end_wherever_it_matches() -> None:
    """As with Lark's lexer `dynamic_complete`; found by fuzzing, when masks and steps read terminals differently."""
    text = 'start: A+ "ab" X\nA: /a+/\nX: /b(ac)?/'
    compiled = compile_lark(text, byte_vocabulary())
    for example in ("aabb", "aaabbac", "aab", "abb"):
        parser = lark.Lark(text, parser="earley", lexer="dynamic_complete")
        assert accepts(compiled, example) is _parses(parser, example)


PATCH = r"""
start: begin hunk+ end
begin: "*** Begin Patch" LF
end: "*** End Patch" LF?
hunk: "*** Add File: " /(.+)/ LF add+ | "*** Delete File: " /(.+)/ LF
add: "+" /(.*)/ LF
%import common.LF
"""


def test_a_grammar_for_patches_is_read() -> None:
    """Agents send such grammars; Lark itself refuses a terminal that may be empty."""
    compiled = compile_lark(PATCH, byte_vocabulary())
    taken = "*** Begin Patch\n*** Add File: a.py\n+x = 1\n+\n*** Delete File: b\n*** End Patch"
    assert accepts(compiled, taken)
    assert accepts(compiled, taken + "\n")
    for text in (taken.replace("+x", "x"), taken.replace("a.py", ""), taken.replace("*** End Patch", "")):
        assert not accepts(compiled, text)


@pytest.mark.parametrize(
    "text", ["", " ", "\n", "// nothing\n", "%ignore /a/\n", "%import common.WS\n", "start", ":", "0", "?"]
)
def test_a_grammar_without_a_rule_is_refused_in_words(text: str) -> None:
    with pytest.raises(InvalidGrammar, match=r"rule|start|expected|found|define"):
        compile_lark(text, byte_vocabulary())
