"""Compile `%regex {"substring_chunks": ...}`, which matches any run of neighbours in a list of texts, joined."""

from __future__ import annotations

import re

from sluicegate.grammar.automata import CharDfa
from sluicegate.grammar.automata.tables.table import Table, minimal
from sluicegate.grammar.budget.meter import Budget, WorkMeter

_BUDGET = Budget(max_states=100_000, max_seconds=2.0)
_WORD = re.compile(r"\w+|\W")
Place = tuple[int, int]
"""(chunk, character of it) that comes next."""


def words_of(text: str) -> list[str]:
    """Split `text` into words and single other characters."""
    return _WORD.findall(text)


def substrings(chunks: list[str]) -> CharDfa:
    """Accept `chunks[n:m]` joined, for all n <= m. Raises `GrammarLimit`."""
    whole = [chunk for chunk in chunks if chunk]
    letters = sorted({letter for chunk in whole for letter in chunk})
    number = {letter: n for n, letter in enumerate(letters)}
    meter = WorkMeter(_BUDGET, "substring")
    first = frozenset((k, 0) for k in range(len(whole) + 1))
    states = {first: 0}
    rows: list[dict[int, int]] = []
    for state in (pending := [first]):
        meter.states()
        row: dict[int, int] = {}
        for letter, places in sorted(_steps(state, whole).items()):
            after = frozenset(places)
            if after not in states:
                states[after] = len(states)
                pending.append(after)
            row[number[letter]] = states[after]
        rows.append(row)
    accepting = [any(not at for _, at in state) for state in pending]
    starts, classes = _alphabet(letters)
    return CharDfa(minimal(Table(starts, classes, rows, accepting), meter))


def _steps(state: frozenset[Place], chunks: list[str]) -> dict[str, list[Place]]:
    found: dict[str, list[Place]] = {}
    for chunk, at in state:
        if chunk < len(chunks):
            after = (chunk, at + 1) if at + 1 < len(chunks[chunk]) else (chunk + 1, 0)
            found.setdefault(chunks[chunk][at], []).append(after)
    return found


def _alphabet(letters: list[str]) -> tuple[list[int], list[int]]:
    """Return interval starts and classes: one for each letter, all other characters dead."""
    cuts = {0: -1}
    for letter in letters:
        cuts.setdefault(ord(letter) + 1, -1)
    cuts.update({ord(letter): n for n, letter in enumerate(letters)})
    starts = sorted(cuts)
    return starts, [cuts[start] for start in starts]
