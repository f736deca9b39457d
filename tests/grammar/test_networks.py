"""Rules written as networks: the same texts in fewer states."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from sluicegate.grammar.parsing.rewriting import automaton
from sluicegate.grammar.parsing.rewriting.ambiguity import untangled, without_nested_loops
from sluicegate.grammar.parsing.rewriting.networks import as_networks
from sluicegate.grammar.parsing.rules import Production, Symbol, SymbolCodes, Ways, nullable, ways_of

LEVELS = 12


def rules_of(ways: Ways, codes: SymbolCodes) -> list[Production]:
    """Return the rules with names in place of numbers."""
    return [
        Production(codes.name(name), tuple([(symbol >= 0, codes.name(symbol)) for symbol in row]))
        for name, rows in ways.items()
        for row in rows
    ]


class CountedRow(tuple[int, ...]):
    """A row of symbols that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedRow.compared += 1
        return tuple.__eq__(self, other)

    __hash__ = tuple.__hash__


@pytest.mark.parametrize("around", [False, True])
def test_alternatives_that_begin_alike_are_not_compared_each_with_each(around: bool) -> None:
    """`around`: ways that recur from the left and from the right are told apart from the others, too."""
    size, codes = 400, SymbolCodes()
    me, heads = codes.of((False, "start")), range(1, 21)
    rows = [CountedRow((*heads, 100 + number)) for number in range(size)]
    if around:
        rows = [*rows, *[CountedRow((me, *row)) for row in rows], *[CountedRow((*row, me)) for row in rows]]
    CountedRow.compared = 0
    found = untangled({me: list(rows)}, codes)
    assert sum(map(len, found.values())) >= len(rows)
    assert CountedRow.compared < 100 * len(rows)


def texts(rules: list[Production], start: str, most: int) -> set[str]:
    """Return all texts of at most `most` terminals, by applying rules until nothing is new."""
    found: dict[str, set[str]] = {rule.origin: set() for rule in rules}
    changed = True
    while changed:
        changed = False
        for rule in rules:
            made = {""}
            for is_terminal, name in rule.expansion:
                ends = {name} if is_terminal else found.get(name, set())
                made = {left + right for left in made for right in ends if len(left + right) <= most}
            changed = changed or not made <= found[rule.origin]
            found[rule.origin] |= made
    return found[start]


def networks_of(rules: list[Production], start: str) -> tuple[list[Production], str]:
    """Return the rules of the networks, a name for each number, and that of the start."""
    terminals = sorted({name for rule in rules for is_terminal, name in rule.expansion if is_terminal})
    codes = SymbolCodes()
    found = as_networks(ways_of(rules, codes), codes.of((False, start)), codes, terminals)

    def symbol(number: int) -> Symbol:
        return (True, terminals[number]) if number < len(terminals) else (False, str(number))

    rows = [row.tolist() for row in np.split(found.symbols, found.first[1:-1])]
    made = [
        Production(str(name), tuple(map(symbol, row))) for name, row in zip(found.origins.tolist(), rows, strict=True)
    ]
    return made, str(found.start)


def random_rules(pick: random.Random) -> list[Production]:
    names = ["s", "x", "y", "z"]
    symbols = [(True, "a"), (True, "b"), (True, "c"), *((False, name) for name in names)]
    return [
        Production(name, tuple(pick.choice(symbols) for _ in range(pick.choice((0, 1, 1, 2, 2, 3)))))
        for name in names
        for _ in range(pick.randint(1, 3))
    ]


def is_productive(rules: list[Production]) -> bool:
    codes = SymbolCodes()
    return codes.of((False, "s")) in ways_of(rules, codes)


@pytest.mark.parametrize("most_states", [400, 3])
@pytest.mark.parametrize("seed", range(60))
def test_networks_have_the_texts_of_their_rules(seed: int, most_states: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recursive from either side, from both and in the middle, empty, useless; where they would be too large, too."""
    monkeypatch.setattr(automaton, "MOST_STATES", most_states)
    pick = random.Random(seed)
    rules = random_rules(pick)
    while not is_productive(rules):
        rules = random_rules(pick)
    assert texts(*networks_of(rules, "s"), 5) == texts(rules, "s", 5)


@pytest.mark.parametrize("seed", range(150))
def test_rules_without_nested_loops_have_the_same_texts(seed: int) -> None:
    pick = random.Random(seed)
    rules = random_rules(pick)
    while not is_productive(rules) or not nullable(ways_of(rules, SymbolCodes())):
        rules = random_rules(pick)
    codes = SymbolCodes()
    found = without_nested_loops(ways_of(rules, codes), codes.of((False, "s")))
    assert texts(rules_of(found, codes), "s", 5) == texts(rules, "s", 5)


def test_a_chain_of_operators_is_one_loop() -> None:
    rules = [Production(f"e{n}", ((False, f"e{n}"), (True, f"+{n}"), (False, f"e{n + 1}"))) for n in range(LEVELS)]
    rules += [Production(f"e{n}", ((False, f"e{n + 1}"),)) for n in range(LEVELS)]
    rules += [Production(f"e{LEVELS}", ((True, "n"),))]
    rules += [Production(f"e{LEVELS}", ((True, "("), (False, "e0"), (True, ")")))]
    networks, _ = networks_of(rules, "e0")
    assert len({rule.origin for rule in networks}) == 4  # before and behind an operand, inside and behind brackets


def test_a_loop_needs_no_network_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is sketched where it stands: each level `e: f (op f)*` makes one network, and the brackets of the last do."""
    made = []
    add = automaton.NetworkPool.add

    def counted(*given: Any) -> Any:
        made.append(given)
        return add(*given)

    monkeypatch.setattr(automaton.NetworkPool, "add", counted)
    rules = [
        Production(f"e{LEVELS}", ((True, "n"),)),
        Production(f"e{LEVELS}", ((True, "("), (False, "e0"), (True, ")"))),
    ]
    for n in range(LEVELS):
        operand, more = (False, f"e{n + 1}"), (False, f"more{n}")
        rules += [Production(f"e{n}", (operand,)), Production(f"e{n}", (operand, more))]
        rules += [Production(f"more{n}", way) for way in (((True, f"+{n}"), operand), (more, (True, f"+{n}"), operand))]
    codes = SymbolCodes()
    ways = untangled(without_nested_loops(ways_of(rules, codes), codes.of((False, "e0"))), codes)
    assert len(ways) == 2 * LEVELS + 1
    as_networks(ways, codes.of((False, "e0")), codes, ["n", "(", ")", *(f"+{n}" for n in range(LEVELS))])
    assert len(made) == LEVELS + 1
