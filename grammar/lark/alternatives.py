"""Count the alternatives into which Lark expands a rule: every optional part doubles them.

    start: a? b? c?     ->  8 alternatives
    start: (a | b)~3    ->  8 alternatives

Checked before Lark reads the grammar: its loader would take hours, and all memory, for a line of thirty such parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sluicegate.plugins.errors import GrammarLimit

MOST_WAYS = 10_000
"""Of one rule; all rules together may have three times as many. Thirteen optional parts in a row make 8,192."""
_FAR = 10**9
_WHOLE = 50
"""Shorter repetitions are written out; longer ones are split into rules of some ten items."""
_SPLIT = 9
_TOKENS = re.compile(
    r"""(?P<skip> //[^\n]* | \#[^\n]*)
      | (?P<rule> ^[ \t]*[?!]*(?P<name>\w+)(?:\.-?\d+)?[ \t]*(?:\{[^}\n]*\})?[ \t]*:)
      | (?P<atom> "(?:\\.|[^"\\\n])*"i? (?:\s*\.\.\s*"(?:\\.|[^"\\\n])*"i?)?
          | /(?!/)(?:\\.|[^/\\])*/[imslux]* | \w+(?:\{[^}\n]*\})?)
      | (?P<directive> %\w+)
      | (?P<alias> ->\s*\w+)
      | (?P<repeat> ~\s*(?P<low>\d+)(?:\s*\.\.\s*(?P<high>\d+))?)
      | (?P<mark> [?*+|()\[\]])""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


def check_alternatives(text: str) -> None:
    """Raise `GrammarLimit`, with the rule and the number, for more alternatives than are read."""
    total = 0
    for name, line, ways in _ways(text):
        total += ways
        if ways > MOST_WAYS or total > 3 * MOST_WAYS:
            count = "more than a thousand million" if ways >= _FAR else f"{ways if ways > MOST_WAYS else total}"
            where = f"rule {name} makes" if ways > MOST_WAYS else f"the rules up to {name} make"
            raise GrammarLimit(
                f"line {line}: {where} {count} alternatives when all optional parts are written out; "
                f"{MOST_WAYS} of one rule and {3 * MOST_WAYS} of all are read: give optional parts (`x?`, `[x]`, "
                "`x~0..9`) rules of their own, or make them terminals"
            )


class _Counter:
    """Counts the alternatives of one rule: a stack of groups, each [ways of its alternatives so far, of this one]."""

    def __init__(self) -> None:
        self._groups = [[0, 1]]
        self._last = 1
        self._besides = 0
        """Alternatives of rules that Lark makes for what is repeated."""

    def atom(self) -> None:
        self._settle(1)

    def mark(self, mark: str) -> None:
        if mark == "|":
            self._settle(1)
            group = self._groups[-1]
            group[0], group[1] = min(group[0] + group[1], _FAR), 1
        elif mark in "([":
            self._settle(1)
            self._groups.append([0, 1])
        elif mark in ")]":
            self._close(mark == "]")
        elif mark == "?":
            self._last += 1
        else:
            self._besides = min(self._besides + 2 * self._last, _FAR)
            self._last = 2 if mark == "*" else 1

    def repeat(self, low: int, high: int) -> None:
        one = self._last
        if high >= _WHOLE:
            self._last = 3 * _SPLIT if one == 1 else min(one**_SPLIT, _FAR)
        else:
            self._last = min(sum(min(one**n, _FAR) for n in range(low, high + 1)), _FAR)

    def result(self) -> int:
        while len(self._groups) > 1:
            self._close(False)
        self._settle(1)
        done, now = self._groups[0]
        return min(done + now + self._besides, _FAR)

    def _settle(self, last: int) -> None:
        """Count the part read last in its alternative; the next has `last` ways."""
        self._groups[-1][1] = min(self._groups[-1][1] * self._last, _FAR)
        self._last = last

    def _close(self, optional: bool) -> None:
        self._settle(1)
        if len(self._groups) > 1:
            done, now = self._groups.pop()
            self._last = min(done + now + optional, _FAR)


def _ways(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the name of each rule, its first line, and how many alternatives it makes; terminals make none."""
    counter: _Counter | None = None
    name, line, at = "", 1, 0
    for token in _TOKENS.finditer(text):
        kind = token.lastgroup
        if token["rule"] is not None or token["directive"] is not None:
            if counter is not None:
                yield name, line, counter.result()
            line, at = line + text.count("\n", at, token.start()), token.start()
            name = token["name"] or ""
            counter = _Counter() if name and not name.lstrip("_").isupper() else None
        elif counter is None or kind in ("skip", "alias"):
            continue
        elif token["atom"] is not None:
            counter.atom()
        elif token["repeat"] is not None:
            counter.repeat(int(token["low"][:9]), int((token["high"] or token["low"])[:9]))
        elif token["mark"] is not None:
            counter.mark(token["mark"])
    if counter is not None:
        yield name, line, counter.result()
