"""Glushkov's position automaton ("The abstract theory of automata", 1961), with `^`, `$`, `\\b` and `\\B` anywhere.

An anchor depends on two neighbours: the one before (the text's beginning, a word character, another character) and the
one after (the end, a word character, another character). So a condition is a bit mask over nine pairs. First and last
positions carry such masks; two positions are linked if the mask between them allows their kinds. Every position is
split into its word characters and its other ones, so that it has one kind.

Sets of positions are integers used as bit sets: the union of a thousand positions is one machine loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from sluicegate.grammar.automata.charsets import Ranges, intersect, negate
from sluicegate.grammar.automata.patterns.syntax import (
    Alt,
    Chars,
    EndAnchor,
    Node,
    Repeat,
    Seq,
    StartAnchor,
    WordBoundary,
)
from sluicegate.grammar.budget.meter import WorkMeter
from sluicegate.plugins.errors import UnsupportedGrammar

_OUTSIDE, _WORD, _OTHER = 0, 1, 2  # kinds of neighbours; outside = before the first or after the last character
_ALWAYS = 0b111_111_111  # bit 3 * before + after
_AT_BEGIN = 0b000_000_111
_AT_END = 0b001_001_001
_AT_EDGE = 0b010_101_010  # one of the two is a word character

_Masked = dict[int, int]  # condition -> positions


@dataclass(slots=True)
class _Part:
    """`empty`: under which condition the part may match nothing. `first`, `last`: positions at its borders, by the
    condition on the place just before, just after them."""

    empty: int
    first: _Masked
    last: _Masked


class Positions:
    """`follow[p]`: positions that may come after position `p`; `sets[p]`: index of its set in `alphabet`."""

    __slots__ = ("_kinds", "_meter", "_numbers", "_word", "alphabet", "first", "follow", "last", "nullable", "sets")

    def __init__(self, tree: Node, meter: WorkMeter, anchored: bool = True) -> None:
        """Build the automaton of `tree`. `anchored`: `tree` may have anchors."""
        self._meter = meter
        self._word = _word_set(tree) if anchored else None
        self._numbers: dict[Ranges, int] = {}
        self._kinds = [0, 0, 0]  # positions of each kind
        self.follow: list[int] = []
        self.sets: list[int] = []
        self.alphabet: list[Ranges] = []
        whole = self._build(tree)
        self.nullable = bool(whole.empty & 1)
        self.first = self.last = 0
        for kind in (_WORD, _OTHER):
            for mask, positions in whole.first.items():
                if mask >> kind & 1:
                    self.first |= positions & self._kinds[kind]
            for mask, positions in whole.last.items():
                if mask >> 3 * kind & 1:
                    self.last |= positions & self._kinds[kind]

    def _build(self, node: Node) -> _Part:
        if isinstance(node, Chars):
            return self._chars(node)
        if isinstance(node, Seq):
            whole = _Part(_ALWAYS, {}, {})
            for item in node.items:
                whole = self._concat(whole, self._build(item))
            return whole
        if isinstance(node, Alt):
            return _either([self._build(item) for item in node.items])
        if isinstance(node, Repeat):
            return self._repeat(node)
        if isinstance(node, StartAnchor):
            return _Part(_AT_BEGIN, {}, {})
        if isinstance(node, EndAnchor):
            return _Part(_AT_END, {}, {})
        assert isinstance(node, WordBoundary), f"{type(node).__name__} has no positions"
        return _Part(_ALWAYS ^ _AT_EDGE if node.negative else _AT_EDGE, {}, {})

    def _chars(self, node: Chars) -> _Part:
        positions = 0
        for kind, ranges in [(_OTHER, node.ranges)] if self._word is None else _halves(node.ranges, self._word):
            self._meter.states()
            bit = 1 << len(self.follow)
            number = self._numbers.setdefault(ranges, len(self.alphabet))
            if number == len(self.alphabet):
                self.alphabet.append(ranges)
            self.follow.append(0)
            self.sets.append(number)
            self._kinds[kind] |= bit
            positions |= bit
        return _Part(0, {_ALWAYS: positions}, {_ALWAYS: positions})

    def _concat(self, left: _Part, right: _Part) -> _Part:
        self._link(left.last, right.first)
        first, last = left.first, right.last
        if left.empty:
            first = _merge(first, _under(right.first, left.empty))
        if right.empty:
            last = _merge(last, _under(left.last, right.empty))
        return _Part(left.empty & right.empty, first, last)

    def _repeat(self, node: Repeat) -> _Part:
        """Build copies from the far end, as `x x x+` or `x x (x (x)?)?`, so that links stay few."""
        low = node.low
        count = max(low, 1) if node.high is None else node.high
        tail = _Part(_ALWAYS, {}, {})
        for index in range(count):
            part = self._build(node.item)
            if part.empty == _ALWAYS:  # (x?){3,5} is x{0,5}
                low = part.empty = 0
            if node.high is None and index == 0:
                self._link(part.last, part.first)
            tail = self._concat(part, tail)
            if index < count - low:
                tail.empty = _ALWAYS
        return tail

    def _link(self, ends: _Masked, beginnings: _Masked) -> None:
        for before_mask, before in ends.items():
            for after_mask, after in beginnings.items():
                mask = before_mask & after_mask
                if mask == _ALWAYS:
                    self._follow_from(before, after)
                    continue
                for kind in (_WORD, _OTHER):
                    allowed = 0
                    if mask >> 3 * kind + _WORD & 1:
                        allowed |= after & self._kinds[_WORD]
                    if mask >> 3 * kind + _OTHER & 1:
                        allowed |= after & self._kinds[_OTHER]
                    self._follow_from(before & self._kinds[kind], allowed)

    def _follow_from(self, ends: int, beginnings: int) -> None:
        while ends and beginnings:
            bit = ends & -ends
            self.follow[bit.bit_length() - 1] |= beginnings
            ends ^= bit


def _halves(ranges: Ranges, word: Ranges) -> list[tuple[int, Ranges]]:
    """Return the word characters and the others of a set, where there are some."""
    halves = ((_WORD, intersect(ranges, word)), (_OTHER, intersect(ranges, negate(word))))
    return [(kind, half) for kind, half in halves if half]


def _either(parts: list[_Part]) -> _Part:
    whole = _Part(0, {}, {})
    for part in parts:
        whole = _Part(whole.empty | part.empty, _merge(whole.first, part.first), _merge(whole.last, part.last))
    return whole


def _under(masked: _Masked, condition: int) -> _Masked:
    """Return the same positions with `condition` required as well."""
    if condition == _ALWAYS:
        return masked
    out: _Masked = {}
    for mask, positions in masked.items():
        if mask & condition:
            out[mask & condition] = out.get(mask & condition, 0) | positions
    return out


def _merge(left: _Masked, right: _Masked) -> _Masked:
    if not (left and right):
        return left or right
    out = dict(left)
    for mask, positions in right.items():
        out[mask] = out.get(mask, 0) | positions
    return out


def _word_set(tree: Node) -> Ranges | None:
    """Return the set that `\\b` asks about, None if there is no `\\b`. Raises `UnsupportedGrammar` where there are
    several."""
    found = {edge.word: edge for edge in _edges(tree)}
    if len(found) > 1:
        position = max(edge.position for edge in found.values())
        raise UnsupportedGrammar(f"pattern: not supported: \\b under changing flags (position {position})")
    return next(iter(found), None)


def _edges(node: Node) -> list[WordBoundary]:
    if isinstance(node, WordBoundary):
        return [node]
    if isinstance(node, (Seq, Alt)):
        return [edge for item in node.items for edge in _edges(item)]
    return _edges(node.item) if isinstance(node, Repeat) else []
