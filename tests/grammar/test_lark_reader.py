"""Our reader of Lark's notation gives what Lark's own loader gives, or leaves the grammar to it."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from benchmarks.grammar_samples import SAMPLES
from sluicegate.grammar import GrammarLimit, InvalidGrammar, compile_lark
from sluicegate.grammar.automata import ByteDfa, CharDfa, utf8
from sluicegate.grammar.budget.interrupt import interrupted
from sluicegate.grammar.budget.meter import within
from sluicegate.grammar.lark.alternatives import _ways
from sluicegate.grammar.lark.compile import by_lark, read
from sluicegate.grammar.lark.literals import Unread
from sluicegate.grammar.lark.reader import LoadedGrammar, read_plain
from sluicegate.grammar.lark.rewriting.rewrite import rewritten
from sluicegate.grammar.options import GrammarOptions
from sluicegate.grammar.parsing.rules import Production
from sluicegate.plugins.errors import GrammarError
from tests.fuzz import costly, made
from tests.grammar.grammar_checks import accepts, byte_vocabulary

READ = [
    'start: "a" B? // comment\n  | "b"+ -> other\n\n# comment\n  | (B | "c")* [B "d"]\nB: "b"i | /x\\/y/ "z"~2..3\n',
    "start: A+\n%import common.NUMBER\n%import common.INT -> A\n%ignore NUMBER\n",
    "start: WS (CNAME | ESCAPED_STRING)\n%import common (WS, CNAME, ESCAPED_STRING)\n%ignore /[ \\t]/+\n",
    'start: "+" "-" "+" "if" "IF" "while" WHILE "é" "\\n" "\\"" "\'" "\\\\" "\\x41"\nWHILE: "while"\n',
    'start: "a".."z" A~3 ("b"? A)~2 x\nA: "0".."9"\n?x.2: "x" | x "y"\n!y: "unused" z\nz: "never" z\n',
    'start: x y\nx: | "a"\ny: ("a" | "b" | "a")+ ("a" | "b")*\n',
    'start: A B C\nA: B? C*\nB: (C|/d/i)+\nC: /a|b/ "c"\n',
    'start: X\nX.3: "a" | "bb" | /c+/s\n%ignore " "\n%ignore X\n',
]
LEFT_TO_LARK = [
    'start: list{"a"}\nlist{x}: x ("," x)*\n',
    'start: a~60\na: "a"\n',
    'start: [A] | A\nA: "a"\n',
    'start: A -> x | A -> y\nA: "a"\n',
    'start: "a"\nstart: "b"\n',
    "start: missing\n",
    'start: "a\n',
    'start: A\nA: A "a"\n',
    'start: "a" | )\n',
    'start: /(/ "x" A\nA: /(/ "x"\n',
    'x: "a"\n',
]


def loaded(text: str) -> tuple[LoadedGrammar, LoadedGrammar] | None:
    """Return what both read; None where ours leaves it to Lark's, or neither is asked."""
    try:
        source = rewritten(text)
        if sum(ways for _, _, ways in _ways(source.text)) > 1_000:  # Lark takes seconds for those
            return None
    except GrammarError:
        return None
    try:
        ours = read_plain(source.text, lambda name, reason: source.refuse(GrammarLimit, reason, 0))
    except Unread:
        return None
    with within(5), interrupted():
        return ours, by_lark(source)


def shape(rules: Iterable[Production]) -> dict[str, frozenset[object]]:
    """Alternatives by the name of a rule that `start` leads to; rules for what is repeated by what they repeat."""
    ways: dict[str, set[tuple[tuple[bool, str], ...]]] = {}
    for rule in rules:
        ways.setdefault(str(rule.origin), set()).add(rule.expansion)

    def repeated(name: str) -> frozenset[object]:
        return frozenset(tuple(map(symbol, way)) for way in ways[name] if way[:1] != ((False, name),))

    def symbol(each: tuple[bool, str]) -> object:
        return repeated(each[1]) if not each[0] and each[1].startswith("__") else (each[0], str(each[1]))

    reached, pending = {"start"}, ["start"]
    while pending:
        for _, name in {each for way in ways.get(pending.pop(), ()) for each in way if not each[0]} - {
            (False, known) for known in reached
        }:
            reached.add(name)
            pending.append(name)
    return {
        name: frozenset(tuple(map(symbol, way)) for way in rows)
        for name, rows in ways.items()
        if name in reached and not name.startswith("__")
    }


def check(text: str) -> bool:
    both = loaded(text)
    if both is None:
        return False
    ours, theirs = both
    assert shape(ours.rules) == shape(theirs.rules)
    assert ours.ignored == theirs.ignored
    patterns = {each.name: each.pattern for each in theirs.terminals}
    for each in ours.terminals:
        assert type(each.pattern) is type(patterns[each.name])
        assert set(each.pattern.flags) == set(patterns[each.name].flags)
        alike = each.pattern.value == patterns[each.name].value
        assert alike or sorted(each.pattern.value) == sorted(patterns[each.name].value)  # Lark sorts alternatives
    return True


@pytest.mark.parametrize("text", [*READ, *(each.grammar for each in SAMPLES if "::=" not in each.grammar)])
def test_usual_grammars_are_read_as_lark_reads_them(text: str) -> None:
    assert check(text)


@pytest.mark.parametrize("text", LEFT_TO_LARK)
def test_what_is_not_usual_or_wrong_is_left_to_lark(text: str) -> None:
    assert loaded(text) is None


def test_drawn_grammars_are_read_as_lark_reads_them() -> None:
    """Cut anywhere, too: what is no grammar any more is not taken for one."""
    usual = 0
    for seed in range(40):
        pick = random.Random(f"reader:{seed}")
        text = (made.lark if seed % 2 else costly.lark)(pick)
        for each in (text, text[: pick.randrange(len(text))] + text[pick.randrange(len(text)) :]):
            usual += check(each)
    assert usual > 15


def test_terminals_that_double_are_refused_at_once_with_their_place() -> None:
    doubling = 'start: T40\nT0: "ab"\n' + "".join(f"T{n + 1}: T{n} T{n}\n" for n in range(40))
    with pytest.raises(GrammarLimit, match=r"line \d+, column 1: this terminal has more than 200000 characters"):
        compile_lark(doubling, byte_vocabulary())


def test_an_expression_that_is_none_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidGrammar, match="line 2"):
        compile_lark('start: A "x"\nA: /(b/\n', byte_vocabulary())


def test_names_in_errors_are_those_that_were_written() -> None:
    grammar = read('start: A-B+\nA-B: "a" | "b"\n', GrammarOptions())
    assert set(grammar.lexemes) == {"A_B"}
    assert accepts(compile_lark('start: "a" some-thing\nsome-thing: "b"\n', byte_vocabulary()), "ab")


def test_texts_get_the_automaton_of_their_language() -> None:
    pick = random.Random(7)
    for _ in range(200):
        text = "".join(pick.choices('ab"\\\n é\u20ac\U0001f600', k=pick.randint(1, 6)))
        assert ByteDfa.of_text(text.encode()) == utf8(CharDfa.from_literal(text))
