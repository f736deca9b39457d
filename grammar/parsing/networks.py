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
from sluicegate.grammar.parsing.automaton import Network, Sketch, TooManyStates, merged
from sluicegate.grammar.parsing.rules import Production, Symbol, all_useful, productive

_MOST_COPIED = 40
"""States of a network that is copied into those of another kind of text; larger ones are called."""

Way = tuple[Symbol, ...]


def as_networks(rules: list[Production], start: str) -> list[Production]:
    """Return rules in which `start` has the same texts."""
    useful = productive(rules)
    if start not in useful:
        return rules
    ways: dict[str, list[Way]] = {}
    for rule in rules:
        if all_useful(rule, useful):
            ways.setdefault(rule.origin, []).append(rule.expansion)
    return _Networks(ways, start).rules()


class _Networks:
    def __init__(self, ways: dict[str, list[Way]], start: str) -> None:
        self._ways = ways
        self._start = start
        self._networks: dict[str, Network] = {}
        self._bare: set[str] = set()
        """Names whose rules stay as they are: their automata would be too large."""
        self._kind: dict[str, int] = {}
        for number, kind in enumerate(_groups(list(ways), {name: _names(each) for name, each in ways.items()})):
            self._kind.update(dict.fromkeys(kind, number))
            for group in _groups(kind, {name: self._edges(name) for name in kind}):
                self._make(group)

    def _edges(self, name: str) -> list[str]:
        """Names of the same kind that texts of `name` begin or end with."""
        return [
            symbol[1]
            for way in self._ways[name]
            for place, symbol in enumerate(way)
            if place in (0, len(way) - 1) and self._is_like(name, symbol)
        ]

    def _is_like(self, name: str, symbol: Symbol) -> bool:
        return not symbol[0] and self._kind.get(symbol[1]) == self._kind[name]

    # --- one group of names that lead to each other -------------------------------------------------------------------

    def _make(self, group: list[str]) -> None:
        members = set(group)
        for most_copied in (_MOST_COPIED, -1):
            try:
                self._networks.update(self._made(group, members, most_copied))
                return
            except TooManyStates:
                continue
        self._bare |= members

    def _made(self, group: list[str], members: set[str], most_copied: int) -> dict[str, Network]:
        """Return the networks of `group`, which are linear but for calls."""
        ends = {way[-1][1] for name in group for way in self._ways[name] if len(way) > 1 and not way[-1][0]}
        from_right = bool(ends & members)
        sketch = Sketch()
        at = {name: sketch.state() for name in group}
        other = sketch.state()
        for name in group:
            for way in self._ways[name]:
                tick()
                if from_right:
                    loops = bool(way) and not way[-1][0] and way[-1][1] in members
                    source, target = at[name], at[way[-1][1]] if loops else other
                    body = way[:-1] if loops else way
                else:
                    loops = bool(way) and not way[0][0] and way[0][1] in members
                    source, target = at[way[0][1]] if loops else other, at[name]
                    body = way[1:] if loops else way
                self._spell(sketch, name, way, body, source, target, most_copied, members)
        return {
            name: sketch.network(at[name] if from_right else other, other if from_right else at[name]) for name in group
        }

    def _spell(
        self,
        sketch: Sketch,
        name: str,
        way: Way,
        body: Way,
        source: int,
        target: int,
        most_copied: int,
        members: set[str],
    ) -> None:
        first = 0 if body == way[: len(body)] else 1
        for number, symbol in enumerate(body):
            place = number + first
            after = target if number == len(body) - 1 else sketch.state()
            network = self._copied(name, symbol, place in (0, len(way) - 1), most_copied, members)
            if network is None:
                sketch.edge(source, symbol, after)
            else:
                sketch.copy(network, source, after)
            source = after
        if not body:
            sketch.skip(source, target)

    def _copied(self, name: str, symbol: Symbol, at_edge: bool, most_copied: int, members: set[str]) -> Network | None:
        """Return the network that stands in the place of `symbol`; None for a terminal or a call."""
        if symbol[0] or symbol[1] in members:
            return None
        network = self._networks.get(symbol[1])
        if network is None or most_copied < 0:
            return None
        if self._is_like(name, symbol):
            return network if at_edge else None
        return network if network.size <= most_copied else None

    # --- as rules -----------------------------------------------------------------------------------------------------

    def rules(self) -> list[Production]:
        """Return the rules of all networks that a text can call, states that go on alike being one."""
        called = self._called()
        kept = {name: self._networks[name] for name in called if name in self._networks}
        names, states = merged(kept)
        found = [
            Production(name, way) for name in called if name in self._bare for way in dict.fromkeys(self._ways[name])
        ]
        for name in kept:
            found += [] if names[name] == name else [Production(name, ((False, names[name]),))]
        for state in states:
            tick()
            found += state
        return found

    def _called(self) -> list[str]:
        called = {self._start: None}
        pending = [self._start]
        while pending:
            name = pending.pop()
            for other in self._networks[name].calls if name in self._networks else _names(self._ways[name]):
                if other not in called:
                    called[other] = None
                    pending.append(other)
        return list(called)


def _names(ways: Iterable[Way]) -> list[str]:
    return list(dict.fromkeys(name for way in ways for is_terminal, name in way if not is_terminal))


def _groups(names: list[str], edges: dict[str, list[str]]) -> list[list[str]]:
    """Return names that lead to each other, each group behind those that it leads to."""
    place = {name: number for number, name in enumerate(names)}
    rows = [[place[other] for other in edges[name] if other in place] for name in names]
    return [[names[number] for number in group] for group in components(rows)]
