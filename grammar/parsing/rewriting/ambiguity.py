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

from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.components import components
from sluicegate.grammar.parsing.rules import Code, SymbolCodes, Way, Ways, finish_soon, nullable

_MOST_INLINED = 50
"""Times that all names are gone through, for groups of names that lead to each other, before they are searched."""
_Users = dict[Code, dict[Code, None]]
_Spelled = dict[Code, tuple[frozenset[Code], frozenset[Way]]]


def without_nested_loops(ways: Ways, start: Code) -> Ways:
    """Return rules in which `start` has the same texts, and repetitions of one kind do not stand in each other.

    Every name of `ways` can be finished."""
    empty = nullable(ways)
    ways = _united(ways, start, empty)
    return _RepetitionFinder(ways, empty & ways.keys()).ways()


def _united(ways: Ways, start: Code, empty: set[Code]) -> Ways:
    """Make names one that lead to each other beside what may be empty: they have the same texts."""
    names = list(ways)
    beside = {name: _beside_nothing(rows, empty) for name, rows in ways.items()}
    stands_for: dict[Code, Code] = {}
    for group in [] if _is_acyclic(names, beside) else _groups(names, beside):
        stands_for.update(dict.fromkeys(group, start if start in group else group[0]))
    if len(stands_for) == len(set(stands_for.values())):  # most often
        return {name: [row for row in dict.fromkeys(rows) if row != (name,)] for name, rows in ways.items()}
    found: dict[Code, dict[Way, None]] = {}
    for name, rows in ways.items():
        mine = found.setdefault(stands_for[name], {})
        for row in rows:
            tick()
            mine[tuple([stands_for.get(each, each) for each in row])] = None
    return {name: [row for row in rows if row != (name,)] for name, rows in found.items()}


def _is_acyclic(names: list[Code], edges: Mapping[Code, Iterable[Code]]) -> bool:
    """Return True where no name leads to itself, as all can be finished that need what they lead to."""
    return finish_soon({name: [tuple(edges[name])] for name in names})


def _beside_nothing(rows: list[Way], empty: set[Code]) -> list[Code]:
    """Return the names that stand in one of the rules with nothing but what may be empty."""
    tick()
    if not empty:
        return list(dict.fromkeys([row[0] for row in rows if len(row) == 1 and row[0] < 0]))
    found: dict[Code, None] = {}
    for row in rows:
        tick()
        if len(row) == 1 or not empty.isdisjoint(row):
            full = [symbol for symbol in row if symbol not in empty]
            if not full:
                found.update(dict.fromkeys(row))
            elif len(full) == 1 and full[0] < 0:
                found[full[0]] = None
    return list(found)


def _groups(names: list[Code], edges: Mapping[Code, Iterable[Code]]) -> Iterable[list[Code]]:
    """Yield names that lead to each other, in their order."""
    place = {name: number for number, name in enumerate(names)}
    for group in components([[place[other] for other in edges[name]] for name in names]):
        yield [names[number] for number in sorted(group)]


class _RepetitionFinder:
    """Finds names that are repetitions, `L L` being some of `L`, and writes them as loops."""

    def __init__(self, ways: Ways, empty: set[Code]) -> None:
        self._ways = ways
        self._empty = empty
        self._repeated: dict[Code, _Repetition] = {}
        # what most grammars do not ask for is made when it is asked for
        self._kinds: dict[Code, set[Code]] = {}
        self._uses: tuple[_Users, _Spelled] | None = None

    def ways(self) -> Ways:
        pending = list(self._ways)
        while pending:
            found = [name for name in pending if self._is_loop(name)]
            known = len(self._inside)
            for name in found:
                self._add(name)
            # what may be empty and is a repetition makes more of them
            pending = [name for name in pending if name not in found] if len(self._inside) > known else []
        if not self._repeated:
            return self._ways
        inside = self._inside
        written: Ways = {}
        for name, rows in self._ways.items():
            if name in self._repeated:
                each = [_joined(row, inside) for row in self._repeated[name].rows()]
                # operators at both edges are left to `untangled`
                rows = [*[(*row, name) for row in each], ()] if name in self._empty else [(name, name), *each]
            else:
                rows = [_joined(row, inside) for row in rows] if inside else rows
            written[name] = list(dict.fromkeys(rows))
        return written

    def _add(self, name: Code) -> None:
        if self._is_plain(name):
            return
        if self._uses is None:
            self._uses = self._users(), self._spelled()
        self._repeated[name] = _Repetition(name, self._ways, self._empty, self._like(name), *self._uses)

    @property
    def _inside(self) -> dict[Code, set[Code]]:
        return {name: each.inside for name, each in self._repeated.items() if name in self._empty}

    def _users(self) -> _Users:
        """Return for each name the names in whose rules it stands."""
        found: dict[Code, dict[Code, None]] = {}
        for name, rows in self._ways.items():
            for symbol in {symbol for row in rows for symbol in row if symbol < 0}:
                found.setdefault(symbol, {})[name] = None
        return found

    def _spelled(self) -> _Spelled:
        """Return for each name the terminals in its rules, and these."""
        return {
            name: (frozenset([symbol for row in rows for symbol in row if symbol >= 0]), frozenset(rows))
            for name, rows in self._ways.items()
        }

    def _like(self, name: Code) -> set[Code]:
        """Return the names that lead to `name` and that it leads to, itself among them."""
        if not self._kinds:
            edges = {name: [each for row in rows for each in row if each < 0] for name, rows in self._ways.items()}
            for group in _groups(list(self._ways), edges):
                members = set(group)
                self._kinds.update((name, members) for name in group)
        return self._kinds[name]

    def _is_loop(self, name: Code) -> bool:
        """Return whether two texts of `name` in a row are one: where a rule says so, or it repeats others and no more.
        Other ways to this are not looked for."""
        rows = self._ways[name]
        if any(name in row for row in rows) and (any(self._doubles(name, row) for row in rows) or self._repeats(name)):
            return True
        bodies = [row for row in rows if row]
        alone = len(bodies) == 1 and len(bodies[0]) == 1 and bodies[0][0] < 0
        return alone and self._repeats(bodies[0][0])

    def _doubles(self, me: Code, row: Way) -> bool:
        """Return whether `row` is two of `me`, or one and a repetition of it, beside what may be empty."""
        if me not in row or not all(symbol == me or symbol in self._empty for symbol in row):
            return False
        count = row.count(me)
        if count > 1:
            return count == 2 or me in self._empty
        loops = (self._repeated.get(name) for name in row)
        return any(each is not None and me in each.within for each in loops)

    def _repeats(self, name: Code) -> bool:
        """Return whether the rules are `n: n x | n y` and some of `n: x | y |`, or the same from the right."""
        rows = self._ways[name]
        for side, body in ((0, slice(1, None)), (-1, slice(None, -1))):
            repeated = {row[body] for row in rows if row and row[side] == name}
            if repeated and all(row in repeated for row in rows if row and row[side] != name):
                return True
        return False

    def _is_plain(self, name: Code) -> bool:
        """Return whether a repetition would be written as it is: nothing that it repeats may be empty, is a repetition
        of its own kind, or is put together from others of these."""
        rows = self._ways[name]
        if name in self._empty or any(row.count(name) > 1 for row in rows):
            return False
        if not (self._repeats(name) or len(rows) == 1):
            return False
        bodies = [row for row in rows if name not in row]
        alone = {row[0] for row in bodies if len(row) == 1}
        if self._empty and not self._empty.isdisjoint([symbol for row in bodies for symbol in row]):
            return False
        if any(symbol < 0 for symbol in alone) and not alone.isdisjoint(self._like(name)):
            return False
        return all(any(symbol >= 0 and symbol not in alone for symbol in row) for row in bodies if len(row) > 1)


class _Repetition:
    """What the repetition `name` repeats. `like`: names that lead to it and that it leads to; where one of them stands
    alone its rules take its place, so that repetitions at their edges are seen. `users`: names by what stands in their
    rules; `spelled`: the terminals in the rules of each name, and these.

    `within`: symbols all texts of which, but for the empty one, are some of the repetition; `inside`: those of them
    that may be empty, which add nothing beside it.
    """

    def __init__(
        self,
        name: Code,
        ways: Ways,
        empty: set[Code],
        like: set[Code],
        users: _Users,
        spelled: _Spelled,
    ) -> None:
        self._me = name
        self._ways = ways
        self._empty = empty
        self._like = like
        self._users = users
        self._spelled = spelled
        self.within: set[Code] = {name}
        self.inside: set[Code] = {name} if name in empty else set()
        while True:
            known = len(self.inside)
            self._seen = self._followed()
            self.within = self._within()
            self.inside |= self.within & empty
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
        pending = list(self._ways[self._me])
        while pending:
            tick()
            row = pending.pop()
            if len(row) > 1 and self._empty.issuperset(row):
                pending += [(symbol,) for symbol in row]
                continue
            row = self._cut(row)
            if row and row != (self._me,) and row not in seen:
                seen[row] = None
                pending += self._ways[row[0]] if self._is_spelt_out(row) else []
        return seen

    def _within(self) -> set[Code]:
        """Suppose all names to be within whose terminals are, and take out those with a rule that is not put together
        from such."""
        alone = {row[0] for row in self._seen if len(row) == 1}
        kept = alone | {self._me}
        seen = self._seen.keys()
        pending = [
            name
            for name, (terminals, rows) in self._spelled.items()
            if (terminals <= alone or not seen.isdisjoint(rows)) and name not in kept
        ]
        found = kept.union(pending)
        while pending:
            tick()
            name = pending.pop()
            if name in found and name not in kept and not self._is_within(name, found):
                found.discard(name)
                pending += self._users.get(name, ())
        return found

    def _is_within(self, name: Code, found: set[Code]) -> bool:
        return all(found.issuperset(row) or row in self._seen for row in self._ways[name])

    def _cut(self, row: Way) -> Way:
        low, high = 0, len(row)
        while high - low > 1 and row[low] in self.inside:
            low += 1
        while high - low > 1 and row[high - 1] in self.inside:
            high -= 1
        return row[low:high]

    def _is_spelt_out(self, row: Way) -> bool:
        return len(row) == 1 and row[0] in self._like and len(self._ways[row[0]]) <= _MOST_INLINED


def _joined(row: Way, inside: dict[Code, set[Code]]) -> Way:
    """Leave out what adds nothing to a repetition beside it."""
    kept: list[Code] = []
    for symbol in row:
        while kept and symbol in inside and kept[-1] in inside[symbol]:
            kept.pop()
        if not (kept and symbol in inside.get(kept[-1], ())):
            kept.append(symbol)
    return tuple(kept)


def untangled(ways: Ways, codes: SymbolCodes) -> Ways:
    """Return rules of the same names for the same texts, without those that begin and end with their own name."""
    found: Ways = {}
    for name, rows in ways.items():
        if any(row and (row[0] == name or (row[0] < 0 and len(row) == 1) or row[-1] == name) for row in rows):
            _split(name, _inlined(name, rows, ways), codes, found)
        else:
            found[name] = rows
    return found


def _inlined(name: Code, rows: list[Way], ways: Ways) -> list[Way]:
    """Put the rules of another name in its place where it stands alone and begins and ends with `name`."""
    found: list[Way] = []
    for row in rows:
        inner = ways.get(row[0], []) if len(row) == 1 and row[0] < 0 and row[0] != name else []
        if len(inner) <= _MOST_INLINED and any(_is_operator(name, each) for each in inner):
            found += inner
        else:
            found.append(row)
    return list(dict.fromkeys(found))


def _is_operator(name: Code, row: Way) -> bool:
    return len(row) > 1 and row[0] == name and row[-1] == name


def _split(name: Code, rows: list[Way], codes: SymbolCodes, found: Ways) -> None:
    rows = [row for row in rows if row != (name,)]
    begins = [row for row in rows if len(row) > 1 and row[0] == name]
    ends = [row for row in rows if len(row) > 1 and row[-1] == name]
    operators = [row for row in begins if row[-1] == name]
    if not operators and not (begins and ends):
        found[name] = rows
        return
    prefixes = [row for row in ends if row[0] != name]
    suffixes = [row for row in begins if row[-1] != name]
    around = {*begins, *ends}
    others = [row for row in rows if row not in around]
    operand, core = (codes.of((False, f"{codes.name(name)} {part}")) for part in ("operand", "core"))
    found[name] = [*[(*row[:-1], operand) for row in operators], (operand,)]
    found[operand] = [*[(*row[:-1], operand) for row in prefixes], (core,)]
    found[core] = [*[(core, *row[1:]) for row in suffixes], *others]
