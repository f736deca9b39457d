"""Small automata over the symbols of a grammar: sketched with choices, made deterministic and minimal."""

from __future__ import annotations

from collections.abc import Hashable

from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.parsing.rules import Production, Symbol

MOST_STATES = 400


class TooManyStates(Exception):
    """The automaton would be larger than is worth it."""


class Network:
    """`edges`: by state, the next state after each symbol; `finals`: whether a text may end. State 0 is the first."""

    __slots__ = ("edges", "finals")

    def __init__(self, edges: list[dict[Symbol, int]], finals: list[bool]) -> None:
        self.edges = edges
        self.finals = finals

    @property
    def size(self) -> int:
        return len(self.edges)

    @property
    def calls(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.edges for is_terminal, name in row if not is_terminal))


class Sketch:
    """An automaton in which a symbol, or none, leads to several states."""

    def __init__(self) -> None:
        self._edges: list[list[tuple[Symbol, int]]] = []
        self._skips: list[list[int]] = []

    def state(self) -> int:
        self._edges.append([])
        self._skips.append([])
        return len(self._edges) - 1

    def edge(self, source: int, symbol: Symbol, target: int) -> None:
        self._edges[source].append((symbol, target))

    def skip(self, source: int, target: int) -> None:
        if source != target:
            self._skips[source].append(target)

    def copy(self, network: Network, source: int, target: int) -> None:
        """Add a copy of `network` between two states."""
        first = len(self._edges)
        for row, final in zip(network.edges, network.finals, strict=True):
            tick()
            self._edges.append([(symbol, first + after) for symbol, after in row.items()])
            self._skips.append([target] if final else [])
        self.skip(source, first)

    def network(self, start: int, final: int) -> Network:
        """Return the smallest deterministic automaton of the texts from `start` to `final`.

        Raises `TooManyStates`."""
        closures: dict[int, frozenset[int]] = {}
        first = self._closure(start, closures)
        numbers = {first: 0}
        members = [first]
        edges: list[dict[Symbol, int]] = []
        for places in members:
            targets: dict[Symbol, frozenset[int]] = {}
            for place in places:
                for symbol, target in self._edges[place]:
                    tick()
                    behind = self._closure(target, closures)
                    known = targets.get(symbol)
                    targets[symbol] = behind if known is None else known | behind
            row: dict[Symbol, int] = {}
            for symbol, behind in targets.items():
                number = numbers.get(behind)
                if number is None:
                    if len(members) >= MOST_STATES:
                        raise TooManyStates
                    number = numbers[behind] = len(members)
                    members.append(behind)
                row[symbol] = number
            edges.append(row)
        return _minimal(Network(edges, [final in places for places in members]))

    def _closure(self, state: int, known: dict[int, frozenset[int]]) -> frozenset[int]:
        """Return the states that nothing leads to from `state` on, itself among them."""
        found = known.get(state)
        if found is None:
            reached = {state: None}
            pending = [state]
            while pending:
                for other in self._skips[pending.pop()]:
                    if other not in reached:
                        reached[other] = None
                        pending.append(other)
            found = known[state] = frozenset(reached)
        return found


def _minimal(network: Network) -> Network:
    blocks = _blocks(network.edges, network.finals)
    order: dict[int, int] = {}
    kept: list[int] = []
    for state, block in enumerate(blocks):  # in the order of their first members, so that state 0 stays
        if block not in order:
            order[block] = len(kept)
            kept.append(state)
    edges = [{symbol: order[blocks[after]] for symbol, after in network.edges[state].items()} for state in kept]
    return Network(edges, [network.finals[state] for state in kept])


def _blocks(edges: list[dict[Symbol, int]], finals: list[bool]) -> list[int]:
    """Return a number for each state, the same for states that go on alike (Moore, 1956)."""
    blocks = [0] * len(edges)
    count = 0
    rows = [[(symbol, after) for symbol, after in row.items()] for row in edges]
    while True:
        tick()
        numbers: dict[Hashable, int] = {}
        blocks = [
            numbers.setdefault(
                (block, final, frozenset([(symbol, blocks[after]) for symbol, after in row])), len(numbers)
            )
            for block, final, row in zip(blocks, finals, rows, strict=True)
        ]
        if len(numbers) == count:
            return blocks
        count = len(numbers)


def merged(networks: dict[str, Network]) -> tuple[dict[str, str], list[list[Production]]]:
    """Return the name of the first state of each network, and the rules of all states; those that go on alike are
    one."""
    edges: list[dict[Symbol, int]] = []
    finals: list[bool] = []
    firsts: dict[str, int] = {}
    for name, network in networks.items():
        offset = firsts[name] = len(edges)
        edges += [{symbol: after + offset for symbol, after in row.items()} for row in network.edges]
        finals += network.finals
    blocks = _blocks(edges, finals)
    names: dict[int, str] = {}
    for name, first in firsts.items():
        names.setdefault(blocks[first], name)
    written: list[list[Production]] = []
    seen: set[int] = set()
    ends = {blocks[state] for state, row in enumerate(edges) if not row}
    for state, block in enumerate(blocks):
        tick()
        if block in seen:
            continue
        seen.add(block)
        name = names.setdefault(block, f"state {block}")
        rules = [Production(name, ())] if finals[state] else []
        for symbol, after in edges[state].items():
            target = blocks[after]
            rest = () if target in ends else ((False, names.setdefault(target, f"state {target}")),)
            rules.append(Production(name, (symbol, *rest)))
        written.append(rules)
    return {name: names[blocks[first]] for name, first in firsts.items()}, written
