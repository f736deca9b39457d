"""Position automaton -> deterministic table, by the subset construction (Rabin and Scott, 1959)."""

from __future__ import annotations

from grammar.automata.budget import Meter
from grammar.automata.charsets import EVERY, partition
from grammar.automata.positions import Positions
from grammar.automata.syntax import Node
from grammar.automata.table import Row, Table, minimal


def compile_tree(tree: Node, meter: Meter) -> Table:
    """The canonical table of a tree without anchors and lookaround."""
    return minimal(_determinise(Positions(tree, meter), meter), meter)


def _determinise(nfa: Positions, meter: Meter) -> Table:
    """A state is what may come next plus whether the text may end: fewer states than sets of positions."""
    starts, classes, members = partition(nfa.alphabet)
    by_class = _positions_by_class(nfa, members)
    absorbing = _absorbing(nfa)
    follow, last = nfa.follow, nfa.last
    meter.renew()
    number: dict[tuple[int, bool], int] = {(nfa.first, nfa.nullable): 0}
    queue = [nfa.first]
    accepting = [nfa.nullable]
    seen: dict[int, int] = {}
    rows: list[Row] = []
    for ahead in queue:
        row: Row = {}
        for c, positions in by_class:
            here = ahead & positions
            if not here:
                continue
            target = seen.get(here)
            if target is None:
                if here & absorbing:
                    key = (absorbing, True)
                else:
                    key = (_successors(here, follow), bool(here & last))
                target = number.setdefault(key, len(queue))
                if target == len(queue):
                    meter.states()
                    queue.append(key[0])
                    accepting.append(key[1])
                seen[here] = target
            row[c] = target
        rows.append(row)
    return Table(starts, classes, rows, accepting)


def _positions_by_class(nfa: Positions, members: list[int]) -> list[tuple[int, int]]:
    by_set = [0] * len(nfa.alphabet)
    for position, number in enumerate(nfa.sets):
        by_set[number] |= 1 << position
    out = []
    for c, sets in enumerate(members):
        positions = 0
        for number, mask in enumerate(by_set):
            if sets >> number & 1:
                positions |= mask
        out.append((c, positions))
    return out


def _absorbing(nfa: Positions) -> int:
    """Positions that accept whatever follows, such as the `.*` behind a search: nothing else matters once there.

    One bit at most, so that it can stand for the state it makes.
    """
    for position, number in enumerate(nfa.sets):
        bit = 1 << position
        if nfa.alphabet[number] == EVERY and nfa.follow[position] & bit and nfa.last & bit:
            return bit
    return 0


def _successors(here: int, follow: list[int]) -> int:
    ahead = 0
    while here:
        bit = here & -here
        ahead |= follow[bit.bit_length() - 1]
        here ^= bit
    return ahead
