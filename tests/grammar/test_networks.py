"""Rules written as networks: the same texts in fewer states."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sluicegate.grammar.parsing.rewriting import automaton
from sluicegate.grammar.parsing.rewriting.ambiguity import untangled, without_nested_loops
from sluicegate.grammar.parsing.rewriting.networks import as_networks
from sluicegate.grammar.parsing.rules import Production, Symbol, nullable, productive

Ways = dict[str, list[tuple[Symbol, ...]]]
LEVELS = 12


class CountedName(str):
    """A name of a symbol that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedName.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("around", [False, True])
def test_alternatives_that_begin_alike_are_not_compared_each_with_each(around: bool) -> None:
    """`around`: ways that recur from the left and from the right are told apart from the others, too."""
    size = 400
    heads, me = [(True, CountedName("x")) for _ in range(20)], (False, CountedName("start"))
    ways = [(*heads, (True, CountedName(f"w{number}"))) for number in range(size)]
    if around:
        ways = [*ways, *[(me, *way) for way in ways], *[(*way, me) for way in ways]]
    CountedName.compared = 0
    found = untangled([Production("start", way) for way in ways])
    assert len(found) >= len(ways)
    assert CountedName.compared < 100 * len(ways)


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
    found = as_networks(rules, start, terminals)

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


@pytest.mark.parametrize("most_states", [400, 3])
@pytest.mark.parametrize("seed", range(60))
def test_networks_have_the_texts_of_their_rules(seed: int, most_states: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recursive from either side, from both and in the middle, empty, useless; where they would be too large, too."""
    monkeypatch.setattr(automaton, "MOST_STATES", most_states)
    pick = random.Random(seed)
    rules = random_rules(pick)
    while "s" not in productive(rules):
        rules = random_rules(pick)
    assert texts(*networks_of(rules, "s"), 5) == texts(rules, "s", 5)


@pytest.mark.parametrize("seed", range(150))
def test_rules_without_nested_loops_have_the_same_texts(seed: int) -> None:
    pick = random.Random(seed)
    rules = random_rules(pick)
    while "s" not in productive(rules) or not nullable(rules):
        rules = random_rules(pick)
    assert texts(without_nested_loops(rules, "s"), "s", 5) == texts(rules, "s", 5)


def test_a_chain_of_operators_is_one_loop() -> None:
    rules = [Production(f"e{n}", ((False, f"e{n}"), (True, f"+{n}"), (False, f"e{n + 1}"))) for n in range(LEVELS)]
    rules += [Production(f"e{n}", ((False, f"e{n + 1}"),)) for n in range(LEVELS)]
    rules += [Production(f"e{LEVELS}", ((True, "n"),))]
    rules += [Production(f"e{LEVELS}", ((True, "("), (False, "e0"), (True, ")")))]
    networks, _ = networks_of(rules, "e0")
    assert len({rule.origin for rule in networks}) == 4  # before and behind an operand, inside and behind brackets
