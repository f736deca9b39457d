"""Write rules that are ambiguous by themselves in another way, for the same texts.

    e: e "+" e | "-" e | e "!" | "(" e ")" | N

A text of several operators has as many parses as there are trees over them; each would be followed. The texts are those
of a chain of operands, of which each has its prefixes before it and its suffixes behind it:

    e: e "+" p | p      p: "-" p | q      q: q "!" | "(" e ")" | N

Every text of the new rules is one of the old ones, each use of an `e` having been narrowed. Every tree of the old
rules can be turned into one of the new: an operator that stands at the right edge of an operand moves to the left of
the operator above it, and a prefix or suffix goes to the operand at its edge.

    s: (s | x | t)*    t: x s | s t?    x: "a" | /b+/

Repetitions that hold each other read a text in as many ways as it can be cut. Names that lead to each other alone, or
beside what may be empty, have the same texts and become one. What is then its own repetition (`s` = `s s`, and empty)
is a loop of what it repeats, without such repetitions at the edges of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.components import components
from sluicegate.grammar.parsing.rules import Production, Symbol, nullable, productive, useful_rules

_MOST_INLINED = 50

Way = tuple[Symbol, ...]
Ways = dict[str, list[Way]]


def without_nested_loops(rules: list[Production], start: str) -> list[Production]:
    """Return rules in which `start` has the same texts, and repetitions of one kind do not stand in each other."""
    useful = productive(rules)
    if start not in useful:
        return rules
    ways: Ways = {}
    for rule in useful_rules(rules, useful):
        ways.setdefault(rule.origin, []).append(rule.expansion)
    empty = nullable(rules)
    ways = _united(ways, start, empty)
    loops = _RepetitionFinder(ways, empty & ways.keys())
    return [Production(name, way) for name, rows in loops.ways().items() for way in rows]


def _united(ways: Ways, start: str, empty: set[str]) -> Ways:
    """Make names one that lead to each other beside what may be empty: they have the same texts."""
    names = list(ways)
    place = {name: number for number, name in enumerate(names)}
    edges = [[place[other] for other in _beside_nothing(ways[name], empty)] for name in names]
    stands_for: dict[str, str] = {}
    for group in components(edges):
        members = [names[number] for number in sorted(group)]
        stands_for.update(dict.fromkeys(members, start if start in members else members[0]))
    found: dict[str, dict[Way, None]] = {}
    for name, rows in ways.items():
        mine = found.setdefault(stands_for[name], {})
        for row in rows:
            tick()
            mine[tuple([(kind, each if kind else stands_for[each]) for kind, each in row])] = None
    return {name: [row for row in rows if row != ((False, name),)] for name, rows in found.items()}


def _beside_nothing(rows: list[Way], empty: set[str]) -> list[str]:
    """Return the names that stand in one of the rules with nothing but what may be empty."""
    found: dict[str, None] = {}
    for row in rows:
        tick()
        full = [(kind, name) for kind, name in row if kind or name not in empty]
        if not full:
            found.update(dict.fromkeys(name for _, name in row))
        elif len(full) == 1 and not full[0][0]:
            found[full[0][1]] = None
    return list(found)


class _RepetitionFinder:
    """Finds names that are repetitions, `L L` being some of `L`, and writes them as loops."""

    def __init__(self, ways: Ways, empty: set[str]) -> None:
        self._ways = ways
        self._empty = empty
        self._repeated: dict[str, _Repetition] = {}

    def ways(self) -> Ways:
        kinds = self._kinds()
        pending = list(self._ways)
        while pending:
            found = [name for name in pending if self._is_loop(name)]
            for name in found:
                like = {other for other in self._ways if kinds[other] == kinds[name]}
                self._repeated[name] = _Repetition(name, self._ways, self._empty, like, self._users, self._spelled)
            pending = [name for name in pending if name not in found] if found else []
        if not self._repeated:
            return self._ways
        inside = {(False, name): each.inside for name, each in self._repeated.items() if name in self._empty}
        written: Ways = {}
        for name, rows in self._ways.items():
            if name in self._repeated:
                me = (False, name)
                each = [_joined(row, inside) for row in self._repeated[name].rows()]
                # operators at both edges are left to `untangled`
                rows = [*[(*row, me) for row in each], ()] if name in self._empty else [(me, me), *each]
            else:
                rows = [_joined(row, inside) for row in rows]
            written[name] = list(dict.fromkeys(rows))
        return written

    @cached_property
    def _users(self) -> dict[Symbol, dict[str, None]]:
        """Return for each name the names in whose rules it stands."""
        found: dict[Symbol, dict[str, None]] = {}
        for name, rows in self._ways.items():
            for symbol in {symbol for row in rows for symbol in row if not symbol[0]}:
                found.setdefault(symbol, {})[name] = None
        return found

    @cached_property
    def _spelled(self) -> dict[str, tuple[frozenset[Symbol], frozenset[Way]]]:
        """Return for each name the terminals in its rules, and these."""
        return {
            name: (frozenset([symbol for row in rows for symbol in row if symbol[0]]), frozenset(rows))
            for name, rows in self._ways.items()
        }

    def _kinds(self) -> dict[str, int]:
        """Return the same number for names that lead to each other."""
        names = list(self._ways)
        place = {name: at for at, name in enumerate(names)}
        edges = [[place[each] for row in rows for kind, each in row if not kind] for rows in self._ways.values()]
        return {names[at]: number for number, group in enumerate(components(edges)) for at in group}

    def _is_loop(self, name: str) -> bool:
        """Return whether two texts of `name` in a row are one: where a rule says so, or it repeats others and no more.
        Other ways to this are not looked for."""
        rows = self._ways[name]
        if any(self._doubles((False, name), row) for row in rows) or self._repeats(name):
            return True
        bodies = [row for row in rows if row]
        alone = len(bodies) == 1 and len(bodies[0]) == 1 and not bodies[0][0][0]
        return alone and self._repeats(bodies[0][0][1])

    def _doubles(self, me: Symbol, row: Way) -> bool:
        """Return whether `row` is two of `me`, or one and a repetition of it, beside what may be empty."""
        if me not in row or not all(symbol == me or self._may_vanish(symbol) for symbol in row):
            return False
        count = row.count(me)
        if count > 1:
            return count == 2 or self._may_vanish(me)
        loops = (self._repeated.get(name) for kind, name in row if not kind)
        return any(each is not None and me in each.within for each in loops)

    def _may_vanish(self, symbol: Symbol) -> bool:
        return not symbol[0] and symbol[1] in self._empty

    def _repeats(self, name: str) -> bool:
        """Return whether the rules are `n: n x | n y` and some of `n: x | y |`, or the same from the right."""
        rows = self._ways[name]
        for side, body in ((0, slice(1, None)), (-1, slice(None, -1))):
            repeated = {row[body] for row in rows if row and row[side] == (False, name)}
            if repeated and all(row in repeated for row in rows if row and row[side] != (False, name)):
                return True
        return False


class _Repetition:
    """What the repetition `name` repeats. `like`: names that lead to it and that it leads to; where one of them stands
    alone its rules take its place, so that repetitions at their edges are seen. `users`: names by what stands in their
    rules; `spelled`: the terminals in the rules of each name, and these.

    `within`: symbols all texts of which, but for the empty one, are some of the repetition; `inside`: those of them
    that may be empty, which add nothing beside it.
    """

    def __init__(
        self,
        name: str,
        ways: Ways,
        empty: set[str],
        like: set[str],
        users: Mapping[Symbol, Iterable[str]],
        spelled: Mapping[str, tuple[frozenset[Symbol], frozenset[Way]]],
    ) -> None:
        self._me = (False, name)
        self._ways = ways
        self._empty = empty
        self._like = like
        self._users = users
        self._spelled = spelled
        self.within: set[Symbol] = {self._me}
        self.inside: set[Symbol] = {self._me} if name in empty else set()
        while True:
            known = len(self.inside)
            self._seen = self._followed()
            self.within = self._within()
            self.inside.update(symbol for symbol in self.within if not symbol[0] and symbol[1] in empty)
            if len(self.inside) == known:
                return

    def rows(self) -> list[Way]:
        """Return the rules of one text of what is repeated."""
        return [
            row
            for row in self._seen
            if not self._is_spelt_out(row) and not (len(row) > 1 and self.within.issuperset(row))
        ]

    def _followed(self) -> dict[Way, None]:
        seen: dict[Way, None] = {}
        pending = list(self._ways[self._me[1]])
        while pending:
            tick()
            row = pending.pop()
            if len(row) > 1 and all(not kind and name in self._empty for kind, name in row):
                pending += [(symbol,) for symbol in row]
                continue
            row = self._cut(row)
            if row and row != (self._me,) and row not in seen:
                seen[row] = None
                pending += self._ways[row[0][1]] if self._is_spelt_out(row) else []
        return seen

    def _within(self) -> set[Symbol]:
        """Suppose all names to be within whose terminals are, and take out those with a rule that is not put together
        from such."""
        alone = {row[0] for row in self._seen if len(row) == 1}
        kept = alone | {self._me}
        seen = self._seen.keys()
        pending = [
            name
            for name, (terminals, rows) in self._spelled.items()
            if (terminals <= alone or not seen.isdisjoint(rows)) and (False, name) not in kept
        ]
        found = kept | {(False, name) for name in pending}
        while pending:
            tick()
            symbol = (False, pending.pop())
            if symbol in found and symbol not in kept and not self._is_within(symbol[1], found):
                found.discard(symbol)
                pending += self._users.get(symbol, ())
        return found

    def _is_within(self, name: str, found: set[Symbol]) -> bool:
        return all(found.issuperset(row) or row in self._seen for row in self._ways[name])

    def _cut(self, row: Way) -> Way:
        low, high = 0, len(row)
        while high - low > 1 and row[low] in self.inside:
            low += 1
        while high - low > 1 and row[high - 1] in self.inside:
            high -= 1
        return row[low:high]

    def _is_spelt_out(self, row: Way) -> bool:
        kind, name = row[0]
        return len(row) == 1 and not kind and name in self._like and len(self._ways[name]) <= _MOST_INLINED


def _joined(row: Way, inside: dict[Symbol, set[Symbol]]) -> Way:
    """Leave out what adds nothing to a repetition beside it."""
    kept: list[Symbol] = []
    for symbol in row:
        while kept and symbol in inside and kept[-1] in inside[symbol]:
            kept.pop()
        if not (kept and symbol in inside.get(kept[-1], ())):
            kept.append(symbol)
    return tuple(kept)


def untangled(rules: list[Production]) -> list[Production]:
    """Return rules of the same names for the same texts, without those that begin and end with their own name."""
    distinct: dict[str, dict[Way, None]] = {}
    for rule in rules:
        distinct.setdefault(rule.origin, {})[rule.expansion] = None
    by_origin: Ways = {origin: list(ways) for origin, ways in distinct.items()}
    found: list[Production] = []
    for origin, ways in by_origin.items():
        found += _split(origin, _inlined(origin, ways, by_origin))
    return found


def _inlined(origin: str, ways: list[Way], by_origin: Ways) -> list[Way]:
    """Put the rules of another name in its place where it stands alone and begins and ends with `origin`."""
    found: list[Way] = []
    me = (False, origin)
    for way in ways:
        inner = by_origin.get(way[0][1], []) if len(way) == 1 and not way[0][0] and way[0] != me else []
        if len(inner) <= _MOST_INLINED and any(_is_operator(me, each) for each in inner):
            found += inner
        else:
            found.append(way)
    return list(dict.fromkeys(found))


def _is_operator(me: Symbol, way: tuple[Symbol, ...]) -> bool:
    return len(way) > 1 and way[0] == me and way[-1] == me


def _split(origin: str, ways: list[Way]) -> list[Production]:
    me = (False, origin)
    ways = [way for way in ways if way != (me,)]
    operators = [way for way in ways if _is_operator(me, way)]
    prefixes = [way for way in ways if len(way) > 1 and way[-1] == me and way[0] != me]
    suffixes = [way for way in ways if len(way) > 1 and way[0] == me and way[-1] != me]
    if not operators and not (prefixes and suffixes):
        return [Production(origin, way) for way in ways]
    around = {*operators, *prefixes, *suffixes}
    others = [way for way in ways if way not in around]
    operand, core = (False, f"{origin} operand"), (False, f"{origin} core")
    found = [Production(origin, (*way[:-1], operand)) for way in operators]
    found.append(Production(origin, (operand,)))
    found += [Production(operand[1], (*way[:-1], operand)) for way in prefixes]
    found.append(Production(operand[1], (core,)))
    found += [Production(core[1], (core, *way[1:])) for way in suffixes]
    return found + [Production(core[1], way) for way in others]
