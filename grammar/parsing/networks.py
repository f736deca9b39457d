"""Write rules as networks: one small automaton over terminals and calls for each name that texts nest in.

A rule that recurses from the left or from the right only is a loop, and one that another begins or ends with is a part
of that one (Nederhof, 2000, on strongly regular grammars); what stands in the middle of a text of its own kind is a
call. Each automaton is made deterministic and minimal (Moore, 1956). So a chain of a dozen levels of operators becomes
a loop of one operand and one operator: a parse stands in one place where it stood in a dozen.

The networks are written as rules again, one name for each state: `s: a t` for an edge, `s:` where a text may end.
"""

from __future__ import annotations

from collections.abc import Iterable

from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.components import components
from sluicegate.grammar.parsing.automaton import Code, Network, Sketch, TooManyStates, blocks_of
from sluicegate.grammar.parsing.rules import STATE, Production, Symbol, all_useful, productive

_MOST_COPIED = 40
"""States of a network that is copied into those of another kind of text; larger ones are called."""

Way = tuple[Code, ...]


def as_networks(rules: list[Production], start: str) -> list[Production]:
    """Return rules in which `start` has the same texts."""
    useful = productive(rules)
    if start not in useful:
        return rules
    codes = _Codes()
    ways: dict[Code, list[Way]] = {}
    for rule in rules:
        if all_useful(rule, useful):
            ways.setdefault(codes.of((False, rule.origin)), []).append(tuple(map(codes.of, rule.expansion)))
    networks = _Networks(ways, codes.of((False, start)))
    return networks.rules(codes)


class _Codes:
    """Symbols by number: comparing and finding those takes most of the time."""

    def __init__(self) -> None:
        self._codes: dict[Symbol, Code] = {}
        self._symbols: list[Symbol] = []

    def of(self, symbol: Symbol) -> Code:
        code = self._codes.get(symbol)
        if code is None:
            number = len(self._symbols)
            self._symbols.append(symbol)
            code = self._codes[symbol] = number if symbol[0] else ~number
        return code

    def symbol(self, code: Code) -> Symbol:
        return self._symbols[code if code >= 0 else ~code]


class _Networks:
    def __init__(self, ways: dict[Code, list[Way]], start: Code) -> None:
        self._ways = ways
        self._start = start
        self._networks: dict[Code, Network] = {}
        self._bare: set[Code] = set()
        """Names whose rules stay as they are: their automata would be too large."""
        self._kind: dict[Code, int] = {}
        for number, kind in enumerate(_groups(list(ways), {name: _names(each) for name, each in ways.items()})):
            self._kind.update(dict.fromkeys(kind, number))
            for group in _groups(kind, {name: self._edges(name) for name in kind}):
                self._make(group)

    def _edges(self, name: Code) -> list[Code]:
        """Names of the same kind that texts of `name` begin or end with."""
        return [
            symbol
            for way in self._ways[name]
            for place, symbol in enumerate(way)
            if place in (0, len(way) - 1) and self._is_like(name, symbol)
        ]

    def _is_like(self, name: Code, symbol: Code) -> bool:
        return symbol < 0 and self._kind.get(symbol) == self._kind[name]

    # --- one group of names that lead to each other -------------------------------------------------------------------

    def _make(self, group: list[Code]) -> None:
        members = set(group)
        for most_copied in (_MOST_COPIED, -1):
            try:
                self._networks.update(self._made(group, members, most_copied))
                return
            except TooManyStates:
                continue
        self._bare |= members

    def _made(self, group: list[Code], members: set[Code], most_copied: int) -> dict[Code, Network]:
        """Return the networks of `group`, which are linear but for calls."""
        from_right = any(len(way) > 1 and way[-1] in members for name in group for way in self._ways[name])
        sketch = Sketch()
        at = {name: sketch.state() for name in group}
        other = sketch.state()
        for name in group:
            for way in self._ways[name]:
                tick()
                if from_right:
                    loops = bool(way) and way[-1] in members
                    source, target = at[name], at[way[-1]] if loops else other
                    body = way[:-1] if loops else way
                else:
                    loops = bool(way) and way[0] in members
                    source, target = at[way[0]] if loops else other, at[name]
                    body = way[1:] if loops else way
                self._spell(sketch, name, way, body, source, target, most_copied, members)
        return {
            name: sketch.network(at[name] if from_right else other, other if from_right else at[name]) for name in group
        }

    def _spell(
        self,
        sketch: Sketch,
        name: Code,
        way: Way,
        body: Way,
        source: int,
        target: int,
        most_copied: int,
        members: set[Code],
    ) -> None:
        first = 0 if body == way[: len(body)] else 1
        for place, symbol in enumerate(body, first):
            network = self._copied(name, symbol, place in (0, len(way) - 1), most_copied, members)
            source = sketch.behind(source, symbol, network)
        sketch.skip(source, target)

    def _copied(self, name: Code, symbol: Code, at_edge: bool, most_copied: int, members: set[Code]) -> Network | None:
        """Return the network that stands in the place of `symbol`; None for a terminal or a call."""
        if symbol >= 0 or symbol in members:
            return None
        network = self._networks.get(symbol)
        if network is None or most_copied < 0:
            return None
        if self._is_like(name, symbol):
            return network if at_edge else None
        return network if network.size <= most_copied else None

    # --- as rules -----------------------------------------------------------------------------------------------------

    def rules(self, codes: _Codes) -> list[Production]:
        """Return the rules of all networks that a text can call, states that go on alike being one."""
        called = self._called()
        kept = {name: self._networks[name] for name in called if name in self._networks}
        found = [
            Production(codes.symbol(name)[1], tuple(map(codes.symbol, way)))
            for name in called
            if name in self._bare
            for way in dict.fromkeys(self._ways[name])
        ]
        return found + _written(kept, codes)

    def _called(self) -> list[Code]:
        called = {self._start: None}
        pending = [self._start]
        while pending:
            name = pending.pop()
            for other in self._networks[name].calls if name in self._networks else _names(self._ways[name]):
                if other not in called:
                    called[other] = None
                    pending.append(other)
        return list(called)


def _written(networks: dict[Code, Network], codes: _Codes) -> list[Production]:
    """Return the rules of all states, one name for those that go on alike, and of names whose first states are one."""
    edges: list[dict[Code, int]] = []
    finals: list[bool] = []
    firsts: dict[Code, int] = {}
    owners: list[str] = []
    for name, network in networks.items():
        offset = firsts[name] = len(edges)
        owners += [codes.symbol(name)[1]] * network.size
        edges += [{symbol: after + offset for symbol, after in row.items()} for row in network.edges]
        finals += network.finals
    blocks = blocks_of(edges, finals)
    names: dict[int, Symbol] = {}
    for name, first in firsts.items():
        names.setdefault(blocks[first], codes.symbol(name))
    found = [
        Production(codes.symbol(name)[1], (names[blocks[first]],))
        for name, first in firsts.items()
        if names[blocks[first]] != codes.symbol(name)
    ]
    ends = {blocks[state] for state, row in enumerate(edges) if not row}
    for owner, block in zip(owners, blocks, strict=True):
        names.setdefault(block, (False, f"{owner}{STATE}{block}"))
    seen: set[int] = set()
    for state, block in enumerate(blocks):
        if block in seen:
            continue
        tick()
        seen.add(block)
        _, origin = names[block]
        if finals[state]:
            found.append(Production(origin, ()))
        for symbol, after in edges[state].items():
            target = blocks[after]
            rest = () if target in ends else (names[target],)
            found.append(Production(origin, (codes.symbol(symbol), *rest)))
    return found


def _names(ways: Iterable[Way]) -> list[Code]:
    return list(dict.fromkeys(symbol for way in ways for symbol in way if symbol < 0))


def _groups(names: list[Code], edges: dict[Code, list[Code]]) -> list[list[Code]]:
    """Return names that lead to each other, each group behind those that it leads to."""
    place = {name: number for number, name in enumerate(names)}
    rows = [[place[other] for other in edges[name] if other in place] for name in names]
    return [[names[number] for number in group] for group in components(rows)]
