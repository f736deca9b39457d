"""Alternatives that Lark writes out: counted before it tries, never too few; honest grammars stay far below."""

from __future__ import annotations

import random

import lark
import pytest

from sluicegate.grammar import GrammarLimit, GrammarLimits, GrammarOptions, compile_lark
from sluicegate.grammar.budget.interrupt import interrupted
from sluicegate.grammar.budget.meter import Allowance, allowed
from sluicegate.grammar.lark.alternatives import _ways
from tests.fuzz import costly, made
from tests.grammar.grammar_checks import accepts, byte_vocabulary

SELECT = (
    "start: select\n"
    'select: "SELECT" "DISTINCT"? cols from? where? group? having? order? limit? offset? lock? ";"?\n'
    'cols: "*" | NAME ("," NAME)*\nfrom: "FROM" NAME alias? join*\n'
    'alias: "AS"? NAME\njoin: ("LEFT" | "RIGHT")? "JOIN" NAME\n'
    'where: "WHERE" NAME\ngroup: "GROUP"\nhaving: "HAVING"\norder: "ORDER"\nlimit: "LIMIT"\noffset: "OFFSET"\n'
    'lock: "LOCK"\nNAME: /[a-z]+/\n%ignore " "\n'
)


@pytest.mark.parametrize(
    ("grammar", "number"),
    [
        ("start: " + " ".join(f'"{n}"?' for n in range(30)), "1000000000|thousand million"),
        ("start: " + " ".join(f'["{n}"]' for n in range(20)), "1048576"),
        ('start: ("a" | "b" | "c")~9', "19683"),
        ('start: ((("a"? "b"?)? "c"?)~4)~4', "thousand million"),
        ('start: (x "a"?)~0..40 (x | "b")~0..40\nx: "x"', "thousand million"),
        ('start: p\np: ("a" "b"?)~60 ("c" "d"?)~60', "alternatives"),
        ("start: " + " | ".join(f'"{n}"' for n in range(12_000)), "12000"),
    ],
)
def test_what_would_be_written_out_too_often_is_refused_with_the_number(grammar: str, number: str) -> None:
    with pytest.raises(GrammarLimit, match=f"line [12]: .*({number}).*rules of their own"):
        compile_lark(grammar, byte_vocabulary())


def test_never_fewer_than_lark_writes_out() -> None:
    looked = 0
    for seed in range(60):
        text = (made.lark if seed % 2 else costly.lark)(random.Random(f"ways:{seed}"))
        ways = sum(ways for _, _, ways in _ways(text))
        if ways < 500 and "%json" not in text:
            try:
                loaded = lark.Lark(text, parser="earley", lexer="dynamic", maybe_placeholders=False)
            except lark.exceptions.LarkError:
                continue
            looked += 1
            assert len(loaded.rules) <= ways, text
    assert looked > 15


def test_honest_grammars_are_far_below() -> None:
    assert max(ways for _, _, ways in _ways(SELECT)) <= 1024
    assert accepts(compile_lark(SELECT, byte_vocabulary()), "SELECT a, b FROM c AS d LEFT JOIN e WHERE f LIMIT;")
    rules = "".join(f'r{n}: "k{n}" r{n + 1}? ("," r{n + 1} | NAME)* ";"\n' for n in range(120))
    many = f"start: r0\n{rules}r120: NAME\nNAME: /[a-z]+/\n"
    assert accepts(compile_lark(many, byte_vocabulary()), "k0k1;;")


def test_signs_in_texts_and_comments_are_no_marks() -> None:
    text = 'start: "a?|*(" /[?|(]+/ // x? y?\n  | b\nb: "]" # (((\n  | "c" -> d\nA: "a"? "b"?\n%ignore /x?/\n'
    assert list(_ways(text)) == [("start", 1, 2), ("b", 3, 2)]


def test_a_library_is_interrupted_and_what_it_catches_passes() -> None:
    def catches_all() -> None:
        while True:
            try:
                [str(n) for n in range(10)]
                "".format()
                random.Random(1)
            except Exception:
                continue

    with (
        pytest.raises(GrammarLimit, match="over"),
        allowed(Allowance(0.02, GrammarLimit("over"))),
        interrupted(),
    ):
        catches_all()


def test_lark_itself_is_held_to_the_time_of_a_compilation() -> None:
    options = GrammarOptions(limits=GrammarLimits(cpu_s=0.05))
    with pytest.raises(GrammarLimit, match="CPU time"):
        compile_lark("start: " + " ".join(f'"{n}"' for n in range(5000)), byte_vocabulary(), options=options)
