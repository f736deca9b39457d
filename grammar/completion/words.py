"""Find short words that end a lexeme from one of its states."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any

from sluicegate.grammar.budget.meter import charge, tick
from sluicegate.grammar.completion.counted_words import FEW, RANK, Word, of_counted
from sluicegate.grammar.lexemes.base import DfaLexeme, State
from sluicegate.grammar.lexemes.counted import Counted
from sluicegate.grammar.lexemes.joint import Joint
from sluicegate.grammar.lexemes.literals import Literals
from sluicegate.grammar.lexemes.without_given import PlaceWithout, WithoutGiven
from sluicegate.grammar.lexemes.words import Words

_OF_SEARCH, _OF_MOVES, _OF_STEPS, _OF_COUNTED_STEPS = 80, 15, 20, 200
"""Work charged for a search, for the moves from a state, for its next bytes, and for next bytes that must be tried one
by one."""
_VISITS = 4
_LISTED = 300
_NEW = 2
_MOST_STEPS = 4_000


class ShortWords:
    """Finds short words and caches them by state. Shared by the matchers of a grammar."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, State], tuple[Any, tuple[Word, ...]]] = {}

    def of(self, lexeme: Any, state: State) -> tuple[Word, ...]:
        """Return words, the shortest first; none if none was found within a few thousand steps."""
        key = (id(lexeme), state)
        known = self._known.get(key)
        if known is None:
            if len(self._known) > 20_000:
                self._known.clear()
            charge(_OF_SEARCH)
            known = self._known[key] = (lexeme, tuple(_search(lexeme, state)))
        return known[1]


def _search(lexeme: Any, start: State) -> list[Word]:
    """Search breadth first over bytes; each state is visited a few times, so that there are alternatives."""
    found: list[Word] = []
    if isinstance(lexeme, DfaLexeme):
        return _by_distance(lexeme, start)
    if isinstance(lexeme, Joint):
        return _of_joint(lexeme, start)
    if isinstance(lexeme, Counted):
        return of_counted(lexeme, start)
    if isinstance(lexeme, WithoutGiven):
        words = [word for word in _search(lexeme.inner, start.inner) if _takes(lexeme, start, word.text)]
        return words or list(_new_words(lexeme, start))
    if not found and isinstance(lexeme, Literals | Words):
        found.extend(_listed(lexeme, start))
    now = lexeme.outcome(start)
    if now is not None:
        found.append(Word(b"", now))
    if found or not lexeme.grows(start):
        return found
    visits: dict[State, int] = {}
    queue: deque[tuple[State, bytes]] = deque([(start, b"")])
    steps = 0
    while queue and steps < _MOST_STEPS and len(found) < FEW:
        state, text = queue.popleft()
        for byte, after in _moves(lexeme, state):
            steps += 1
            outcome = lexeme.outcome(after)
            if outcome is not None:
                found.append(Word(text + bytes([byte]), outcome))
                if len(found) == FEW:
                    break
            elif isinstance(lexeme, Literals | Words):  # after an escape the rests are listed again
                found += [Word(text + bytes([byte]) + word.text, word.outcome) for word in _listed(lexeme, after)]
                if len(found) >= FEW:
                    return found[:FEW]
            seen = visits.get(after, 0)
            if seen < _VISITS and lexeme.grows(after):
                visits[after] = seen + 1
                queue.append((after, text + bytes([byte])))
    return found


def _new_words(lexeme: WithoutGiven, start: PlaceWithout) -> Iterator[Word]:
    """Yield words that begin with different bytes, each completed by the bytes nearest to acceptance."""
    for first in islice(_nearest(lexeme, start), _NEW):
        state, text = lexeme.next(start, first), bytearray([first])
        while state is not None and lexeme.outcome(state) is None and len(text) < _MOST_STEPS:
            byte = next(_nearest(lexeme, state), -1)
            state = lexeme.next(state, byte) if byte >= 0 else None
            text.append(byte & 0xFF)
        if state is not None and (outcome := lexeme.outcome(state)) is not None:
            yield Word(bytes(text), outcome)


def _nearest(lexeme: WithoutGiven, state: PlaceWithout) -> Iterator[int]:
    """Yield bytes that may come next, nearest to acceptance by the inner lexeme first."""
    charge(_OF_STEPS)
    return (byte for byte in steps(lexeme.inner, state.inner) if lexeme.next(state, byte) is not None)


def _takes(lexeme: WithoutGiven, state: State, text: bytes) -> bool:
    """Return whether `lexeme` accepts the bytes `text`, a word of its inner lexeme."""
    for byte in text:
        state = lexeme.next(state, byte)
        if state is None:
            return False
    return True


def _by_distance(lexeme: DfaLexeme, start: int) -> list[Word]:
    """Return words along the shortest distances to acceptance; they differ in their first byte."""
    now = lexeme.outcome(start)
    if now is not None:
        return [Word(b"", now)]
    distance = lexeme.distances
    if distance[start] < 0:
        return []
    firsts = [(distance[after], RANK[byte], byte, after) for byte, after in _moves(lexeme, start)]
    found = []
    for _, _, byte, state in sorted(firsts)[:FEW]:
        text = bytearray([byte])
        while distance[state]:
            charge(_OF_STEPS)
            row = lexeme.row(state)
            closer = [b for b in range(256) if row[b] >= 0 and distance[row[b]] == distance[state] - 1]
            text.append(min(closer, key=RANK.__getitem__))
            state = row[text[-1]]
        outcome = lexeme.outcome(state)
        assert outcome is not None
        found.append(Word(bytes(text), outcome))
    return found


def _of_joint(lexeme: Joint, start: int) -> list[Word]:
    now = lexeme.outcome(start)
    if now is not None:
        return [Word(b"", now)]
    found = []
    for word in _by_distance(lexeme.inner, start):
        state: int | None = start
        for byte in word.text:
            state = None if state is None else lexeme.next(state, byte)
        outcome = None if state is None else lexeme.outcome(state)
        assert outcome is not None
        found.append(Word(word.text, outcome))
    return found


def _moves(lexeme: Any, state: State) -> list[tuple[int, State]]:
    """Return (byte, next state), readable bytes first, at most a few to each state."""
    charge(_OF_MOVES)
    counts: dict[State, int] = {}
    moves = []
    for byte in sorted(lexeme.next_bytes(state), key=RANK.__getitem__):
        tick()
        after = lexeme.next(state, byte)
        if after is not None and counts.setdefault(after, 0) < _VISITS:
            counts[after] += 1
            moves.append((byte, after))
    return moves


def steps(lexeme: Any, state: State) -> list[int]:
    """Return bytes that may come next, nearest to acceptance first, then readable ones."""
    charge(_OF_COUNTED_STEPS if isinstance(lexeme, Counted) else _OF_STEPS)
    plain: Any
    plain, at = (lexeme.inner, state.inner) if isinstance(lexeme, WithoutGiven) else (lexeme, state)
    plain = plain.inner if isinstance(plain, Joint) else plain
    distance = plain.distances if isinstance(plain, DfaLexeme) else None

    def order(byte: int) -> tuple[int, int]:
        return (0 if distance is None else distance[plain.row(at)[byte]]), RANK[byte]

    return sorted(lexeme.next_bytes(state), key=order)


def _listed(lexeme: Literals | Words, state: State) -> list[Word]:
    """Return the shortest of the first few hundred words that may still come."""
    window = lexeme.window(state)
    if window is None or window[0] >= 0 > window[2]:
        return []
    low, high, at = window
    if isinstance(lexeme, Words):
        spelled = lexeme.spelled
        rests = [
            bytes(spelled.data[spelled.starts[k] + at : spelled.ends[k]]) for k in range(low, min(high, low + _LISTED))
        ]
    else:
        rests = [lexeme.words[k][at:] for k in range(low, min(high, low + _LISTED))]
    words = [Word(rest, lexeme.outcomes[low + i]) for i, rest in enumerate(rests) if rest]
    return sorted(words, key=lambda word: len(word.text))[:FEW]
