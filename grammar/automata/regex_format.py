"""The automaton of the format `regex`: expressions of ECMA 262 without back references and names of groups.

Groups nest up to `DEPTH` deep. Not covered: what other notations read otherwise (`[^]`, `{` as a letter, control
letters), since whoever checks an answer may use one of them.
"""

from __future__ import annotations

from bisect import bisect_right

from sluicegate.grammar.automata.chardfa import CharDfa
from sluicegate.grammar.automata.tables.table import Table, minimal
from sluicegate.grammar.budget.meter import Budget, WorkMeter

DEPTH = 3
_BUDGET = Budget(max_states=100_000, max_seconds=20.0)
_CATEGORIES = "L[ultmo]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cfo]?"
_CODE = rf"x[0-9A-Fa-f]{{2}}|u[0-9A-Ca-c][0-9A-Fa-f]{{3}}|[pP]\{{({_CATEGORIES})\}}"
_ESCAPE = rf"\\([dDwWsSnrtfv.+*?()\[\]{{}}^$|\\/-]|{_CODE})"
_LETTERS = r"\u00a1-\u167f\u2010-\u2027\u2030-\u205e\u2070-\u2fff\u3001-\ud7ff\u{10000}-\u{1f9ff}"


def _ranges(letters: str) -> str:
    return "|".join(f"{low}-[{low}-{letters[-1]}]" for low in letters)


_RANGE = "|".join(map(_ranges, ("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789")))
_CLASS = rf"\[\^?-?([A-Za-z0-9_ .,:;@#%/+*?()${{}}<>=!'\"`|\t\n{_LETTERS}]|{_RANGE}|{_ESCAPE})+-?\]"
_ATOM = rf"([A-Za-z0-9_ @#%&=:;,<>~!'\"`/\t\n{_LETTERS}-]|{_ESCAPE}|\.|{_CLASS})"
_UNITS = "|".join(f"{low},[{low}-9]" for low in range(10))
_TENS = "|".join(f"{low}[0-9],[{low + 1}-9][0-9]|{low}0,{low}[0-9]" for low in range(1, 9))
_HUNDREDS = "|".join(f"{low}[0-9]{{2}},[{low + 1}-9][0-9]{{2}}|{low}00,{low}[0-9]{{2}}" for low in range(1, 9))
_COUNT = (
    rf"\{{([1-9][0-9]{{0,2}},?|0,|{_UNITS}|[0-9],[1-9][0-9]{{1,2}}|{_TENS}|[1-9][0-9],[1-9][0-9]{{2}}|{_HUNDREDS})\}}"
)
_FLAT = rf"({_ATOM}(([*+?]|{_COUNT})\??)?|\\[bB]|\^|\$|\|)*"
_MARKS = "()?:=!<"
_OPENINGS = (("", True), ("?:", True), ("?=", False), ("?!", False), ("?<=", False), ("?<!", False))
"""What may stand behind a parenthesis, and whether what it opens may be repeated."""


def regex_format() -> CharDfa:
    """Return the automaton of all such expressions."""
    flat = CharDfa.from_pattern(_FLAT, anchored=True, budget=_BUDGET)
    return CharDfa(minimal(_Nested(flat).table(), WorkMeter(_BUDGET, "format")))


class _Nested:
    """Copies of the automaton of expressions without groups, one for each row of groups that may be open."""

    def __init__(self, flat: CharDfa) -> None:
        self._flat = flat
        self._atom = flat.step(flat.start, "a")
        starts = sorted({*flat.table.starts, *(ord(mark) + more for mark in _MARKS for more in (0, 1))})
        self._starts = starts
        self._old = [flat.table.classes[bisect_right(flat.table.starts, start) - 1] for start in starts]
        self._class = {mark: starts.index(ord(mark)) for mark in _MARKS}
        self._rows: list[dict[int, int]] = []
        self._accepting: list[bool] = []

    def table(self) -> Table:
        self._copy(0, None)
        return Table(self._starts, list(range(len(self._starts))), self._rows, self._accepting)

    def _copy(self, depth: int, after: int | None) -> int:
        """Add the expressions at `depth`, which lead to the state `after` by a closing parenthesis; None: the whole.
        Return the first state."""
        flat, base = self._flat.table, len(self._rows)
        for row in flat.rows:
            self._rows.append({c: base + row[old] for c, old in enumerate(self._old) if old in row})
            self._accepting.append(after is None and flat.accepting[len(self._accepting) - base])
        for state, accepts in enumerate(flat.accepting):
            if accepts and after is not None:
                self._rows[base + state][self._class[")"]] = after
        if depth < DEPTH:
            opened = self._opened(base, depth)
            for state, accepts in enumerate(flat.accepting):
                if accepts:
                    self._rows[base + state][self._class["("]] = opened
        return base

    def _opened(self, base: int, depth: int) -> int:
        """Return the state behind a parenthesis that opens a group in the copy at `base`."""
        insides = {repeats: self._copy(depth + 1, base + (self._atom if repeats else 0)) for repeats in (True, False)}
        opened = self._state({})
        self._rows[opened] |= self._rows[insides[True]]
        self._accepting[opened] = False
        for marks, repeats in _OPENINGS[1:]:
            state = opened
            for mark in marks[:-1]:
                state = self._rows[state].setdefault(self._class[mark], len(self._rows))
                if state == len(self._rows):
                    self._state({})
            self._rows[state][self._class[marks[-1]]] = insides[repeats]
        return opened

    def _state(self, row: dict[int, int]) -> int:
        self._rows.append(row)
        self._accepting.append(False)
        return len(self._rows) - 1
