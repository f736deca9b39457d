"""Spell all that an open object or array still needs at once, where a search would go member by member."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.completion.words import ShortWords
from sluicegate.grammar.json.arrays.state import ArrayState
from sluicegate.grammar.json.container import Container, PartDone
from sluicegate.grammar.json.objects.state import NameStart, ObjectState
from sluicegate.grammar.lexemes.base import QUOTE
from sluicegate.grammar.lexemes.literals import plain
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.reading import Reading
from sluicegate.grammar.reading.readings import ByteChoice, EndOfText, InLexeme
from sluicegate.grammar.reading.value_start import ValueStart
from sluicegate.grammar.schema.containers import Conjunction

_END = EndOfText()
_BRACKETS = {0x7B: b"}", 0x5B: b"]"}
_OF_VALUE, _OF_PART, _NAMES_A_CHARGE = 8, 2, 20
"""Charged for a value, and for a member or an item; names that are looked at for a charge."""
_DEEPEST = 30
"""Values inside values."""
_LETTERS_A_CHARGE = 200
"""Characters of a name that are spelled for a charge."""
_MOST_BYTES = 50_000


class Outright:
    """Remembers a short text for each value. Its texts are proposals: no guard was asked, and what only the values
    together decide was not looked at. Shared by the matchers of a grammar, under the lock of its `Costs`."""

    def __init__(self, words: ShortWords) -> None:
        self._words = words
        self._values: dict[Conjunction, bytes | None] = {}
        self._asking: list[Conjunction] = []

    def rest(self, done: PartDone) -> bytes:
        """Return a text from behind a part to the closing bracket, and to those around it, as far as completing them
        only takes listing missing parts."""
        texts: list[bytes] = []
        size = 0
        after: Continuation | None = done
        while isinstance(after, PartDone) and size < _MOST_BYTES:
            text = self._closed(after.state)
            if text is None:
                break
            texts.append(text)
            size += len(text)
            branches = after.state.follow.branches
            after = branches[0] if len(branches) == 1 else None
        return b"".join(texts)

    def _closed(self, container: Container) -> bytes | None:
        """Return a text from behind a part to the closing bracket."""
        charge(_OF_PART)
        bracket = bytes([container.bracket])
        if container.may_close():
            return bracket
        parts = self._parts(container)
        text = None if parts is None else b"".join(b"," + part for part in parts) + bracket
        return text if text is None or len(text) <= _MOST_BYTES else None

    def _parts(self, container: Container) -> list[bytes] | None:
        if isinstance(container, ObjectState):
            return self._members(container)
        assert isinstance(container, ArrayState)
        return self._items(container)

    def _members(self, state: ObjectState) -> list[bytes] | None:
        """Return the required members that have not come."""
        plan = state.plan
        if plan.some or (plan.counts and plan.low > state.count + state.missing()):
            return None
        left = range(len(plan.names)) if plan.any_order else range(state.at, len(plan.names))
        charge(len(left) / _NAMES_A_CHARGE)
        names = [i for i in left if plan.required[i] and not (plan.any_order and state.at >> i & 1)]
        return _all(self._member(state, i) for i in names)

    def _member(self, state: ObjectState, index: int) -> bytes | None:
        value, name = self._value(state.values, state.plan.values[index]), state.plan.names[index]
        charge(len(name) / _LETTERS_A_CHARGE)
        return None if value is None else b'"' + plain(name) + b'":' + value

    def _items(self, state: ArrayState) -> list[bytes] | None:
        """Return as many items as there must be; those of an array of unique ones depend on each other."""
        plan = state.plan
        if plan.unique or plan.contains or plan.low - state.index > _MOST_BYTES:
            return None
        found = _all(self._value(state.values, terms) for terms in plan.prefix[state.index : plan.low])
        more = plan.low - max(state.index, len(plan.prefix))
        if found is None or more <= 0:
            return found
        item = None if plan.rest is None else self._value(state.values, plan.rest)
        charge(more / _NAMES_A_CHARGE)
        return None if item is None else found + [item] * more

    # --- values ---

    def _value(self, source: Any, terms: Conjunction) -> bytes | None:
        charge(_OF_PART)
        if terms in self._values:
            return self._values[terms]
        if terms in self._asking or len(self._asking) > _DEEPEST:
            return None
        charge(_OF_VALUE)
        self._asking.append(terms)
        try:
            found = self._shortest(source.value(terms, _END))
        finally:
            self._asking.pop()
        self._values[terms] = found
        return found

    def _shortest(self, readings: tuple[Reading, ...]) -> bytes | None:
        """Return the shortest scalar, or else an object or array."""
        scalars = [text for reading in readings for text in self._scalars(reading)]
        if scalars:
            return min(scalars, key=len)
        opened = [
            (bytes([byte]), _BRACKETS[byte], reading.go(byte))
            for reading in readings
            if isinstance(reading, ByteChoice)
            for byte in reading.moves
            if byte in _BRACKETS
        ]
        whole = [(first, self._inside(last, below)) for first, last, below in opened]
        return min((first + text for first, text in whole if text is not None), key=len, default=None)

    def _scalars(self, reading: Reading) -> Iterator[bytes]:
        if isinstance(reading, InLexeme):
            words = self._words.of(reading.lexeme, reading.state)
            yield from (word.text for word in words[:1])
        elif isinstance(reading, ByteChoice):
            for byte in reading.moves:
                if byte not in _BRACKETS:
                    yield from (bytes([byte]) + text for below in reading.go(byte) for text in self._scalars(below))

    def _inside(self, last: bytes, readings: tuple[Reading, ...]) -> bytes | None:
        """Return the text from behind an opening bracket to the closing one, `last`."""
        choices = [reading for reading in readings if isinstance(reading, ByteChoice)]
        if any(last[0] in choice.moves for choice in choices):
            return last
        names = [choice.moves[QUOTE] for choice in choices if QUOTE in choice.moves]
        states = [name.state for name in names if isinstance(name, NameStart)]
        if states:
            members = self._members(states[0])
            return None if members is None else b",".join(members) + last
        return next((text for text in map(self._from_first, readings) if text is not None), None)

    def _from_first(self, start: Reading) -> bytes | None:
        """Return the text from the first item of an array on."""
        done = start.follow.branches[0] if isinstance(start, ValueStart) else None
        if not isinstance(start, ValueStart) or not isinstance(done, PartDone):
            return None
        item, rest = self._value(start.source, start.terms), self._closed(done.state)
        return None if item is None or rest is None else item + rest


def _all(parts: Iterable[bytes | None]) -> list[bytes] | None:
    """Return all of `parts`; None where there is none for one of them."""
    found = []
    for part in parts:
        if part is None:
            return None
        found.append(part)
    return found
