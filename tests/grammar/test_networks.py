"""Rules written as networks: the same texts in fewer states."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sluicegate.grammar.components import components
from sluicegate.grammar.parsing.rewriting import automaton
from sluicegate.grammar.parsing.rewriting.ambiguity import untangled, without_nested_loops
from sluicegate.grammar.parsing.rewriting.automaton import NetworkPool
from sluicegate.grammar.parsing.rewriting.groups import components_of
from sluicegate.grammar.parsing.rewriting.networks import as_networks, flat_rules
from sluicegate.grammar.parsing.rewriting.sketching import LOOP
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


def test_a_loop_needs_no_network_of_its_own() -> None:
    """It is sketched where it stands: each level `e: f (op f)*` makes one network, and the brackets of the last do."""
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
    numbers = NetworkPool(flat_rules(ways, 100)).numbers
    assert sorted(numbers.tolist()) == [LOOP] * LEVELS + [*range(LEVELS + 1)]


@pytest.mark.parametrize("seed", range(40))
def test_names_are_grouped_as_components_of_a_graph(seed: int) -> None:
    pick = random.Random(seed)
    edges = [[pick.randrange(12) for _ in range(pick.choice((0, 1, 1, 2)))] for _ in range(12)]
    first = np.cumsum([0, *map(len, edges)]).astype(np.int32)
    order, begins = components_of(first, np.array([target for row in edges for target in row], np.int32))
    assert [group.tolist() for group in np.split(order, begins[1:-1])] == components(edges)


@pytest.mark.parametrize("most_steps", [0, 3])
@pytest.mark.parametrize("seed", range(20))
def test_networks_made_with_pauses_are_the_same(seed: int, most_steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = random_rules(random.Random(seed))
    rules += [Production("s", ((True, "a"),)), Production("z", ((True, "b"),))]
    whole = networks_of(rules, "s")
    monkeypatch.setattr(automaton, "_STEPS_A_RUN", most_steps)
    assert networks_of(rules, "s") == whole


def test_a_pool_of_networks_grows() -> None:
    """600 names, none of which begins or ends with another one, hold more networks than the pool has room for."""
    rules = [Production(f"n{n}", ((True, "a"), (False, f"n{(n + 1) % 600}"), (True, f"b{n}"))) for n in range(600)]
    rules += [Production(f"n{n}", ((True, "c"),)) for n in range(600)]
    made, start = networks_of(rules, "n0")
    assert texts(made, start, 4) == {"c", "acb0"}
    assert len({rule.origin for rule in made}) > 1_200
