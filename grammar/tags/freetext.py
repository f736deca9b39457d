"""Free text up to a literal, or without any, as automata after Aho and Corasick (1975)."""

from __future__ import annotations

from collections import deque
from functools import lru_cache

from sluicegate.grammar.automata import CharDfa, utf8
from sluicegate.grammar.automata.charsets import EVERY
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
    trie, fail, found = _machine(stops)
    letters = sorted({ord(char) for stop in stops for char in stop})
    rows: list[dict[int, int]] = []
    accepting: list[bool] = []
    meter = WorkMeter(_LIMIT, "set of triggers and ends")
    dead = {state for state, stop in enumerate(found) if stop is not None}
    goals = {state for state in dead if found[state] == wanted}
    for state in range(len(trie)):
        meter.states()
        row = {len(letters): 0}
        for number, letter in enumerate(letters):
            row[number] = _goto(trie, fail, state, letter)
        rows.append({} if state in dead else {c: t for c, t in sorted(row.items()) if t not in dead or t in goals})
        accepting.append(state in goals if wanted is not None else state not in dead)
    starts, classes = _alphabet(letters)
    return CharDfa(minimal(Table(starts, classes, rows, accepting), meter))


def _machine(stops: tuple[str, ...]) -> tuple[list[dict[int, int]], list[int], list[str | None]]:
    """Return the trie, its failure links, and the stop that ends in each state."""
    trie: list[dict[int, int]] = [{}]
    found: list[str | None] = [None]
    for stop in stops:
        state = 0
        for char in stop:
            after = trie[state].get(ord(char))
            if after is None:
                after = trie[state][ord(char)] = len(trie)
                trie.append({})
                found.append(None)
            state = after
        found[state] = stop
    fail = [0] * len(trie)
    queue = deque(trie[0].values())
    while queue:
        state = queue.popleft()
        for letter, after in trie[state].items():
            fail[after] = _goto(trie, fail, fail[state], letter)
            found[after] = found[after] if found[after] is not None else found[fail[after]]
            queue.append(after)
    return trie, fail, found


def _goto(trie: list[dict[int, int]], fail: list[int], state: int, letter: int) -> int:
    while letter not in trie[state] and state:
        state = fail[state]
    return trie[state].get(letter, 0)


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
