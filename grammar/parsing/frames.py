"""Frames: all stacks of an Earley parse (1970) that one place of a text leads to, as a graph of immutable nodes.

A frame holds what may come next: rests of rules, each with the frame that follows the rest. A rest without symbols is
never held: what follows it takes its place. So a rule that ends in another one leaves nothing behind (the chains that
Leo, 1991, cuts), and repetitions from the right take as much room as those from the left. Nullable symbols are treated
as by Aycock and Horspool (2002). Frames that hold the same are the same object: states of a parse that go on alike are
recognised as one, however they came about.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import NamedTuple

from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.components import components
from sluicegate.grammar.parsing.symbols import Prediction, Suffix, Symbols
from sluicegate.plugins.errors import GrammarLimit

_KEPT = 30_000
MOST_ITEMS = 5_000


class ParseFrame:
    """`items`: rests of rules and what follows each; `whole`: the text may end here.

    `group`: frames that lead back to this one, itself among them; empty where none does.
    """

    __slots__ = ("group", "items", "locals", "number", "opened", "outlines", "shifts", "starts", "whole")

    def __init__(self, number: int) -> None:
        self.number = number
        self.items: frozenset[Item] = frozenset()
        self.whole = False
        self.group: tuple[ParseFrame, ...] = ()
        self.opened: Opened | None = None
        self.shifts: dict[int, ParseFrame] = {}
        self.locals: dict[int, ParseFrame] = {}
        self.outlines: tuple[Outline, ...] | None = None
        self.starts: dict[int, tuple[tuple[int, ParseFrame], ...]] = {}
        """Lexeme states after a byte class that begins what comes next, for `configurations`."""


Item = tuple[Suffix, ParseFrame]
_LocalItem = tuple[Suffix, "ParseFrame | int"]
"""The frame may be that of a nonterminal which begins here, by its number."""


class Outline(NamedTuple):
    """A frame with a hole in the place of each of `behind`."""

    frame: ParseFrame
    behind: tuple[ParseFrame, ...]


class Opened:
    """A frame behind everything that may be empty. `by_head`: rests behind each symbol; `terminals`: what may come."""

    __slots__ = ("by_head", "is_whole", "prediction", "terminals")

    def __init__(
        self, by_head: dict[int, list[Item]], is_whole: bool, prediction: Prediction, symbols: Symbols
    ) -> None:
        self.by_head = by_head
        self.is_whole = is_whole
        self.prediction = prediction
        own = [head for head in by_head if symbols.is_terminal(head)]
        self.terminals = tuple(dict.fromkeys([*own, *prediction.terminals]))


class ParseFrames:
    """Makes the frames of one grammar, the same object for the same contents as long as it is remembered."""

    def __init__(self, symbols: Symbols) -> None:
        self.symbols = symbols
        self._numbers = count()
        self._known: dict[tuple[frozenset[Item], bool], ParseFrame] = {}
        self._loops: dict[frozenset[object], dict[int, ParseFrame]] = {}
        self._quick: dict[tuple[int, frozenset[tuple[int, Suffix, ParseFrame]]], ParseFrame] = {}
        self._holes: list[ParseFrame] = []
        self._outlined: dict[object, list[ParseFrame]] = {}
        self.end = self.frame((), True)

    def start(self, nonterminal: int) -> ParseFrame:
        """Return the frame before a text of `nonterminal`."""
        return self.frame([(self.symbols.suffix([nonterminal]), self.end)], False)

    def frame(self, items: Iterable[Item], whole: bool) -> ParseFrame:
        key = (frozenset(items), whole)
        found = self._known.get(key)
        if found is None:
            if len(key[0]) > MOST_ITEMS:
                raise GrammarLimit(f"the grammar is in more than {MOST_ITEMS} places at once; make it less ambiguous")
            if len(self._known) > _KEPT:  # frames that are in use go on without what was remembered
                self._known, self._loops, self._quick, self._outlined = {}, {}, {}, {}
            found = self._known[key] = self._new(*key)
        return found

    def _new(self, items: frozenset[Item], whole: bool) -> ParseFrame:
        tick()
        frame = ParseFrame(next(self._numbers))
        frame.items, frame.whole = items, whole
        return frame

    def union(self, frames: list[ParseFrame]) -> ParseFrame:
        """Return the frame that goes on like any of `frames`."""
        if len(frames) == 1:
            return frames[0]
        return self.frame(frozenset[Item]().union(*(f.items for f in frames)), any(f.whole for f in frames))

    # --- what comes next ----------------------------------------------------------------------------------------------

    def opened(self, frame: ParseFrame) -> Opened:
        if frame.opened is None:
            frame.opened = self._open(frame)
        return frame.opened

    def _open(self, frame: ParseFrame) -> Opened:
        symbols = self.symbols
        seen = set(frame.items)
        pending = list(frame.items)
        by_head: dict[int, list[Item]] = {}
        whole = frame.whole
        while pending:
            suffix, follow = pending.pop()
            head, tail = symbols.heads[suffix], symbols.tails[suffix]
            by_head.setdefault(head, []).append((tail, follow))
            if head not in symbols.nullable:
                continue
            tick()
            whole = whole or (not tail and follow.whole)
            for item in ((tail, follow),) if tail else follow.items:
                if item not in seen:
                    seen.add(item)
                    pending.append(item)
        heads = frozenset(head for head in by_head if not symbols.is_terminal(head))
        return Opened(by_head, whole, symbols.prediction(heads), symbols)

    def shift(self, frame: ParseFrame, terminal: int) -> ParseFrame:
        """Return the frame behind `terminal`, which may come next in `frame`."""
        found = frame.shifts.get(terminal)
        if found is None:
            tick()
            opened = self.opened(frame)
            rests = list(opened.by_head.get(terminal, ()))
            rests += [(tail, self._local(frame, name)) for tail, name in opened.prediction.by_symbol.get(terminal, ())]
            found = frame.shifts[terminal] = self._behind(rests)
        return found

    def _behind(self, rests: Iterable[Item]) -> ParseFrame:
        items: set[Item] = set()
        whole = False
        for tail, follow in rests:
            if tail:
                items.add((tail, follow))
            else:
                items |= follow.items
                whole = whole or follow.whole
        return self.frame(items, whole)

    # --- behind nonterminals that begin here --------------------------------------------------------------------------

    def _local(self, frame: ParseFrame, name: int) -> ParseFrame:
        """Return the frame behind nonterminal `name`, where that begins in `frame`."""
        found = frame.locals.get(name)
        if found is None:
            opened = self.opened(frame)
            key = (name, self._wanting(opened, name))
            found = self._quick.get(key)
            if found is None:
                self._resolve(frame, opened, name)
                found = self._quick[key] = frame.locals[name]
            frame.locals[name] = found
        return found

    def _wanting(self, opened: Opened, name: int) -> frozenset[tuple[int, Suffix, ParseFrame]]:
        """Return all that decides what follows `name`: rests that can begin with it, their first symbols included."""
        reach = self.symbols.reach
        heads = [head for head in opened.by_head if not self.symbols.is_terminal(head) and name in reach(head)]
        return frozenset((head, tail, follow) for head in heads for tail, follow in opened.by_head[head])

    def _resolve(self, frame: ParseFrame, opened: Opened, name: int) -> None:
        """Make the frames behind `name` and behind the nonterminals it leads to that begin in `frame` as well."""
        found: dict[int, tuple[set[_LocalItem], bool]] = {}
        pending = [name]
        while pending:
            local = pending.pop()
            if local in found or local in frame.locals:
                continue
            found[local] = self._waiting(opened, local)
            pending += [follow for _, follow in found[local][0] if isinstance(follow, int)]
        names = list(found)
        place = {local: i for i, local in enumerate(names)}
        edges = [[place[f] for _, f in found[local][0] if isinstance(f, int) and f in place] for local in names]
        for component in components(edges):
            tick()
            self._tie({names[i]: found[names[i]] for i in component}, frame)

    def _waiting(self, opened: Opened, name: int) -> tuple[set[_LocalItem], bool]:
        """Return what follows `name`, and whether the text may end there. A rest without symbols gives way to what
        follows the nonterminal that it ends."""
        items: set[_LocalItem] = set()
        whole = False
        seen, pending = {name}, [name]
        while pending:
            tick()
            at = pending.pop()
            for tail, follow in opened.by_head.get(at, ()):
                if tail:
                    items.add((tail, follow))
                else:
                    items |= follow.items
                    whole = whole or follow.whole
            for tail, local in opened.prediction.by_symbol.get(at, ()):
                if tail:
                    items.add((tail, local))
                elif local not in seen:
                    seen.add(local)
                    pending.append(local)
        return items, whole

    def _tie(self, contents: dict[int, tuple[set[_LocalItem], bool]], frame: ParseFrame) -> None:
        """Make the frames of nonterminals that lead to each other; all others they lead to are made."""
        known = frame.locals
        settled = {
            name: (
                frozenset((tail, known[f] if isinstance(f, int) and f not in contents else f) for tail, f in items),
                whole,
            )
            for name, (items, whole) in contents.items()
        }
        if not any(isinstance(f, int) for items, _ in settled.values() for _, f in items):
            for name, (items, whole) in settled.items():
                known[name] = self.frame(items, whole)  # type: ignore[arg-type]
            return
        key: frozenset[object] = frozenset((name, *content) for name, content in settled.items())
        group = self._loops.get(key)
        if group is None:
            group = self._loops[key] = {name: self._new(frozenset(), whole) for name, (_, whole) in settled.items()}
            for name, (items, whole) in settled.items():
                made = group[name]
                made.items = frozenset((tail, group[f] if isinstance(f, int) else f) for tail, f in items)
                made.group = tuple(group.values())
                self._known.setdefault((made.items, whole), made)
        known.update(group)

    # --- outlines -----------------------------------------------------------------------------------------------------

    def hole(self, number: int) -> ParseFrame:
        """Return a frame that stands for another, of which nothing is known."""
        while number >= len(self._holes):
            made = self._new(frozenset(), False)
            made.items = frozenset([(self.symbols.suffix([self.symbols.hole]), made)])
            self._holes.append(made)
        return self._holes[number]

    def holes(self, frame: ParseFrame) -> list[int]:
        """Return the numbers of the holes that `frame` leads to without a byte."""
        found = self.opened(frame).by_head.get(self.symbols.hole, ())
        return [self._holes.index(hole) for _, hole in found]

    def outlines(self, frame: ParseFrame) -> tuple[Outline, ...]:
        """Return each item of `frame` without what follows it, but for frames that lead back to each other: what can be
        read up to a hole is the same wherever it stands."""
        if frame.outlines is None:
            frame.outlines = tuple([self._outline(suffix, follow) for suffix, follow in frame.items])
        return frame.outlines

    def _outline(self, suffix: Suffix, follow: ParseFrame) -> Outline:
        if not follow.group:
            return Outline(self.frame([(suffix, self.hole(0))], False), (follow,))
        place = {member: i for i, member in enumerate(follow.group)}
        behind: dict[ParseFrame, int] = {}
        rows: list[list[tuple[Suffix, bool, int]]] = []
        for member in follow.group:
            outer = sorted([(tail, f.number, f) for tail, f in member.items if f not in place], key=_by_tail)
            row = [(tail, True, behind.setdefault(f, len(behind))) for tail, _, f in outer]
            rows.append(row + sorted([(tail, False, place[f]) for tail, f in member.items if f in place]))
        key = tuple([(tuple(row), member.whole) for row, member in zip(rows, follow.group, strict=True)])
        made = self._outlined.get(key)
        if made is None:
            made = self._outlined[key] = [self._new(frozenset(), whole) for _, whole in key]
            for copy, row in zip(made, rows, strict=True):
                copy.items = frozenset((tail, self.hole(n) if is_hole else made[n]) for tail, is_hole, n in row)
                copy.group = tuple(made)
        return Outline(self.frame([(suffix, made[place[follow]])], False), tuple(behind))


def _by_tail(item: tuple[Suffix, int, ParseFrame]) -> tuple[Suffix, int]:
    return item[:2]
