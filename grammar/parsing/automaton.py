"""Small automata over the symbols of a grammar: sketched with choices, made deterministic and minimal."""

from __future__ import annotations

from sluicegate.grammar.budget.meter import tick

MOST_STATES = 400
Code = int
"""A symbol by number; names of rules are negative."""


class TooManyStates(Exception):
    """The automaton would be larger than is worth it."""


class Network:
    """`edges`: by state, the next state after each symbol; `finals`: whether a text may end. State 0 is the first."""

    __slots__ = ("edges", "finals")

    def __init__(self, edges: list[dict[Code, int]], finals: list[bool]) -> None:
        self.edges = edges
        self.finals = finals

    @property
    def size(self) -> int:
        return len(self.edges)

    @property
    def calls(self) -> list[Code]:
        return list(dict.fromkeys(symbol for row in self.edges for symbol in row if symbol < 0))


class Sketch:
    """An automaton in which a symbol, or none, leads to several states."""

    def __init__(self) -> None:
        self._edges: list[list[tuple[Code, int]]] = []
        self._skips: list[list[int]] = []
        self._steps: dict[tuple[int, Code, bool], int] = {}

    def state(self) -> int:
        self._edges.append([])
        self._skips.append([])
        return len(self._edges) - 1

    def behind(self, source: int, symbol: Code, network: Network | None) -> int:
        """Return the state behind `symbol`, or behind a copy of its network; the same one each time, so that ways
        which begin alike are one up to where they part."""
        key = source, symbol, network is None
        found = self._steps.get(key)
        if found is None:
            found = self._steps[key] = self.state()
            if network is None:
                self._edges[source].append((symbol, found))
            else:
                self._copy(network, source, found)
        return found

    def skip(self, source: int, target: int) -> None:
        if source != target:
            self._skips[source].append(target)

    def _copy(self, network: Network, source: int, target: int) -> None:
        """Add a copy of `network` between two states."""
        tick()
        first = len(self._edges)
        for row, final in zip(network.edges, network.finals, strict=True):
            self._edges.append([(symbol, first + after) for symbol, after in row.items()])
            self._skips.append([target] if final else [])
        self.skip(source, first)

    def network(self, start: int, final: int) -> Network:
        """Return the smallest deterministic automaton of the texts from `start` to `final`.

        Raises `TooManyStates`."""
        closures: dict[int, frozenset[int]] = {}
        first = self._closure(start, final, closures)
        numbers = {first: 0}
        members = [first]
        edges: list[dict[Code, int]] = []
        for places in members:
            tick()
            row: dict[Code, int] = {}
            for symbol, behind in self._targets(places, final, closures).items():
                number = numbers.get(behind)
                if number is None:
                    if len(members) >= MOST_STATES:
                        raise TooManyStates
                    number = numbers[behind] = len(members)
                    members.append(behind)
                row[symbol] = number
            edges.append(row)
        return _minimal(Network(edges, [final in places for places in members]))

    def _targets(
        self, places: frozenset[int], final: int, closures: dict[int, frozenset[int]]
    ) -> dict[Code, frozenset[int]]:
        """Return the places behind each symbol."""
        targets: dict[Code, frozenset[int]] = {}
        for place in places:
            for symbol, target in self._edges[place]:
                behind = closures.get(target)
                if behind is None:
                    behind = self._closure(target, final, closures)
                known = targets.get(symbol)
                targets[symbol] = behind if known is None or known is behind else known | behind
        return targets

    def _closure(self, state: int, final: int, known: dict[int, frozenset[int]]) -> frozenset[int]:
        """Return the states that nothing leads to from `state` on, itself among them: `final`, and those that a symbol
        leads on from."""
        reached = {state: None}
        pending = [state]
        while pending:
            for other in self._skips[pending.pop()]:
                if other not in reached:
                    reached[other] = None
                    pending.append(other)
        found = known[state] = frozenset([each for each in reached if self._edges[each] or each == final])
        return found


def _minimal(network: Network) -> Network:
    blocks = blocks_of(network.edges, network.finals)
    order: dict[int, int] = {}
    kept: list[int] = []
    for state, block in enumerate(blocks):  # in the order of their first members, so that state 0 stays
        if block not in order:
            order[block] = len(kept)
            kept.append(state)
    if len(kept) == len(blocks):
        return network
    edges = [{symbol: order[blocks[after]] for symbol, after in network.edges[state].items()} for state in kept]
    return Network(edges, [network.finals[state] for state in kept])


def blocks_of(edges: list[dict[Code, int]], finals: list[bool]) -> list[int]:
    """Return a number for each state, the same for states that go on alike (Moore, 1956)."""
    rows: list[list[int]] = []
    signs: dict[object, int] = {}
    blocks: list[int] = []
    for row, final in zip(edges, finals, strict=True):
        symbols = sorted(row)
        rows.append([row[symbol] for symbol in symbols])
        symbols.append(final)
        blocks.append(signs.setdefault(tuple(symbols), len(signs)))
    count = len(signs)
    while count < len(blocks):
        tick()
        numbers: dict[object, int] = {}
        look_up = blocks.__getitem__
        blocks = [
            numbers.setdefault((block, *map(look_up, row)), len(numbers))
            for block, row in zip(blocks, rows, strict=True)
        ]
        if len(numbers) == count:
            return blocks
        count = len(numbers)
    return blocks
