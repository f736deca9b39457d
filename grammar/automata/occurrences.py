"""Build automata of texts that hold none of some literals, or one at their end, after Aho and Corasick (1975)."""

from __future__ import annotations

from sluicegate.grammar.automata.chardfa import CharDfa
from sluicegate.grammar.automata.charsets import EVERY
from sluicegate.grammar.automata.tables.keyword_trie import keyword_trie
from sluicegate.grammar.automata.tables.table import Table, minimal
from sluicegate.grammar.budget.meter import Budget, WorkMeter

_LIMIT = Budget(max_states=20_000, max_seconds=5.0)


def until(stop: str, others: tuple[str, ...]) -> CharDfa:
    """Accept texts that end with `stop` and hold neither it nor one of `others` before."""
    return search((stop, *(other for other in others if other != stop)), (stop,))


def without(stops: tuple[str, ...]) -> CharDfa:
    """Accept texts that hold none of `stops`."""
    return search(stops, ())


def search(stops: tuple[str, ...], wanted: tuple[str, ...]) -> CharDfa:
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


def needed(excludes: tuple[str, ...], stops: tuple[str, ...]) -> list[str]:
    """Return those of `excludes` that hold neither one of `stops`, where the text ends, nor a shorter one of them."""
    shorter = {*excludes, *stops}
    return [
        text
        for text in dict.fromkeys(excludes)
        if text not in stops and not any(other != text and other in text for other in shorter)
    ]
