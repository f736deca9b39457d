"""Compile finite sets of texts: a trie, minimised by one bottom-up pass."""

from __future__ import annotations

from collections.abc import Iterable

from sluicegate.grammar.automata.charsets import LAST
from sluicegate.grammar.automata.tables.table import Row, Table, canonical, empty_table
from sluicegate.grammar.budget.meter import Budget, WorkMeter
from sluicegate.plugins.errors import InvalidGrammar

_LIMIT = Budget(max_states=2_000_000, max_seconds=10.0)  # of trie nodes: 10,000 literals make about 1e5


def literal_table(texts: Iterable[str], budget: Budget = _LIMIT) -> Table:
    """Return the canonical table of exactly these texts. Raises `InvalidGrammar` for a lone surrogate."""
    listed = list(texts)
    characters = sorted(set().union(*listed))
    if any("\ud800" <= c <= "\udfff" for c in characters):
        raise InvalidGrammar("a literal holds a lone surrogate, which no JSON string can; remove it")
    if not listed:
        return empty_table()
    number = {c: n for n, c in enumerate(characters)}
    rows, accepting = _trie(listed, number, WorkMeter(budget, "set of literals"))
    starts, classes = _intervals([ord(c) for c in characters])
    return canonical(_shared(Table(starts, classes, rows, accepting)))


def _shared(trie: Table) -> Table:
    """Merge equal subtrees in one pass from the last node: a child has a higher number than its parent."""
    block = [0] * len(trie.rows)
    known: dict[tuple[object, ...], int] = {}
    rows: list[Row] = []
    accepting: list[bool] = []
    for state in range(len(trie.rows) - 1, -1, -1):
        row = {c: block[t] for c, t in trie.rows[state].items()}
        name = (trie.accepting[state], *row.items())
        found = block[state] = known.setdefault(name, len(rows))
        if found == len(rows):
            rows.append(row)
            accepting.append(trie.accepting[state])
    return Table(trie.starts, trie.classes, rows, accepting, block[0])


def _trie(texts: list[str], number: dict[str, int], meter: WorkMeter) -> tuple[list[Row], list[bool]]:
    """Build the trie of `texts`. They are sorted, so that the keys of every row are in ascending order."""
    rows: list[Row] = [{}]
    accepting = [False]
    for text in sorted(texts):
        state = 0
        for character in text:
            c = number[character]
            target = rows[state].get(c)
            if target is None:
                target = rows[state][c] = len(rows)
                meter.states()
                rows.append({})
                accepting.append(False)
            state = target
        accepting[state] = True
    return rows, accepting


def _intervals(code_points: list[int]) -> tuple[list[int], list[int]]:
    starts, classes = [0], [-1]
    for c, code_point in enumerate(code_points):
        if starts[-1] == code_point:
            classes[-1] = c
        else:
            starts.append(code_point)
            classes.append(c)
        if code_point < LAST:
            starts.append(code_point + 1)
            classes.append(-1)
    return starts, classes
