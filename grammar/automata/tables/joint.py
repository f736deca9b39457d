"""Build one automaton of several languages that tells which of them contains a text."""

from __future__ import annotations

from collections.abc import Sequence

from sluicegate.grammar.automata.tables.table import Row, Table
from sluicegate.grammar.budget.meter import WorkMeter

_Places = tuple[tuple[int, int], ...]
"""(table, state) of each table that is not dead."""


def joint(tables: Sequence[Table], meter: WorkMeter) -> tuple[Table, list[int]]:
    """Return the table of the union of `tables`, which are disjoint, and for each of its states the number of the table
    whose texts end there, -1 if none do.

    The tables are trimmed, and so is the result. It is not minimal: states with the same continuations may differ in
    their number. Raises `GrammarLimit`.
    """
    starts, classes, symbols = _alphabet(tables)
    first: _Places = tuple((k, table.start) for k, table in enumerate(tables))
    number = {first: 0}
    queue = [first]
    rows: list[Row] = []
    for places in queue:
        row: Row = {}
        for c, by_table in enumerate(symbols):
            after = tuple([(k, t) for k, state in places if (t := tables[k].rows[state].get(by_table[k], -1)) >= 0])
            if not after:
                continue
            found = number.setdefault(after, len(queue))
            if found == len(queue):
                meter.states(1 + len(after) // 8)
                queue.append(after)
            row[c] = found
        rows.append(row)
    ends = [next((k for k, state in places if tables[k].accepting[state]), -1) for places in queue]
    return Table(starts, classes, rows, [end >= 0 for end in ends]), ends


def _alphabet(tables: Sequence[Table]) -> tuple[list[int], list[int], list[tuple[int, ...]]]:
    """Return the common refinement of the alphabets: interval starts, their classes, and for each class the classes of
    all tables."""
    starts = sorted({start for table in tables for start in table.starts})
    numbers: dict[tuple[int, ...], int] = {}
    classes = [numbers.setdefault(tuple([table.class_of(s) for table in tables]), len(numbers)) for s in starts]
    return starts, classes, list(numbers)
