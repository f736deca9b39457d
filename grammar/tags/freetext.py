"""Free text up to a literal, or without any, as automata after Aho and Corasick (1975)."""

from __future__ import annotations

from functools import lru_cache

from sluicegate.grammar.automata import ByteDfa, CharDfa, utf8
from sluicegate.grammar.automata.charsets import EVERY
from sluicegate.grammar.automata.tables.keyword_trie import keyword_trie
from sluicegate.grammar.automata.tables.table import Table, minimal
from sluicegate.grammar.budget.meter import Budget, WorkMeter
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.lexemes.first_of import FirstOf

_PLACE = "free text"
_LIMIT = Budget(max_states=20_000, max_seconds=5.0)


@lru_cache(maxsize=512)
def until(stop: str, others: tuple[str, ...], most: int | None = None) -> DfaLexeme:
    """Accept texts that end with `stop` and hold neither it nor one of `others` before, and at most `most`
    characters."""
    return DfaLexeme(utf8(_at_most(until_chars(stop, others), most, len(stop))), general=True, place=_PLACE)


@lru_cache(maxsize=128)
def first_of(stops: tuple[str, ...], others: tuple[str, ...]) -> FirstOf:
    """Accept texts that end with one of `stops`, and hold none of them nor of `others` before."""
    marked = utf8(_search((*stops, *others), stops))
    goals = [_after(marked, stop) for stop in stops]
    ends = frozenset(goals)
    segments = [() if state in ends else row for state, row in enumerate(marked.segments)]
    return FirstOf(ByteDfa(segments, [state in ends for state in range(len(segments))]), goals, _PLACE)


def _after(dfa: ByteDfa, text: str) -> int:
    state = dfa.start
    for byte in text.encode():
        state = dfa.step(state, byte)
    return state


@lru_cache(maxsize=512)
def without(stops: tuple[str, ...], most: int | None = None) -> DfaLexeme:
    """Accept texts of at most `most` characters that hold none of `stops`."""
    return DfaLexeme(utf8(_at_most(without_chars(stops), most)), general=True, place=_PLACE)


def _at_most(texts: CharDfa, most: int | None, more: int = 0) -> CharDfa:
    return texts if most is None else texts.intersection(CharDfa.length_between(0, most + more))


@lru_cache(maxsize=2_048)
def literal(text: str) -> DfaLexeme:
    return DfaLexeme(utf8(CharDfa.from_literal(text)), general=True)


def until_chars(stop: str, others: tuple[str, ...]) -> CharDfa:
    return _search((stop, *(other for other in others if other != stop)), (stop,))


def without_chars(stops: tuple[str, ...]) -> CharDfa:
    return _search(stops, ())


def _search(stops: tuple[str, ...], wanted: tuple[str, ...]) -> CharDfa:
    """Build the search automaton of `stops`; texts end where one of `wanted` is found, or, if there are none, anywhere
    without a stop. Behind each of several come characters of its own, so that none is taken for another."""
    trie = keyword_trie(stops)
    letters = sorted({char for stop in stops for char in stop})
    meter = WorkMeter(_LIMIT, "set of triggers and ends")
    dead = {state for state, end in enumerate(trie.ends) if end >= 0}
    goals = {state for state in dead if stops[trie.ends[state]] in wanted}
    rows: list[dict[int, int]] = []
    for state in range(len(trie.below)):
        meter.states()
        row = {number: trie.goto(state, letter) for number, letter in enumerate(letters)}
        row[len(letters)] = 0
        rows.append({} if state in dead else {c: t for c, t in row.items() if t not in dead or t in goals})
    accepting = [state in goals if wanted else state not in dead for state in range(len(rows))]
    if len(goals) > 1:
        _mark(rows, accepting, sorted(goals), meter)
    starts, classes = _alphabet([ord(letter) for letter in letters])
    return CharDfa(minimal(Table(starts, classes, rows, accepting), meter))


def _mark(rows: list[dict[int, int]], accepting: list[bool], goals: list[int], meter: WorkMeter) -> None:
    """Let each of `goals` lead to a text of its own: its number, in as many steps as it has bits."""
    bits = len(goals).bit_length()
    last = len(rows)
    rows.append({})
    accepting.append(True)
    for number, goal in enumerate(goals):
        state = goal
        accepting[goal] = False
        for bit in range(bits):
            meter.states()
            target = last if bit == bits - 1 else len(rows)
            rows[state] = {number >> bit & 1: target}
            if target != last:
                state = target
                rows.append({})
                accepting.append(False)


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
