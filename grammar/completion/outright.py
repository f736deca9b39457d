"""Spell the rest of an open object or array at once, where a search would proceed member by member."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import islice
from typing import Any, NamedTuple

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.completion.new_values import NewValues, member, value_of
from sluicegate.grammar.completion.words import ShortWords
from sluicegate.grammar.json.arrays.listed import ListedState
from sluicegate.grammar.json.arrays.state import ArrayState
from sluicegate.grammar.json.container import AnyContainer, PartDone
from sluicegate.grammar.json.objects.plan import ObjectPlan
from sluicegate.grammar.json.objects.state import NameStart, ObjectState
from sluicegate.grammar.lexemes.base import QUOTE
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.reading import Reading
from sluicegate.grammar.reading.readings import ByteChoice, EndOfText, InLexeme
from sluicegate.grammar.reading.tape import NO_NAMES, OpenBracket
from sluicegate.grammar.reading.value_start import ValueStart
from sluicegate.grammar.schema.constants import canonical
from sluicegate.grammar.schema.containers import Conjunction

_END = EndOfText()
_BRACKETS = {0x7B: b"}", 0x5B: b"]"}
_OF_VALUE, _OF_PART, _OF_KNOWN, _NAMES_A_CHARGE = 8, 2, 0.5, 20
"""Work charged for a value, for a container or an item, and for a value that is known; names read per unit charged."""
_DEEPEST = 30
"""Maximum depth of nested values."""
_LETTERS_A_CHARGE, _PARTS_A_CHARGE = 200, 20
"""Characters of a name spelled, and members or items put together, per unit charged."""
_MOST_BYTES = 100_000
_KEPT_BYTES = 1_000
"""Bytes of a member whose text is kept."""
_READ_A_CHARGE = 20
"""Bytes of an array's items read per unit charged."""


class ClosingText(NamedTuple):
    """A proposed rest of an object or array, after one of its parts. `sure`: guards and checks cannot refuse it;
    `whole`: it finishes the whole text; `too_long`: it would have more bytes than are proposed."""

    text: bytes
    sure: bool
    whole: bool
    too_long: bool


class WrittenText(NamedTuple):
    """The text so far, and its innermost open bracket."""

    text: bytes
    open: OpenBracket | None


class Outright:
    """Proposes the rest of objects and arrays, with a cached short text for each value. A proposal may be refused
    unless it is `sure`: no guards or checks of whole values are asked. Shared by the matchers of a grammar, under the
    lock of its `Costs`."""

    def __init__(self, words: ShortWords) -> None:
        self._words = words
        self._new = NewValues()
        self._values: dict[Conjunction, tuple[bytes, bool] | None] = {}
        self._members_of: dict[ObjectPlan, dict[int, tuple[bytes, bool]]] = {}
        """By plan and index: a member, and whether nothing of it may be refused."""
        self._asking: list[Conjunction] = []
        self._sure = True
        """Whether the text being made contains nothing that may be refused."""
        self._too_long = False

    def rest(self, done: PartDone[AnyContainer], written: WrittenText) -> ClosingText:
        """Return a text from the end of a part to the closing bracket, and to the brackets around it, as far as listing
        missing parts completes them."""
        texts: list[bytes] = []
        size, bracket = 0, written.open
        after: Continuation | None = done
        self._sure, too_long = True, False
        while isinstance(after, PartDone) and size < _MOST_BYTES:
            self._sure, self._too_long = self._sure and after.guard is None, False
            text = self._closed(after.state, _Before(written.text, b"".join(texts), bracket))
            if text is None:
                too_long = self._too_long
                break
            texts.append(text)
            size += len(text)
            branches = after.state.follow.branches
            after = branches[0] if len(branches) == 1 else None
            bracket = None if bracket is None else bracket.outer
        whole = after is not None and after.is_end and type(after) is EndOfText
        return ClosingText(b"".join(texts), self._sure, whole, too_long)

    def _closed(self, container: AnyContainer, before: _Before) -> bytes | None:
        """Return a text from the end of a part to the closing bracket; None if there is none."""
        charge(_OF_PART)
        self._sure = self._sure and container.plan.check is None
        bracket = bytes([container.bracket])
        if container.may_close():
            return bracket
        parts = self._parts(container, before)
        if parts is None:
            return None
        charge(len(parts) / _PARTS_A_CHARGE)
        text = b",".join([b"", *parts]) + bracket
        if len(text) <= _MOST_BYTES:
            return text
        self._too_long = True
        return None

    def _parts(self, container: AnyContainer, before: _Before) -> list[bytes] | None:
        if isinstance(container, ObjectState):
            return self._members(container, before)
        assert isinstance(container, ArrayState)
        return self._items(container, before)

    def _members(self, state: ObjectState, before: _Before) -> list[bytes] | None:
        """Return the required members that are missing, and others up to the least number."""
        plan = state.plan
        if plan.some:
            return None
        left = range(len(plan.names)) if plan.any_order else range(state.at, len(plan.names))
        charge(len(left) / _NAMES_A_CHARGE)
        left_over = [i for i in left if not (plan.any_order and state.at >> i & 1)]
        names = [i for i in left_over if plan.required[i]]
        extra = plan.low - state.count - len(names) if plan.counts else 0
        if extra > 0:
            others = [i for i in left_over if not plan.required[i]][:extra]
            extra -= len(others)
            names = sorted((*names, *others))
        members = self._listed(state, names)
        if members is None or extra <= 0:
            return members
        free = self._free_members(state, before, extra)
        return None if free is None else members + free

    def _listed(self, state: ObjectState, names: list[int]) -> list[bytes] | None:
        """Return the members at the indexes `names`; None if one has no value, or all are too long."""
        known = self._members_of.setdefault(state.plan, {})
        found, size = list[bytes](), 0
        charge(len(names) / _NAMES_A_CHARGE)
        for index in names:
            kept = known.get(index)
            if kept is None:
                text = self._member(state, index, known)
                if text is None:
                    return None
            else:
                text = kept[0]
                self._sure = self._sure and kept[1]
            size += len(text)
            if size > _MOST_BYTES:
                self._too_long = True
                return None
            found.append(text)
        return found

    def _member(self, state: ObjectState, index: int, known: dict[int, tuple[bytes, bool]]) -> bytes | None:
        outer, self._sure = self._sure, True
        value, name = self._value(state.values, state.plan.values[index]), state.plan.names[index]
        charge(_OF_KNOWN + len(name) / _LETTERS_A_CHARGE)
        if value is None:
            return None
        text, sure = member(name, value), self._sure
        self._sure = outer and sure
        if len(text) <= _KEPT_BYTES:
            known[index] = text, sure
        return text

    def _free_members(self, state: ObjectState, before: _Before, count: int) -> list[bytes] | None:
        """Return `count` members with new names that are not listed."""
        self._sure = self._sure and (before is _NOTHING or before.bracket is not None)
        given = NO_NAMES if before.bracket is None else before.bracket.keys
        found = []
        for name, terms in islice(self._new.names(state.plan, given), count):
            value = self._value(state.values, terms)
            if value is None:
                return None
            found.append(member(name, value))
        return found if len(found) == count else None

    def _items(self, state: ArrayState, before: _Before) -> list[bytes] | None:
        """Return the items missing from the least number."""
        plan = state.plan
        if isinstance(state, ListedState):
            texts = state.rest()
            return None if texts is None else [text.encode() for text in texts]
        if plan.contains or plan.paired is not None or plan.low - state.index > _MOST_BYTES:
            return None
        if plan.unique:
            given = before.items()
            return None if given is None else self._new_items(state, state.index, given)
        found = _all(self._value(state.values, terms) for terms in plan.prefix[state.index : plan.low])
        more = plan.low - max(state.index, len(plan.prefix))
        if found is None or more <= 0:
            return found
        item = None if plan.rest is None else self._value(state.values, plan.rest)
        charge(more / _NAMES_A_CHARGE)
        return None if item is None else found + [item] * more

    def _new_items(self, state: ArrayState, begin: int, given: set[Any]) -> list[bytes] | None:
        """Return the items from index `begin` on, all different and none among those `given`."""
        plan, found = state.plan, list[bytes]()
        texts: dict[Conjunction, Iterator[bytes]] = {}
        for index in range(begin, plan.low):
            terms = plan.at(index)
            if terms is None:
                return None
            charge(_OF_PART)
            if terms not in texts:
                texts[terms] = self._new.texts(state.values, terms)
            for text in texts[terms]:
                value = value_of(text)
                if value not in given:
                    break
            else:
                return None
            given.add(value)
            found.append(text)
        self._sure = self._sure and all(map(_is_plain, found))
        return found

    # --- values ---

    def _value(self, source: Any, terms: Conjunction) -> bytes | None:
        charge(_OF_KNOWN)
        if terms not in self._values:
            if terms in self._asking or len(self._asking) > _DEEPEST:
                return None
            charge(_OF_PART + _OF_VALUE)
            self._asking.append(terms)
            outer, self._sure = self._sure, True
            try:
                found = self._shortest(source.value(terms, _END))
                self._values[terms] = None if found is None else (found, self._sure)
            finally:
                self._asking.pop()
                self._sure = outer
        known = self._values[terms]
        if known is None:
            return None
        self._sure = self._sure and known[1]
        return known[0]

    def _shortest(self, readings: tuple[Reading, ...]) -> bytes | None:
        """Return the shortest scalar; if there is none, the shortest object or array."""
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
        """Return the text from an opening bracket, excluded, to the closing one, `last`."""
        choices = [reading for reading in readings if isinstance(reading, ByteChoice)]
        self._sure = self._sure and not any(choice.guards for choice in choices)
        if any(last[0] in choice.moves for choice in choices):
            return last
        names = [choice.moves[QUOTE] for choice in choices if QUOTE in choice.moves]
        states = [name.state for name in names if isinstance(name, NameStart)]
        if states:
            members = self._members(states[0], _NOTHING)
            self._sure = self._sure and states[0].plan.check is None
            return None if members is None else b",".join(members) + last
        return next((text for text in map(self._from_first, readings) if text is not None), None)

    def _from_first(self, start: Reading) -> bytes | None:
        """Return the text from the first item of an array on."""
        done = start.follow.branches[0] if isinstance(start, ValueStart) else None
        if not isinstance(start, ValueStart) or not isinstance(done, PartDone):
            return None
        state = done.state
        if isinstance(state, ListedState):
            return None
        if isinstance(state, ArrayState) and state.plan.unique and state.plan.low:
            items = None if state.plan.contains else self._new_items(state, 0, set())
            return None if items is None else b",".join(items) + bytes([state.bracket])
        item, rest = self._value(start.source, start.terms), self._closed(state, _NOTHING)
        return None if item is None or rest is None else item + rest


class _Before(NamedTuple):
    """The text before the rest of a container: `text` and then `more`; `bracket`: the container's own, None if it is
    not known."""

    text: bytes
    more: bytes
    bracket: OpenBracket | None

    def items(self) -> set[Any] | None:
        """Return the items so far, including the last; None if they are not known."""
        if self.bracket is None:
            return None
        array = self.text[self.bracket.start :] + self.more
        charge(len(array) / _READ_A_CHARGE)
        try:
            return set(map(canonical, json.loads(array + b"]", parse_float=Decimal)))
        except ValueError:  # the last item is incomplete
            return None


_NOTHING = _Before(b"", b"", None)


def _is_plain(text: bytes) -> bool:
    """Return whether nothing of a new item could be refused: no guard is within it, and it is spelled as numbers always
    may be."""
    return text[:1] not in b"{[" and (text[:1] == b'"' or text.isalpha() or text.lstrip(b"-").isdigit())


def _all(parts: Iterable[bytes | None]) -> list[bytes] | None:
    """Return `parts` as a list; None if one of them is None."""
    found = []
    for part in parts:
        if part is None:
            return None
        found.append(part)
    return found
