"""Compiling a grammar in fewer steps finds what the longer way finds."""

from __future__ import annotations

import random

import pytest

from sluicegate.grammar import compile_lark
from sluicegate.grammar.automata import CharDfa, utf8
from sluicegate.grammar.components import components
from sluicegate.grammar.lark.compile import read
from sluicegate.grammar.lark.literals import Unread
from sluicegate.grammar.lark.reader import read_plain
from sluicegate.grammar.options import GrammarOptions
from sluicegate.grammar.parsing import symbols
from sluicegate.grammar.parsing.frames import ParseFrames
from sluicegate.grammar.parsing.rewriting.ambiguity import _is_acyclic
from sluicegate.grammar.parsing.rules import Production, SymbolCodes, Ways, finish_soon, productive, ways_of
from tests.grammar.grammar_checks import accepts, byte_vocabulary


def test_blanks_before_what_is_unread_are_gone_through_once() -> None:
    """Tried again from each blank on, these would take minutes."""
    with pytest.raises(Unread):
        read_plain(f"start: {' ' * 200_000}$", lambda name, reason: pytest.fail(reason))


def test_blanks_and_comments_stand_between_tokens() -> None:
    found = read_plain('// a\nstart : "a"  # b\n\t |  B // c\nB :"b"  // d', lambda name, reason: pytest.fail(reason))
    assert [rule.expansion for rule in found.rules] == [((True, "A"),), ((True, "B"),)]


@pytest.mark.parametrize("seed", range(40))
def test_names_that_lead_to_themselves_are_not_overlooked(seed: int) -> None:
    pick = random.Random(seed)
    count = pick.randint(1, 8)
    names = [~number for number in range(count)]
    edges = {name: pick.sample(names, pick.randint(0, min(2, count))) for name in names}
    groups = list(components([[~each for each in edges[name]] for name in names]))
    cyclic = len(groups) < count or any(name in edges[name] for name in names)
    assert not (cyclic and _is_acyclic(names, edges))


def test_rules_that_stand_from_the_top_down_are_seen_to_lead_nowhere_back() -> None:
    assert _is_acyclic([~0, ~1, ~2, ~3], {~0: [~1, ~2], ~1: [~3], ~2: [~3], ~3: []})


@pytest.mark.parametrize("seed", range(40))
def test_names_that_derive_a_text_are_those_that_steps_find(seed: int) -> None:
    pick = random.Random(seed)
    names = [~number for number in range(pick.randint(1, 7))]
    ways: Ways = {
        name: [tuple(pick.choice([*names, 1, 2]) for _ in range(pick.randint(0, 3))) for _ in range(pick.randint(1, 3))]
        for name in names
    }
    found: set[int] = set()
    for _ in names:
        found |= {name for name, rows in ways.items() if any(all(c >= 0 or c in found for c in row) for row in rows)}
    assert productive(ways) == found
    assert found == ways.keys() or not finish_soon(ways)


def test_names_that_stand_from_the_top_down_are_soon_seen_to_derive_texts() -> None:
    assert finish_soon({~0: [(~1, ~0), (~1, ~2)], ~1: [(~2, 5), (~1,)], ~2: [(~2, 3), (4,)]})


def test_rules_of_one_name_may_stand_apart() -> None:
    rules = [Production("a", ((True, "x"),)), Production("b", ()), Production("a", ((False, "b"),))]
    codes = SymbolCodes()
    ways = ways_of(rules, codes)
    assert [len(ways[codes.of((False, name))]) for name in "ab"] == [2, 1]


def test_what_is_behind_a_symbol_is_the_same_however_often_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first symbols are looked for one by one, the others in a table."""
    tables = read('start: (x | "b" y)+\nx: "a" x? | "c" y\ny: "d" | "b" y "e"', GrammarOptions()).tables()
    frames = ParseFrames(tables.symbols)
    found = []
    for few in (0, 1_000):
        monkeypatch.setattr(symbols, "_FEW_ASKED", few)
        tables.symbols._predictions.clear()
        prediction = frames._open(frames.start(tables.start)).prediction
        found.append([sorted(prediction.behind(symbol)) for symbol in range(tables.symbols.size)])
    assert found[0] == found[1]
    assert any(found[0])


def test_automata_alike_are_spelled_once() -> None:
    made = [utf8(CharDfa.from_pattern(text, anchored=True)) for text in ("[ab]+", "(a|b)(a|b)*", "[ab]*")]
    assert made[0] is made[1]
    assert made[0] != made[2]


@pytest.mark.parametrize(
    ("rule", "text"),
    [("[a-c]{2,3}", "abc"), ("[a-c]{2}", "ab"), ("[a-c]{3,4}", "abca"), ('([a-c] | "dd")', "dd"), ("[a-c] [d]", "ad")],
)
def test_parts_that_look_similar_are_different_texts(rule: str, text: str) -> None:
    """What is kept by content of earlier grammars is not taken for another."""
    others = ["[a-c]{2,3}", "[a-c]{2}", "[a-c]{3,4}", '([a-c] | "dd")', "[a-c] [d]"]
    vocabulary = byte_vocabulary()
    for other in others:
        compile_lark(f'root ::= "x" ({other}) (root | "y")', vocabulary)
    grammar = compile_lark(f'root ::= "x" ({rule}) (root | "y")', vocabulary)
    assert accepts(grammar, f"x{text}y")
    assert not accepts(grammar, "xy")
    assert not accepts(grammar, f"x{text}aaaaay")
