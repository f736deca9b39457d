"""Make position automata deterministic by the subset construction (Rabin and Scott, 1959)."""

from __future__ import annotations

from sluicegate.grammar.automata.charsets import Ranges, intersect, partition
from sluicegate.grammar.automata.construction.positions import Positions
from sluicegate.grammar.automata.patterns.syntax import Node
from sluicegate.grammar.automata.tables.table import Row, Table, minimal
from sluicegate.grammar.budget.meter import WorkMeter

_SMALL = 4_000
"""Positions up to which states, of one bit for each, are small."""


def compile_tree(tree: Node, meter: WorkMeter, anchored: bool = False) -> Table:
    """Return the canonical table of a tree without lookaround; `anchored`: with anchors."""
    table = minimal(_determinise(Positions(tree, meter, anchored), meter), meter)
    meter.result(len(table.rows))
    return table


def _determinise(nfa: Positions, meter: WorkMeter) -> Table:
    """Make a state of what may come next and whether the text may end: fewer than sets of positions."""
    starts, classes, members = partition(nfa.alphabet)
    by_class = _positions_by_class(nfa, members)
    dominators = _dominators(nfa)
    follow, last = nfa.follow, nfa.last
    meter.renew(wide=len(nfa.sets) <= _SMALL)
    first = _undominated(nfa.first, dominators)
    number: dict[tuple[int, bool], int] = {(first, nfa.nullable): 0}
    queue = [first]
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
                key = (_undominated(_successors(here, follow), dominators), bool(here & last))
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


def _dominators(nfa: Positions) -> list[tuple[int, int]]:
    """Return pairs of a position and the complement of those that add nothing beside it.

    A position that may repeat and may be last, such as the `.*` behind a search, accepts every text over its set, so
    positions from which only characters of that set can be read are superfluous beside it. This keeps counted
    repetitions and unanchored alternatives from making many equivalent states.
    """
    sets = {n for p, n in enumerate(nfa.sets) if nfa.follow[p] & nfa.last & (1 << p)}
    harmless = {n: _positions_within(nfa, nfa.alphabet[n]) for n in sets}
    out = []
    for position, number in enumerate(nfa.sets):
        bit = 1 << position
        if nfa.follow[position] & nfa.last & bit:
            out.append((bit, ~(harmless[number] & ~bit)))
    return out


def _positions_within(nfa: Positions, ranges: Ranges) -> int:
    """Return the positions from which nothing outside `ranges` can be read."""
    within = [intersect(other, ranges) == other for other in nfa.alphabet]
    good = 0
    for position, number in enumerate(nfa.sets):
        if within[number]:
            good |= 1 << position
    changed = True
    while changed:
        changed = False
        for position in range(len(nfa.sets) - 1, -1, -1):
            if good >> position & 1 and nfa.follow[position] & ~good:
                good &= ~(1 << position)
                changed = True
    return good


def _undominated(ahead: int, dominators: list[tuple[int, int]]) -> int:
    for bit, keep in dominators:
        if ahead & bit:
            ahead &= keep
    return ahead


def _successors(here: int, follow: list[int]) -> int:
    ahead = 0
    while here:
        bit = here & -here
        ahead |= follow[bit.bit_length() - 1]
        here ^= bit
    return ahead
