"""Write rules as networks: one small automaton over terminals and calls for each name that texts nest in.

A rule that recurses from the left or from the right only is a loop, and one that another begins or ends with is a part
of that one (Nederhof, 2000, on strongly regular grammars); what stands in the middle of a text of its own kind is a
call. Each automaton is made deterministic and minimal (Moore, 1956). So a chain of a dozen levels of operators becomes
a loop of one operand and one operator: a parse stands in one place where it stood in a dozen.

The networks are written as rules again, by number: `s: a t` for an edge, `s:` where a text may end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.components import components
from sluicegate.grammar.parsing.rewriting.automaton import (
    Network,
    NetworkPool,
    NondeterministicNetwork,
    TooManyStates,
)
from sluicegate.grammar.parsing.rules import Code, NumberedRules, SymbolCodes, Way, Ways
from sluicegate.grammar.token_ids import I32

_MOST_COPIED = 40
"""Most states of a network that is copied into networks of another kind of text; larger ones are called."""


def as_networks(ways: Ways, start: Code, codes: SymbolCodes, terminals: Sequence[str]) -> NumberedRules:
    """Return rules in which `start` has the same texts. Every name of `ways` can be finished."""
    return _Networks(ways, start).rules(codes, terminals)


class _Networks:
    def __init__(self, ways: Ways, start: Code) -> None:
        self._ways = ways
        self._start = start
        self._pool = NetworkPool()
        self._networks: dict[Code, Network] = {}
        self._bare: set[Code] = set()
        """Names whose rules stay unchanged, because their automata would be too large."""
        self._kind: dict[Code, int] = {}
        self._loops: dict[Code, _Loop] = {}
        for number, kind in enumerate(_groups(list(ways), {name: _names(each) for name, each in ways.items()})):
            self._kind.update(dict.fromkeys(kind, number))
            for group in _groups(kind, {name: self._edges(name) for name in kind}) if len(kind) > 1 else [kind]:
                loop = self._loop_of(group)
                if loop is None:
                    self._make(group)
                else:
                    self._loops[group[0]] = loop

    def _edges(self, name: Code) -> list[Code]:
        """Return the names of the same kind that texts of `name` begin or end with."""
        kinds, mine = self._kind, self._kind[name]
        return [
            symbol
            for way in self._ways[name]
            for symbol in (way[:1] if len(way) < 2 else (way[0], way[-1]))
            if symbol < 0 and kinds.get(symbol) == mine
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
        sketch = NondeterministicNetwork()
        at = {name: sketch.state() for name in group}
        other = sketch.state()
        for name in group:
            for way in self._ways[name]:
                tick()
                first, end = 0, len(way)
                if from_right:
                    loops = bool(way) and way[-1] in members
                    source, target = at[name], at[way[-1]] if loops else other
                    end -= loops
                else:
                    loops = bool(way) and way[0] in members
                    source, target = at[way[0]] if loops else other, at[name]
                    first += loops
                self._spell(sketch, name, way, first, end, source, target, most_copied, members)
        ways = {name: (at[name], other) if from_right else (other, at[name]) for name in group}
        return {name: self._pool.add(sketch, *way) for name, way in ways.items()}

    def _spell(
        self,
        sketch: NondeterministicNetwork,
        name: Code,
        way: Way,
        first: int,
        end: int,
        source: int,
        target: int,
        most_copied: int,
        members: set[Code],
    ) -> None:
        """Sketch the symbols `first` to `end` of `way`."""
        for place in range(first, end):
            symbol = way[place]
            copied = None  # a terminal, or a call
            if symbol < 0 and symbol not in members:
                copied = self._copied(name, symbol, place in (0, len(way) - 1), most_copied)
            if copied is None:
                source = sketch.behind(source, symbol)
            elif isinstance(copied, _Loop):
                source = self._spell_loop(sketch, symbol, copied, source)
            else:
                source = sketch.behind_copy(source, symbol, copied)
        sketch.skip(source, target)

    def _spell_loop(self, sketch: NondeterministicNetwork, name: Code, loop: _Loop, source: int) -> int:
        """Sketch a loop from `source`, and return the state behind it."""
        known = sketch.loops.get((source, name))
        if known is not None:
            return known
        begin, end = sketch.state(), sketch.state()
        sketch.loops[source, name] = end
        sketch.skip(source, begin)
        sketch.skip(end, begin)
        for body in loop.bodies:
            self._spell(sketch, name, body, 0, len(body), begin, end, _MOST_COPIED, {name})
        return end

    def _copied(self, name: Code, symbol: Code, at_edge: bool, most_copied: int) -> Network | _Loop | None:
        """Return the network, or the loop, that stands in the place of `symbol`, another name; None for a call."""
        copied: Network | _Loop | None = self._networks.get(symbol) or self._loops.get(symbol)
        if copied is None or most_copied < 0:
            return None
        if self._is_like(name, symbol):
            return copied if at_edge else None
        return copied if copied.size <= most_copied else None

    # --- loops --------------------------------------------------------------------------------------------------------

    def _loop_of(self, group: list[Code]) -> _Loop | None:
        """Return the loop that a name is, `n: x | n x` or the same from the right, if it is small: it is sketched where
        it stands, and needs no network of its own."""
        name, rows = group[0], self._ways[group[0]]
        bodies = [row for row in rows if name not in row] if len(group) == 1 else []
        if not bodies or len(rows) != 2 * len(bodies) or not all(bodies):
            return None
        known = set(rows)
        if not (all((name, *row) in known for row in bodies) or all((*row, name) in known for row in bodies)):
            return None
        size = 0
        for row in bodies:
            for place, symbol in enumerate(row):
                copied = self._copied(name, symbol, place in (0, len(row) - 1), _MOST_COPIED) if symbol < 0 else None
                size += 1 if copied is None else copied.size
        return _Loop(bodies, size + 2) if size < _MOST_COPIED - 1 else None

    # --- as rules -----------------------------------------------------------------------------------------------------

    def rules(self, codes: SymbolCodes, terminals: Sequence[str]) -> NumberedRules:
        """Return the rules of all networks that a text can call, states that go on alike being one."""
        called = self._called()
        networks = sorted([(self._networks[name].number, name) for name in called if name in self._networks])
        bare = [name for name in called if name in self._bare]
        numbers = codes.numbers(terminals)
        owners, origins, first, symbols = self._pool.rules_of(networks, bare, numbers, len(terminals) + 1)
        names = [codes.name(name) for _, name in networks]
        return NumberedRules(
            [names[owner] for owner in owners.tolist()] + [codes.name(name) for name in bare],
            *self._with_bare(bare, numbers, origins, first, symbols),
            int(numbers[~self._start]),
        )

    def _with_bare(
        self, bare: list[Code], numbers: I32, origins: I32, first: I32, symbols: I32
    ) -> tuple[I32, I32, I32]:
        """Add the rules of names without a network."""
        rest = [(int(numbers[~name]), way) for name in bare for way in dict.fromkeys(self._ways[name])]
        if not rest:
            return origins, first, symbols
        more = numbers[[code if code >= 0 else ~code for _, way in rest for code in way]]
        ends = int(first[-1]) + np.cumsum([len(way) for _, way in rest])
        return (
            np.concatenate([origins, np.array([origin for origin, _ in rest], np.int32)]),
            np.concatenate([first, ends]).astype(np.int32),
            np.concatenate([symbols, more]),
        )

    def _called(self) -> list[Code]:
        called = {self._start: None}
        pending = [self._start]
        while pending:
            name = pending.pop()
            if name in self._loops:
                del self._loops[name]
                self._make([name])
            for other in self._pool.calls(self._networks[name]) if name in self._networks else _names(self._ways[name]):
                if other not in called:
                    called[other] = None
                    pending.append(other)
        return list(called)


class _Loop(NamedTuple):
    """A name that repeats one of `bodies`. `size`: most states of its sketch."""

    bodies: list[Way]
    size: int


def _names(ways: Iterable[Way]) -> list[Code]:
    return list(dict.fromkeys(symbol for way in ways for symbol in way if symbol < 0))


def _groups(names: list[Code], edges: Mapping[Code, list[Code]]) -> list[list[Code]]:
    """Return names that lead to each other, each group behind those that it leads to."""
    place = {name: number for number, name in enumerate(names)}
    rows = [[place[other] for other in edges[name] if other in place] for name in names]
    return [[names[number] for number in group] for group in components(rows)]
