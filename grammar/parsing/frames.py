"""Frames: all stacks of an Earley parse (1970) that one place of a text leads to, as a graph of immutable nodes.

A frame holds what may come next: rests of rules, each with the frame that follows the rest. A frame that would hold
nothing but a rest without symbols is not made: what follows takes its place. So a rule that ends in another one leaves
nothing behind (the chains that Leo, 1991, cuts), and repetitions from the right take as much room as those from the
left. Nullable symbols are treated
as by Aycock and Horspool (2002). Frames that hold the same are the same object: states of a parse that go on alike are
recognised as one, however they came about.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import NamedTuple

from sluicegate.grammar.budget.meter import charge, tick
from sluicegate.grammar.components import components
from sluicegate.grammar.parsing.symbols import Prediction, Suffix, Symbols
from sluicegate.plugins.errors import GrammarLimit

_KEPT, _KEPT_BYTES = 30_000, 64 << 20
"""Most frames, and their bytes, before they are forgotten."""
_FRAME_BYTES, _ITEM_BYTES = 700, 250
"""Of a frame, and of a rest in it, with what is worked out of them: 4 kB of a frame of 14 rests, measured."""
MOST_ITEMS = 5_000
_OF_FRAME, _OF_ITEM = 10, 1.4
"""Work charged for a step with a frame, and for what may come there."""


class ParseFrame:
    """`items`: rests of rules and what follows each. The end of the text has none."""

    __slots__ = ("items", "locals", "number", "opened", "outline", "shifts", "starts")

    def __init__(self, number: int) -> None:
        self.number = number
        self.items: frozenset[Item] = frozenset()
        self.opened: ExpandedFrame | None = None
        self.shifts: dict[int, ParseFrame] = {}
        self.locals: dict[int, ParseFrame] = {}
        self.outline: FrameTemplate | None = None
        self.starts: dict[int, tuple[tuple[int, ParseFrame], ...]] = {}
        """Lexeme states after the first byte of what comes next, by byte class; see `configurations`."""


Item = tuple[Suffix, ParseFrame]
_LocalItem = tuple[Suffix, "ParseFrame | int"]
"""The frame may be given by its number, if it belongs to a nonterminal that begins here."""


class FrameTemplate(NamedTuple):
    """A frame with a hole in the place of what follows each rest; `behind`: what does, by hole."""

    frame: ParseFrame
    behind: tuple[ParseFrame, ...]


class ExpandedFrame:
    """A frame behind everything that may be empty. `by_head`: rests behind each symbol; `terminals`: what may come, and
    as bits; `holes`: their numbers, see `ParseFrames.hole`."""

    __slots__ = ("bits", "by_head", "holes", "is_whole", "prediction", "terminals")

    def __init__(
        self, by_head: dict[int, list[Item]], is_whole: bool, prediction: Prediction, symbols: Symbols
    ) -> None:
        self.by_head = by_head
        self.is_whole = is_whole
        self.prediction = prediction
        own = [head for head in by_head if symbols.is_terminal(head)]
        self.terminals = tuple(dict.fromkeys([*own, *prediction.terminals])) if own else prediction.terminals
        self.bits = prediction.bits
        for terminal in own:
            self.bits |= 1 << terminal
        self.holes: tuple[int, ...] = ()


class ParseFrames:
    """Makes the frames of one grammar, the same object for the same contents as long as it is remembered."""

    def __init__(self, symbols: Symbols) -> None:
        self.symbols = symbols
        self._numbers = count()
        self.bytes_kept = 0
        """Bytes of the frames that are remembered, by estimate."""
        self._known: dict[frozenset[Item], ParseFrame] = {}
        self._loops: dict[frozenset[object], dict[int, ParseFrame]] = {}
        self._quick: dict[tuple[int, frozenset[tuple[int, Suffix, ParseFrame]]], ParseFrame] = {}
        self._holes: list[ParseFrame] = []
        self._outlined: dict[object, ParseFrame] = {}
        self.end = self._new(frozenset())

    def start(self, nonterminal: int) -> ParseFrame:
        """Return the frame before a text of `nonterminal`."""
        return self.frame([(self.symbols.suffix([nonterminal]), self.end)])

    def frame(self, items: Iterable[Item]) -> ParseFrame:
        """Return the frame of `items`; the end of the text where there are none."""
        key = frozenset(items)
        if len(key) < 2:
            suffix, follow = next(iter(key), (0, self.end))
            if not suffix:
                return follow
        found = self._known.get(key)
        if found is None:
            if len(key) > MOST_ITEMS:
                raise GrammarLimit(f"the grammar is in more than {MOST_ITEMS} places at once; make it less ambiguous")
            if len(self._known) > _KEPT or self.bytes_kept > _KEPT_BYTES:
                # frames that are in use go on without what was remembered
                self._known, self._loops, self._quick, self._outlined = {}, {}, {}, {}
                self.bytes_kept = 0
            found = self._known[key] = self._new(key)
        return found

    def _new(self, items: frozenset[Item]) -> ParseFrame:
        tick()
        charge(_OF_FRAME + len(items))
        self.bytes_kept += _FRAME_BYTES + _ITEM_BYTES * len(items)
        frame = ParseFrame(next(self._numbers))
        frame.items = items
        return frame

    def union(self, frames: list[ParseFrame]) -> ParseFrame:
        """Return the frame whose continuations are those of all `frames`."""
        if len(frames) == 1:
            return frames[0]
        return self.frame([item for frame in frames for item in frame.items or ((0, frame),)])

    # --- what comes next ----------------------------------------------------------------------------------------------

    def opened(self, frame: ParseFrame) -> ExpandedFrame:
        if frame.opened is None:
            frame.opened = self._open(frame)
        return frame.opened

    def _open(self, frame: ParseFrame) -> ExpandedFrame:
        symbols = self.symbols
        seen = set(frame.items)
        pending = list(frame.items)
        by_head: dict[int, list[Item]] = {}
        whole = frame is self.end
        while pending:
            tick()
            suffix, follow = pending.pop()
            if suffix:
                head, tail = symbols.heads[suffix], symbols.tails[suffix]
                by_head.setdefault(head, []).append((tail, follow))
                further: Iterable[Item] = ((tail, follow),) if head in symbols.nullable else ()
            else:
                whole = whole or follow is self.end
                further = follow.items
            for item in further:
                if item not in seen:
                    seen.add(item)
                    pending.append(item)
        charge(_OF_FRAME + len(seen) * _OF_ITEM)
        heads = frozenset(head for head in by_head if not symbols.is_terminal(head))
        opened = ExpandedFrame(by_head, whole, symbols.prediction(heads), symbols)
        if symbols.hole in by_head:
            opened.holes = tuple([self._holes.index(hole) for _, hole in by_head[symbols.hole]])
        return opened

    def shift(self, frame: ParseFrame, terminal: int) -> ParseFrame:
        """Return the frame behind `terminal`, which may come next in `frame`."""
        found = frame.shifts.get(terminal)
        if found is None:
            tick()
            opened = self.opened(frame)
            rests = list(opened.by_head.get(terminal, ()))
            rests += [(tail, self._local(frame, name)) for tail, name in opened.prediction.behind(terminal)]
            charge(_OF_FRAME + len(rests))
            found = frame.shifts[terminal] = self.frame(rests)
        return found

    # --- behind nonterminals that begin here --------------------------------------------------------------------------

    def _local(self, frame: ParseFrame, name: int) -> ParseFrame:
        """Return the frame behind nonterminal `name`, where that begins in `frame`."""
        found = frame.locals.get(name)
        if found is None:
            opened = self.opened(frame)
            charge(_OF_FRAME)
            key = (name, self._wanting(opened, name))
            found = self._quick.get(key)
            if found is None:
                self._resolve(frame, opened, name)
                found = self._quick[key] = frame.locals[name]
            frame.locals[name] = found
        return found

    def _wanting(self, opened: ExpandedFrame, name: int) -> frozenset[tuple[int, Suffix, ParseFrame]]:
        """Return all that decides what follows `name`: rests that can begin with it, their first symbols included."""
        reach = self.symbols.reach
        heads = [head for head in opened.by_head if not self.symbols.is_terminal(head) and name in reach(head)]
        return frozenset((head, tail, follow) for head in heads for tail, follow in opened.by_head[head])

    def _resolve(self, frame: ParseFrame, opened: ExpandedFrame, name: int) -> None:
        """Make the frames behind `name` and behind the nonterminals it leads to that begin in `frame` as well."""
        found: dict[int, set[_LocalItem]] = {}
        pending = [name]
        while pending:
            local = pending.pop()
            if local not in found and local not in frame.locals:
                tick()
                found[local] = {*opened.by_head.get(local, ()), *opened.prediction.behind(local)}
                found[local].discard((0, local))
                pending += [follow for _, follow in found[local] if isinstance(follow, int)]
        names = list(found)
        place = {local: i for i, local in enumerate(names)}
        edges = [[place[f] for _, f in found[local] if isinstance(f, int) and f in place] for local in names]
        for component in components(edges):
            self._tie({names[i]: found[names[i]] for i in component}, frame)

    def _tie(self, contents: dict[int, set[_LocalItem]], frame: ParseFrame) -> None:
        """Make the frames of nonterminals that lead to each other; all others they lead to are made."""
        tick()
        known = frame.locals
        outer = {f for items in contents.values() for _, f in items if isinstance(f, int) and f not in contents}
        settled = {
            name: frozenset([(tail, known[f] if f in outer else f) for tail, f in items])
            for name, items in contents.items()
        }
        known.update(self._made(settled))

    def _made(self, settled: dict[int, frozenset[_LocalItem]]) -> dict[int, ParseFrame]:
        if len(settled) == 1:
            ((name, items),) = settled.items()
            if not any(follow == name for _, follow in items):
                return {name: self.frame(items)}  # type: ignore[arg-type]
        key: frozenset[object] = frozenset(settled.items())
        group = self._loops.get(key)
        if group is None:
            group = self._loops[key] = {name: self._new(frozenset()) for name in settled}
            for name, items in settled.items():
                group[name].items = frozenset([(tail, group[f] if isinstance(f, int) else f) for tail, f in items])
                self._known.setdefault(group[name].items, group[name])
                self.bytes_kept += _ITEM_BYTES * len(items)
        return group

    def names(self, frame: ParseFrame) -> list[str]:
        """Return the names of rules that are being read in `frame`, as far as they are known."""
        return list(dict.fromkeys(self.symbols.rule_of(suffix) for suffix, _ in sorted(frame.items, key=_by_tail)))

    # --- outlines -----------------------------------------------------------------------------------------------------

    def hole(self, number: int) -> ParseFrame:
        """Return a frame that stands for another, of which nothing is known."""
        while number >= len(self._holes):
            made = self._new(frozenset())
            made.items = frozenset([(self.symbols.suffix([self.symbols.hole]), made)])
            self._holes.append(made)
        return self._holes[number]

    def outline(self, frame: ParseFrame) -> FrameTemplate:
        """Return `frame` without what follows its rests: what can be read up to a hole is the same wherever such rests
        stand."""
        if frame.outline is None:
            frame.outline = self._outline(frame) if frame.items else FrameTemplate(frame, ())
        return frame.outline

    def _outline(self, frame: ParseFrame) -> FrameTemplate:
        behind: dict[ParseFrame, int] = {}
        row = tuple(
            [(tail, behind.setdefault(follow, len(behind))) for tail, follow in sorted(frame.items, key=_by_tail)]
        )
        found = self._outlined.get(row)
        if found is None:
            found = self._outlined[row] = self.frame([(tail, self.hole(number)) for tail, number in row])
        return FrameTemplate(found, tuple(behind))


def _by_tail(item: Item) -> tuple[Suffix, int]:
    return item[0], item[1].number
