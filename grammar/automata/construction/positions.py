"""Pattern tree -> position automaton (Glushkov, "The abstract theory of automata", 1961). No anchors, no lookaround.

Sets of positions are Python integers used as bit sets: union and intersection of a thousand positions cost one machine
loop, not a thousand steps of the interpreter.
"""

from __future__ import annotations

from sluicegate.grammar.automata.charsets import Ranges
from sluicegate.grammar.automata.patterns.syntax import Alt, Chars, Node, Repeat, Seq
from sluicegate.grammar.budget.meter import Meter

_Part = tuple[bool, int, int]  # nullable, first positions, last positions


class Positions:
    """`follow[p]`: positions that may come after position `p`; `sets[p]`: index of its set in `alphabet`."""

    __slots__ = ("_numbers", "alphabet", "first", "follow", "last", "meter", "nullable", "sets")

    def __init__(self, tree: Node, meter: Meter) -> None:
        self.meter = meter
        self.follow: list[int] = []
        self.sets: list[int] = []
        self.alphabet: list[Ranges] = []
        self._numbers: dict[Ranges, int] = {}
        self.nullable, self.first, self.last = self._build(tree)

    def _build(self, node: Node) -> _Part:
        if isinstance(node, Chars):
            return self._chars(node)
        if isinstance(node, Seq):
            return self._seq(node)
        if isinstance(node, Alt):
            return self._alt(node)
        assert isinstance(node, Repeat), f"{type(node).__name__} has no positions"
        return self._repeat(node)

    def _chars(self, node: Chars) -> _Part:
        self.meter.states()
        number = self._numbers.setdefault(node.ranges, len(self.alphabet))
        if number == len(self.alphabet):
            self.alphabet.append(node.ranges)
        bit = 1 << len(self.follow)
        self.follow.append(0)
        self.sets.append(number)
        return False, bit, bit

    def _seq(self, node: Seq) -> _Part:
        whole: _Part = (True, 0, 0)
        for item in node.items:
            whole = self._concat(whole, self._build(item))
        return whole

    def _alt(self, node: Alt) -> _Part:
        nullable, first, last = False, 0, 0
        for item in node.items:
            part = self._build(item)
            nullable |= part[0]
            first |= part[1]
            last |= part[2]
        return nullable, first, last

    def _repeat(self, node: Repeat) -> _Part:
        low, high = node.low, node.high
        whole: _Part = (True, 0, 0)
        for index in range(low):
            part = self._build(node.item)
            if part[0]:  # (x?){3,5} = x{0,5}: a nullable item makes all copies optional
                return self._optional_copies((True, 0, 0), part, node, high)
            if high is None and index == low - 1:
                self._link(part[2], part[1])
            whole = self._concat(whole, part)
        if low and high is None:
            return whole
        if high is None:
            part = self._build(node.item)
            self._link(part[2], part[1])
            return True, part[1], part[2]
        if high == low:
            return whole
        return self._optional_copies(whole, self._build(node.item), node, high - low)

    def _optional_copies(self, whole: _Part, part: _Part, node: Repeat, count: int | None) -> _Part:
        """`whole (x (x (x)?)?)?` with `count` copies: each may only follow the one before, so links stay few."""
        if count is None:
            self._link(part[2], part[1])
            return self._concat(whole, (True, part[1], part[2]))
        first = whole[1] | (part[1] if whole[0] else 0)
        last = whole[2] | part[2]
        self._link(whole[2], part[1])
        for _ in range(count - 1):
            following = self._build(node.item)
            self._link(part[2], following[1])
            last |= following[2]
            part = following
        return whole[0], first, last

    def _concat(self, left: _Part, right: _Part) -> _Part:
        self._link(left[2], right[1])
        return (
            left[0] and right[0],
            left[1] | right[1] if left[0] else left[1],
            left[2] | right[2] if right[0] else right[2],
        )

    def _link(self, ends: int, beginnings: int) -> None:
        follow = self.follow
        while ends:
            bit = ends & -ends
            follow[bit.bit_length() - 1] |= beginnings
            ends ^= bit
