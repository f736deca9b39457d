"""The slow, obvious twin of the scanner: every thread apart, with its own start, and nothing dropped.

For texts whose characters fold to one symbol each.
"""

from __future__ import annotations

from sluicegate.safety import Automaton
from sluicegate.safety.matching.automaton import _context, _may_follow, _may_precede


def find_all(automaton: Automaton, text: str) -> list[tuple[int, int]]:
    """Return the union of all matches, as spans."""
    nfa = automaton._nfa
    symbols = [automaton.fold(char) for char in text]
    assert all(len(symbol) == 1 for symbol in symbols)
    threads: set[tuple[int, int]] = set()  # position, start
    spans: set[tuple[int, int]] = set()
    excluded: set[tuple[int, int]] = set()
    context = "edge"
    for at, symbol in enumerate([*symbols, ""]):
        for q, start in threads:
            for accept in nfa.positions[q].accepts:
                end = at - accept.back
                valid = nfa.rules[accept.rule].valid
                if _may_follow(accept.right, symbol) and (valid is None or valid("".join(symbols[start:end]))):
                    (excluded if nfa.rules[accept.rule].excludes else spans).add((start, end))
        if not symbol:
            break
        begun = {(q, at) for e in nfa.entries if _may_precede(e.left, context) for q in nfa.closure(e.position)}
        moved: set[tuple[int, int]] = set()
        for q, start in threads | begun:
            slide = nfa.positions[q].slide
            first = start if slide is None else max(start, at - slide)
            position = nfa.positions[q]
            targets = [*position.chars.get(symbol, ()), *(t for chars, t in position.sets if symbol in chars)]
            moved |= {(r, first) for target in targets for r in nfa.closure(target)}
        threads, context = moved, _context(context, symbol)
    return _union(spans - excluded)


def _union(spans: set[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined
