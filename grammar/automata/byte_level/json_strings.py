"""Turn automata over characters into automata over bytes: raw UTF-8, or the body of a JSON string.

A set of code points that leads to one state is cut into aligned blocks, 64 wide for UTF-8 and 16 wide for `\\u`
digits. A block that leads to one state as a whole shares one chain of nodes, however many there are, so `[^x]` costs
a few dozen nodes, not 65,536. Nodes with equal rows are one node (hash-consing, bottom up). Rows of nodes inside a
character begin with bytes that no row between characters has, so the result is minimal without a separate pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Literal

from sluicegate.grammar.automata.byte_level.bytedfa import ByteDfa, Segments, canonical_bytes, merged
from sluicegate.grammar.automata.chardfa import CharDfa
from sluicegate.grammar.automata.tables.algebra import ranges_of
from sluicegate.grammar.budget.meter import Budget, WorkMeter
from sluicegate.grammar.budget.remembered import remembered

_Spans = list[tuple[int, int, int]]  # (low, high, target node), sorted and disjoint
_SHORT = {0x22: '"', 0x5C: "\\", 0x2F: "/", 8: "b", 12: "f", 10: "n", 13: "r", 9: "t"}
_RAW_ASCII = ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7F))  # no control, no quote, no backslash
_WHOLE_ASCII = ((0, 0x7F),)
_BACKSLASH = 0x5C


STRING_BUDGET = Budget(max_states=60_000, max_seconds=2.0)  # a character in every spelling is about ten byte states
_FEW_STATES = 100
"""Up to which an automaton is kept by content: names, numbers and strings, which most grammars have alike."""

Way = Literal["raw", "every", "one"]
"""Spellings of characters: `raw` UTF-8; `every` spelling in a JSON string (raw, short escapes, `\\uXXXX` in any case,
surrogate pairs); or the `one` of `json.dumps(..., ensure_ascii=False)`, which takes about a tenth of the states."""
_Fragment = tuple[Segments, ...]
Spelling = Callable[[CharDfa], ByteDfa]
"""`utf8` or `string_body`."""


def utf8(dfa: CharDfa, *, budget: Budget = STRING_BUDGET) -> ByteDfa:
    """Accept the UTF-8 encodings of the texts of `dfa`. Raises `GrammarLimit`."""
    if dfa.state_count <= _FEW_STATES and budget is STRING_BUDGET:
        return _raw(dfa)
    return spelled(dfa, "raw", WorkMeter(budget, "UTF-8 automaton"))


@lru_cache(maxsize=512)
def _raw(dfa: CharDfa) -> ByteDfa:
    return spelled(dfa, "raw", WorkMeter(STRING_BUDGET, "UTF-8 automaton"))


def string_body(dfa: CharDfa, *, budget: Budget = STRING_BUDGET) -> ByteDfa:
    """Accept the texts of `dfa` as bodies of JSON strings without needless escapes, so that the body of a concatenation
    is the concatenation of the bodies. Raises `GrammarLimit`."""
    return spelled(dfa, "one", WorkMeter(budget, "automaton of JSON strings"))


def spelled(dfa: CharDfa, way: Way, meter: WorkMeter) -> ByteDfa:
    """Spell the texts of `dfa` in one way. Node k < n of the result is state k of `dfa`; later ones stand inside a
    character.

    States whose sets have the same shape differ only in where they lead: one fragment is made and filled in for each.
    """
    table = dfa.table
    meter.states(dfa.state_count)
    rows: list[Segments] = [()] * dfa.state_count
    known: dict[Segments, int] = {}
    fragments: dict[tuple[tuple[int, int], ...], _Fragment] = {}
    for state, row in enumerate(table.rows):
        labels = {target: label for label, target in enumerate(dict.fromkeys(row.values()))}
        shape = tuple([(c, labels[t]) for c, t in row.items()])
        found = fragments.get(shape)
        if found is None:
            spans = tuple((low, high, labels[t]) for low, high, t in ranges_of(table, state, 0x110000))
            found = fragments[shape] = fragment(way, spans, len(labels))
        rows[state] = _fill_in(found, list(labels), rows, known, meter)
    return canonical_bytes(rows, table.accepting + [False] * (len(rows) - dfa.state_count))


def _fill_in(
    fragment: _Fragment, places: list[int], rows: list[Segments], known: dict[Segments, int], meter: WorkMeter
) -> Segments:
    """Add the fragment's nodes, its exits leading to `places`; the last row belongs to the state itself."""
    for pattern in fragment[:-1]:
        row = tuple([(low, high, places[ref]) for low, high, ref in pattern])
        number = known.setdefault(row, len(rows))
        if number == len(rows):
            meter.states()
            rows.append(row)
        places.append(number)
    return tuple([(low, high, places[ref]) for low, high, ref in fragment[-1]])


@remembered(512)
def fragment(way: Way, spans: tuple[tuple[int, int, int], ...], exits: int) -> _Fragment:
    """Return the rows of the nodes inside one character, each after those it leads to; references below `exits` lead
    out."""
    builder = _FragmentBuilder(exits)
    segments = {"raw": builder.raw, "every": builder.every_spelling, "one": builder.one_spelling}[way](list(spans))
    own = merged(segments)
    return (*builder.rows[exits:], own)


class _FragmentBuilder:
    """Hash-conses the nodes of one fragment."""

    def __init__(self, exits: int) -> None:
        self.rows: list[Segments] = [()] * exits
        self.known: dict[Segments, int] = {}
        self.tails: dict[tuple[int, int], int] = {}
        self.digits: dict[tuple[int, int], int] = {}

    def node(self, segments: Iterable[tuple[int, int, int]]) -> int:
        row = merged(segments)
        found = self.known.get(row)
        if found is None:
            found = self.known[row] = len(self.rows)
            self.rows.append(row)
        return found

    # Spellings of one character

    def every_spelling(self, spans: _Spans) -> Iterator[tuple[int, int, int]]:
        yield from self.utf8(spans, _RAW_ASCII)
        if spans:
            yield _BACKSLASH, _BACKSLASH, self.escape(spans)

    def raw(self, spans: _Spans) -> Iterator[tuple[int, int, int]]:
        return self.utf8(spans, _WHOLE_ASCII)

    def one_spelling(self, spans: _Spans) -> Iterator[tuple[int, int, int]]:
        yield from self.utf8(spans, _RAW_ASCII)
        escaped = _clip(spans, 0, 0x1F) + _clip(spans, 0x22, 0x22) + _clip(spans, 0x5C, 0x5C)
        if escaped:
            yield _BACKSLASH, _BACKSLASH, self.canonical_escape(escaped)

    def utf8(self, spans: _Spans, ascii_part: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
        for low, high in ascii_part:
            yield from _clip(spans, low, high)
        for lead, low, high, depth in ((0xC0, 0x80, 0x7FF, 1), (0xE0, 0x800, 0xFFFF, 2), (0xF0, 0x10000, 0x10FFFF, 3)):
            part = _clip(spans, low, high)
            if part:
                yield from self.blocks(part, 0, 64**depth, lead, depth)

    def blocks(self, spans: _Spans, base: int, unit: int, lead: int, depth: int) -> Iterator[tuple[int, int, int]]:
        """Yield segments over the byte that selects a block of `unit` code points, `depth` bytes before the end."""
        for first, last, target, parts in _cut(spans, base, unit):
            if parts is None:
                yield lead + first, lead + last, self.uniform_tail(target, depth)
            else:
                inner = self.blocks(parts, base + first * unit, unit // 64, 0x80, depth - 1)
                yield lead + first, lead + first, self.node(inner)

    def uniform_tail(self, target: int, depth: int) -> int:
        """Return the node that reads any `depth` continuation bytes, then leads to `target`."""
        if depth == 0:
            return target
        found = self.tails.get((target, depth))
        if found is None:
            found = self.tails[target, depth] = self.node([(0x80, 0xBF, self.uniform_tail(target, depth - 1))])
        return found

    def escape(self, spans: _Spans) -> int:
        """Return the node that reads what follows a backslash."""
        segments = [(ord(letter), ord(letter), t) for c, letter in _SHORT.items() for _, _, t in _clip(spans, c, c)]
        segments.append((ord("u"), ord("u"), self.hexadecimal(self.code_units(spans), 0, 3)))
        return self.node(segments)

    def canonical_escape(self, spans: _Spans) -> int:
        segments = [(ord(letter), ord(letter), t) for c, letter in _SHORT.items() for _, _, t in _clip(spans, c, c)]
        numeric = [(c, c, t) for low, high, t in spans for c in range(low, high + 1) if c not in _SHORT]
        if numeric:
            segments.append((ord("u"), ord("u"), self.hexadecimal(numeric, 0, 3, lower_only=True)))
        return self.node(segments)

    def code_units(self, spans: _Spans) -> _Spans:
        """Return spans over 16-bit units: BMP characters lead home, high surrogates to the node that reads the low
        one."""
        units = _clip(spans, 0, 0xD7FF)
        beyond = _clip(spans, 0x10000, 0x10FFFF)
        for first, last, target, parts in _cut(beyond, 0x10000, 0x400):
            low_half = [(0, 0x3FF, target)] if parts is None else [(a & 0x3FF, b & 0x3FF, t) for a, b, t in parts]
            units.append((0xD800 + first, 0xD800 + last, self.low_surrogate(low_half)))
        return units + _clip(spans, 0xE000, 0xFFFF)

    def low_surrogate(self, spans: _Spans) -> int:
        digits = self.hexadecimal([(0xDC00 + low, 0xDC00 + high, t) for low, high, t in spans], 0, 3)
        after_backslash = self.node([(ord("u"), ord("u"), digits)])
        return self.node([(_BACKSLASH, _BACKSLASH, after_backslash)])

    def hexadecimal(self, spans: _Spans, base: int, left: int, lower_only: bool = False) -> int:
        """Return the node that reads one hexadecimal digit with `left` more to come."""
        unit = 16**left
        segments: list[tuple[int, int, int]] = []
        for first, last, target, parts in _cut(spans, base, unit):
            if parts is None:
                goal = self.uniform_digits(target, left)
            else:
                goal = self.hexadecimal(parts, base + first * unit, left - 1, lower_only)
            segments += _hex_bytes(first, last, goal, lower_only)
        return self.node(segments)

    def uniform_digits(self, target: int, left: int) -> int:
        """Return the node that reads any `left` hexadecimal digits, then leads to `target`."""
        if left == 0:
            return target
        found = self.digits.get((target, left))
        if found is None:
            found = self.node(_hex_bytes(0, 15, self.uniform_digits(target, left - 1), False))
            self.digits[target, left] = found
        return found


def _hex_bytes(first: int, last: int, target: int, lower_only: bool) -> _Spans:
    """Return the hexadecimal digits `first` to `last` as spans of bytes."""
    out = []
    if first < 10:
        out.append((0x30 + first, 0x30 + min(last, 9), target))
    if last >= 10:
        low = max(first, 10) - 10
        out.append((0x61 + low, 0x61 + last - 10, target))
        if not lower_only:
            out.append((0x41 + low, 0x41 + last - 10, target))
    return out


def _clip(spans: _Spans, low: int, high: int) -> _Spans:
    """Return the part of `spans` within `low`..`high`."""
    return [(max(a, low), min(b, high), t) for a, b, t in spans if a <= high and b >= low]


def _cut(spans: _Spans, base: int, unit: int) -> Iterator[tuple[int, int, int, _Spans | None]]:
    """Cut `spans` into blocks of `unit` from `base`. Yield `(first, last, target, None)` for a run of whole blocks with
    one target, `(block, block, -1, parts)` for a block that holds `parts`."""
    pending: _Spans = []
    block = -1
    for low, high, target in spans:
        while low <= high:
            index = (low - base) // unit
            end = base + (index + 1) * unit - 1
            if pending and index != block:
                yield block, block, -1, pending
                pending = []
            if low == base + index * unit and high >= end:
                last = (high + 1 - base) // unit - 1
                yield index, last, target, None
                low = base + (last + 1) * unit
            else:
                pending.append((low, min(high, end), target))
                block = index
                low = min(high, end) + 1
    if pending:
        yield block, block, -1, pending
