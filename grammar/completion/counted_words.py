"""Find short strings of bounded length from a state of their lexeme, by the lengths of words instead of by search."""

from __future__ import annotations

from typing import NamedTuple

from sluicegate.grammar.automata import CharDfa
from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.budget.remembered import remembered
from sluicegate.grammar.lexemes.base import QUOTE
from sluicegate.grammar.lexemes.counted import Counted
from sluicegate.grammar.lexemes.length_bounds import CountedState, LengthBounds
from sluicegate.grammar.lexemes.literals import plain

FEW = 4
"""Words offered from one state: a guard may refuse the first."""
_MOST_LETTERS = 100_000
"""Maximum length of strings of any letters."""
_MOST_CHARACTERS = 2_000
"""Maximum characters of a pattern's string that are searched one by one."""
_READABLE = [QUOTE, *b"a0 -1.", *range(0x62, 0x7B), *range(0x41, 0x5B), *range(0x31, 0x3A), *range(0x20, 0x7F)]
RANK = {byte: rank for rank, byte in reversed(list(enumerate([*_READABLE, *range(256)])))}


class Word(NamedTuple):
    text: bytes
    outcome: int


def of_counted(lexeme: Counted, state: CountedState) -> list[Word]:
    """Return the shortest strings; none if even these are very long."""
    if state.size < 0:
        return [Word(b"", 0)]
    if state.char != lexeme.every.start:
        return _completed(lexeme, state)
    if lexeme.bounds is None:
        return _padded(lexeme, state)
    return _of_pattern(lexeme, lexeme.bounds, state)


def _completed(lexeme: Counted, state: CountedState) -> list[Word]:
    """Complete the unfinished character by the first byte that fits."""
    for byte in sorted(lexeme.next_bytes(state), key=RANK.__getitem__):
        tick()
        after = lexeme.next(state, byte)
        if after is not None:
            return [Word(bytes([byte]) + word.text, word.outcome) for word in of_counted(lexeme, after)]
    return []


def _padded(lexeme: Counted, state: CountedState) -> list[Word]:
    """Return strings of letters of the least length."""
    missing = max(lexeme.low - state.size, 0)
    if missing > _MOST_LETTERS:
        return []
    most = missing + 1 if lexeme.high is None else min(missing + 1, lexeme.high - state.size)
    pads = [b"a" * missing, *([letter * most for letter in (b"a", b"b", b"c")] if most > missing else [])]
    pads += [b"b" * missing, b"c" * missing] if missing else []
    return [Word(pad + b'"', 0) for pad in pads]


def _of_pattern(lexeme: Counted, bounds: LengthBounds, state: CountedState) -> list[Word]:
    """Return the shortest strings of the pattern that are long enough, and some of the next length if these are few.
    Strings of one length differ in their first character."""
    high = None if lexeme.high is None else lexeme.high - state.size
    size = bounds.lengths.shortest(state.inner, max(lexeme.low - state.size, 0), high)
    found: list[Word] = []
    while size is not None and size <= _MOST_LETTERS and len(found) < FEW:
        firsts = _letters(bounds, state.inner, size)[: FEW - len(found)] if size else [("", state.inner)]
        rests = [(letter, _rest(bounds, after, size - 1)) for letter, after in firsts]
        found += [Word(plain(letter + rest) + b'"', 0) for letter, rest in rests if rest is not None]
        if len(found) < len(rests):
            break
        size = bounds.lengths.shortest(state.inner, size + 1, high) if high is None or size < high else None
    return found


def _rest(bounds: LengthBounds, state: int, size: int) -> str | None:
    """Return a text of `size` characters that the pattern accepts from `state`; None if too many would have to be
    searched one by one."""
    text: list[str] = []
    while size > 0:
        if len(text) > _MOST_CHARACTERS:
            return None
        letter, after = _letters(bounds, state, size)[0]
        settled = bounds.lengths.settled()
        count = size - settled if after == state and settled is not None and size > settled else 1
        text.append(letter * count)
        state, size = after, size - count
    return "".join(text)


def _letters(bounds: LengthBounds, state: int, size: int) -> list[tuple[str, int]]:
    """Return (character, next state) of the characters that begin a text of `size` characters from `state`, readable
    ones first."""
    tick()
    fitting, by_class = bounds.lengths.exactly(size - 1), _readable(bounds.dfa)
    found = [
        (rank, letter, target)
        for c, target in bounds.dfa.table.rows[state].items()
        if fitting >> target & 1
        for rank, letter in by_class[c]
    ]
    return [(letter, target) for _, letter, target in sorted(found)]


@remembered(200)
def _readable(dfa: CharDfa) -> dict[int, list[tuple[int, str]]]:
    """Return the most readable characters of each class, with their ranks."""
    table = dfa.table
    found: dict[int, list[tuple[int, str]]] = {}
    for byte in sorted(range(0x20, 0x7F), key=RANK.__getitem__):
        letters = found.setdefault(table.class_of(byte), [])
        if len(letters) < FEW:
            letters.append((RANK[byte], chr(byte)))
    for start, c in zip(table.starts, table.classes, strict=True):
        if c not in found:
            found[c] = [(len(RANK) + len(found), chr(start))]
    return found
