"""Free text up to a literal, or without any, as automata after Aho and Corasick (1975)."""

from __future__ import annotations

from functools import lru_cache

from sluicegate.grammar.automata import CharDfa, utf8
from sluicegate.grammar.automata.charsets import EVERY
from sluicegate.grammar.automata.tables.keyword_trie import keyword_trie
from sluicegate.grammar.automata.tables.table import Table, minimal
from sluicegate.grammar.budget.meter import Budget, WorkMeter
from sluicegate.grammar.lexemes.base import DfaLexeme

_LIMIT = Budget(max_states=20_000, max_seconds=5.0)


@lru_cache(maxsize=512)
def until(stop: str, others: tuple[str, ...]) -> DfaLexeme:
    """Accept texts that end with `stop` and hold neither it nor one of `others` before."""
    return DfaLexeme(utf8(until_chars(stop, others)), general=True)


@lru_cache(maxsize=512)
def without(stops: tuple[str, ...]) -> DfaLexeme:
    """Accept texts that hold none of `stops`."""
    return DfaLexeme(utf8(without_chars(stops)), general=True)


@lru_cache(maxsize=2_048)
def literal(text: str) -> DfaLexeme:
    return DfaLexeme(utf8(CharDfa.from_literal(text)), general=True)


def until_chars(stop: str, others: tuple[str, ...]) -> CharDfa:
    return _search((stop, *(other for other in others if other != stop)), stop)


def without_chars(stops: tuple[str, ...]) -> CharDfa:
    return _search(stops, None)


def _search(stops: tuple[str, ...], wanted: str | None) -> CharDfa:
    """Build the search automaton of `stops`; texts end where `wanted` is found, or, if None, anywhere without a
    stop."""
    trie = keyword_trie(stops)
    letters = sorted({char for stop in stops for char in stop})
    meter = WorkMeter(_LIMIT, "set of triggers and ends")
    dead = {state for state, end in enumerate(trie.ends) if end >= 0}
    goals = {state for state in dead if stops[trie.ends[state]] == wanted}
    rows: list[dict[int, int]] = []
    for state in range(len(trie.below)):
        meter.states()
        row = {number: trie.goto(state, letter) for number, letter in enumerate(letters)}
        row[len(letters)] = 0
        rows.append({} if state in dead else {c: t for c, t in row.items() if t not in dead or t in goals})
    accepting = [state in goals if wanted is not None else state not in dead for state in range(len(rows))]
    starts, classes = _alphabet([ord(letter) for letter in letters])
    return CharDfa(minimal(Table(starts, classes, rows, accepting), meter))


def _alphabet(letters: list[int]) -> tuple[list[int], list[int]]:
    """Return interval starts and classes: one for each letter, one for all other characters; surrogates are dead."""
    other = len(letters)
    cuts = {0: other}
    for (low, high), (after, _) in zip(EVERY, [*EVERY[1:], (0x110000, 0)], strict=True):
        cuts[low] = other
        if high + 1 < after:
            cuts[high + 1] = -1
    for number, letter in enumerate(letters):
        cuts[letter] = number
    for letter in letters:
        cuts.setdefault(letter + 1, -1 if letter == 0xD7FF else other)
    starts = sorted(cut for cut in cuts if cut < 0x110000)
    return starts, [cuts[start] for start in starts]
