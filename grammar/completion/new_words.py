"""Enumerate the words of a lexeme, short ones first: numbers, and strings after their opening quote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sluicegate.grammar.automata import CharDfa
from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.budget.remembered import remembered
from sluicegate.grammar.completion.counted_words import RANK
from sluicegate.grammar.lexemes.base import BACKSLASH, DfaLexeme
from sluicegate.grammar.lexemes.counted import Counted
from sluicegate.grammar.lexemes.joint import Joint
from sluicegate.grammar.lexemes.length_bounds import LengthBounds
from sluicegate.grammar.lexemes.literals import Literals, plain
from sluicegate.grammar.lexemes.without_given import WithoutGiven
from sluicegate.grammar.lexemes.words import Words

_OF_STEP, _OF_ROW, _LETTERS_A_CHARGE = 1, 20, 4
"""Work charged for a step and for the row of a state; characters sorted per unit charged."""
_OTHERS = 300
"""Maximum characters of a class that are tried."""
_LONGER = 40
"""Maximum excess length over the shortest word, in bytes or characters."""
_EXPONENTS = frozenset(b"eE")


def words_of(lexeme: Any) -> Iterator[bytes]:
    """Yield different words of `lexeme`, without escapes and exponents, which only spell the same values again."""
    if isinstance(lexeme, WithoutGiven):
        yield from (word for word in words_of(lexeme.inner) if outcome_of(lexeme, word) is not None)
    elif isinstance(lexeme, Joint):
        yield from words_of(lexeme.inner)
    elif isinstance(lexeme, Literals):
        yield from tuple(lexeme.words)  # what is left of a list may change meanwhile
    elif isinstance(lexeme, Words):
        spelled = lexeme.spelled
        yield from (bytes(spelled.data[low:high]) for low, high in zip(spelled.starts, spelled.ends, strict=True))
    elif isinstance(lexeme, Counted):
        yield from _counted(lexeme)
    elif isinstance(lexeme, DfaLexeme):
        yield from _by_size(lexeme)


def outcome_of(lexeme: Any, word: bytes) -> int | None:
    """Return the outcome of `word`, read from its first byte to the last; None if the lexeme may not end with it.
    `Lexeme.run` cannot tell: it returns None for a word that ends its lexeme for good."""
    state = lexeme.start
    for byte in word:
        state = None if state is None else lexeme.next(state, byte)
    return None if state is None else lexeme.outcome(state)


def _by_size(lexeme: DfaLexeme) -> Iterator[bytes]:
    """Yield words by length; states too far from acceptance for the length are skipped."""
    distance = lexeme.distances
    least = distance[lexeme.start]
    after: dict[int, list[tuple[int, int]]] = {}
    for size in range(least, least + _LONGER) if least >= 0 else ():
        pending = [(lexeme.start, b"")]
        while pending:
            state, text = pending.pop()
            charge(_OF_STEP)
            left = size - len(text)
            if not left:
                if lexeme.outcome(state) is not None:
                    yield text
                continue
            if state not in after:
                after[state] = _followers(lexeme, state)
            pending += [(target, text + bytes([byte])) for byte, target in after[state] if 0 <= distance[target] < left]


def _followers(lexeme: DfaLexeme, state: int) -> list[tuple[int, int]]:
    """Return (byte, next state) of the bytes that may come next, the most readable last."""
    charge(_OF_ROW)
    avoided = {BACKSLASH} if lexeme.is_string else _EXPONENTS
    found = [(byte, target) for byte, target in enumerate(lexeme.row(state)) if target >= 0 and byte not in avoided]
    return sorted(found, key=lambda each: -RANK[each[0]])


def _counted(lexeme: Counted) -> Iterator[bytes]:
    """Yield strings of bounded length, the fewest characters first."""
    bounds = lexeme.bounds
    low = lexeme.low
    if bounds is not None:
        least = bounds.lengths.shortest(0, lexeme.low, lexeme.high)
        if least is None:
            return
        low = least
    high = low + _LONGER if lexeme.high is None else min(lexeme.high, low + _LONGER)
    for size in range(low, high + 1):
        yield from (plain(text) + b'"' for text in (_any(size) if bounds is None else _fitting(bounds, size)))


def _any(size: int) -> Iterator[str]:
    """Yield strings of `size` letters that differ in their last ones."""
    for number in range(26 ** min(size, 3)):
        charge(_OF_STEP)
        tail = "".join(chr(0x61 + number // 26**k % 26) for k in reversed(range(min(size, 3))))
        yield "a" * (size - len(tail)) + tail


def _fitting(bounds: LengthBounds, size: int) -> Iterator[str]:
    """Yield strings of `size` characters of the pattern of `bounds`."""
    if not bounds.lengths.exactly(size) & 1:
        return
    letters = _letters(bounds.dfa)
    pending = [(0, "")]
    while pending:
        state, text = pending.pop()
        charge(_OF_STEP)
        if len(text) == size:
            yield text
            continue
        fitting = bounds.lengths.exactly(size - len(text) - 1)
        targets = [(c, target) for c, target in bounds.dfa.table.rows[state].items() if fitting >> target & 1]
        found = sorted((rank, letter, target) for c, target in targets for rank, letter in letters[c])
        charge(len(found) / _LETTERS_A_CHARGE)
        pending += [(target, text + letter) for _, letter, target in reversed(found)]


@remembered(200)
def _letters(dfa: CharDfa) -> dict[int, list[tuple[int, str]]]:
    """Return characters of each class with their ranks: the printable ones of ASCII, and some others."""
    table = dfa.table
    found: dict[int, list[tuple[int, str]]] = {}
    for byte in range(0x20, 0x7F):
        found.setdefault(table.class_of(byte), []).append((RANK[byte], chr(byte)))
    for start, end, c in zip(table.starts, [*table.starts[1:], 0x110000], table.classes, strict=True):
        known = found.setdefault(c, [])
        room = max(_OTHERS - len(known), 0)
        known += [(len(RANK) + code, chr(code)) for code in range(max(start, 0x7F), min(end, max(start, 0x7F) + room))]
    return found
