"""Count the numbers of an automaton whose spellings begin alike, as far as is needed to see that more are there than
were given.

A number has one canonical spelling: without exponent, without zeros at the end behind the point, and 0 without a sign.
Others go on from one with a point, or with zeros behind it.
"""

from __future__ import annotations

from sluicegate.grammar.automata import ByteDfa
from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.given.texts import KnownCounts, beginning_with

_BYTES = {byte: chr(byte) for byte in b"-.0123456789"}
_START, _SIGN, _WHOLE, _MINUS_ZERO, _ZERO_BEHIND, _DIGIT_BEHIND = range(6)
_CANONICAL = (_WHOLE, _DIGIT_BEHIND)
"""After these states, what was read is the canonical spelling of a number."""
_FAR = 200
_OF_STATE = 3


class NumberSupply:
    """The numbers of `dfa`, whose spellings have no exponents. Remembers answers."""

    def __init__(self, dfa: ByteDfa) -> None:
        self.dfa = dfa
        self._rows: dict[int, list[tuple[str, int]]] = {}
        self._known = KnownCounts()

    def has(self, text: str) -> bool:
        state = self._behind(text)
        return state >= 0 and bool(self.dfa.accepting[state])

    def used_up(self, text: str, given: list[str]) -> list[str]:
        found = [self._first(text, given)]
        if text == "0":
            found.append(self._first("-0", given))
        return [beginning for beginning in found if beginning is not None]

    def _first(self, text: str, given: list[str]) -> str | None:
        """Return the shortest beginning of `text` (or of it with zeros after the point) whose numbers are all `given`;
        None if there is none."""
        state, kind, seen = 0, _START, set()
        spelled = text if "." in text else text + "."
        for size in range(_FAR):
            begun = spelled[:size] if size <= len(spelled) else spelled + "0" * (size - len(spelled))
            if self._is_used_up(begun, state, kind, given):
                return begun
            if size > len(spelled) and (state, kind) in seen:
                return None
            seen.add((state, kind))
            byte = spelled[size] if size < len(spelled) else "0"
            kind = _after(kind, byte)
            state = dict(self._moves(state)).get(byte, -1)
            if state < 0:
                return None
        return None

    def _is_used_up(self, begun: str, state: int, kind: int, given: list[str]) -> bool:
        other = _other(begun, kind)
        if other is not None and not _holds(given, other) and self._becomes(state):
            return False
        low, high = beginning_with(given, begun)
        return not self._has_more(state, kind, high - low)

    def _becomes(self, state: int) -> bool:
        """Return whether zeros lead to an end."""
        for _ in range(3):
            if state >= 0 and self.dfa.accepting[state]:
                return True
            state = dict(self._moves(state)).get("0", -1) if state >= 0 else -1
        return False

    def _has_more(self, state: int, kind: int, count: int) -> bool:
        """Return whether more than `count` canonical spellings continue from this state."""
        return self._known.more((state, kind), count, lambda most: self._look(state, kind, most))

    def _look(self, state: int, kind: int, count: int) -> bool:
        ways, found = {(state, kind): 1}, 0
        for _ in range(_FAR):
            more = sum(many for (at, kind), many in ways.items() if kind in _CANONICAL and self.dfa.accepting[at])
            found += more
            if found > count:
                return True
            after: dict[tuple[int, int], int] = {}
            for (at, kind), many in ways.items():
                charge(_OF_STATE)
                for byte, target in self._moves(at):
                    key = target, _after(kind, byte)
                    after[key] = min(after.get(key, 0) + many, count + 1)
            if not after or (after == ways and not more):
                return False
            ways = after
        return True

    def _behind(self, text: str) -> int:
        state = 0
        for byte in text:
            state = dict(self._moves(state)).get(byte, -1)
            if state < 0:
                break
        return state

    def _moves(self, state: int) -> list[tuple[str, int]]:
        found = self._rows.get(state)
        if found is None:
            found = self._rows[state] = [
                (_BYTES[byte], target)
                for first, last, target in self.dfa.segments[state]
                for byte in range(first, last + 1)
                if byte in _BYTES
            ]
        return found


def _holds(given: list[str], text: str) -> bool:
    low, _ = beginning_with(given, text)
    return low < len(given) and given[low] == text


def _after(kind: int, byte: str) -> int:
    if byte == "-":
        return _SIGN
    if byte == ".":
        return _ZERO_BEHIND
    if kind in (_ZERO_BEHIND, _DIGIT_BEHIND):
        return _ZERO_BEHIND if byte == "0" else _DIGIT_BEHIND
    return _MINUS_ZERO if kind == _SIGN and byte == "0" else _WHOLE


def _other(begun: str, kind: int) -> str | None:
    """Return the canonical spelling of the number that `begun` becomes with zeros alone, where it does not begin
    so."""
    if kind in (_SIGN, _MINUS_ZERO):
        return "0"
    if kind != _ZERO_BEHIND:
        return None
    bare = begun.rstrip("0").rstrip(".") if "." in begun else begun
    return "0" if bare in ("-0", "") else bare
