"""Guards: conditions that need the text, asked when a value ends, before its closing byte is allowed."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Collection, Container, Iterable
from decimal import Decimal
from typing import Any, Protocol

from sluicegate.grammar.reading.given_names import NameSet
from sluicegate.grammar.reading.tape import OpenBracket, Tape
from sluicegate.grammar.schema.constants import canonical

_REMEMBERED = 64


class Guard(Protocol):
    def allows(self, tape: Tape, end: int) -> bool:
        """Return whether the value that ends at offset `end` passes."""

    def refused(self, tape: Tape, among: Container[str]) -> Collection[str] | None:
        """Return those of `among` that complete the open string and that `allows` would refuse; where none is open,
        strings that it would refuse next. None = ask `allows` for each token."""


class NewValue:
    """The base of guards of a value that must differ from others."""

    @abstractmethod
    def taken(self, tape: Tape, start: int, around: OpenBracket) -> Collection[Any]:
        """Return the values, in `canonical` form and always in the same order, that the one which begins at `start`,
        directly inside the bracket `around`, must differ from."""


class DistinctKey:
    """A property name that is neither one of `listed` nor one the object already has."""

    def __init__(self, listed: frozenset[str]) -> None:
        self.listed = NameSet(listed)

    def allows(self, tape: Tape, end: int) -> bool:
        assert tape.open is not None
        name = tape.last_string()
        return name not in self.listed and name not in tape.open.keys

    def refused(self, tape: Tape, among: Container[str]) -> list[str] | None:
        """Return the rests of names that may not come: listed ones, and those given before. Takes as long as there are
        such names among those that begin alike; what many share is remembered."""
        assert tape.open is not None
        begun = "" if tape.mode == 0 else tape.begun_string()
        if begun is None:
            return None
        return [*self.listed.rests(begun, among), *tape.open.keys.rests(begun, among)]


class DistinctItem(NewValue):
    """`uniqueItems`: the item that ends differs from all before it. `tried`: what comes next depends on the string that
    ends as well, so every token that ends it is tried. `reaching`: only tokens that go on into a next string are."""

    def __init__(self, tried: bool = False, reaching: bool = False) -> None:
        self.tried = tried
        self.reaching = reaching

    def allows(self, tape: Tape, end: int) -> bool:
        start = tape.array_start(end)
        items = tape.array_items(start)
        begin, close = tape.closed
        if close == end and begin > start and not items.given(bytes(tape.text[start:begin])):
            return True  # the first item, which may be long: it is not read
        return items.read(bytes(tape.text[start:end])) not in items.places

    def taken(self, tape: Tape, start: int, around: OpenBracket) -> Collection[Any]:
        return tape.array_items(around.start).given(bytes(tape.text[around.start : start]))

    def refused(self, tape: Tape, among: Container[str]) -> frozenset[str] | None:
        if self.tried or tape.mode == 2 or tape.open is None:
            return None
        end = tape.string[0] if tape.mode else len(tape.text)
        items = tape.array_items(tape.open.start)
        last = items.read(bytes(tape.text[tape.open.start : end]))
        words = frozenset([item for item in (*items.places, last) if isinstance(item, str)])
        if tape.mode == 0:
            return words
        begun = tape.begun_string()
        return None if begun is None else rests(begun, words)


class DistinctOnceClosed(NewValue):
    """The object or array that nothing but `brackets` can follow, now that its last part ends, differs from the items
    before it: asked here, lest the last bracket is refused and nothing else can come."""

    def __init__(self, brackets: bytes) -> None:
        self.brackets = brackets

    def allows(self, tape: Tape, end: int) -> bool:
        begin, array = tape.array_start(end), tape.outside(end)
        for _ in self.brackets[1:]:
            assert array is not None
            begin, array = array.start, array.outer
        if array is None:
            return True
        items = tape.array_items(array.start)
        if not items.given(bytes(tape.text[array.start : begin])):
            return True
        value = json.loads(bytes(tape.text[begin:end]) + self.brackets, parse_float=Decimal)
        return canonical(value) not in items.places

    def taken(self, tape: Tape, start: int, around: OpenBracket) -> Collection[Any]:
        item = around
        for _ in self.brackets[1:]:
            assert item.outer is not None
            item = item.outer
        if item.outer is None:
            return ()
        given = tape.array_items(item.outer.start).given(bytes(tape.text[item.outer.start : item.start]))
        if not given:
            return ()
        begun = json.loads(bytes(tape.text[item.start : start]) + b"null" + self.brackets, parse_float=Decimal)
        parts = (_last_part(begun, each) for each in given)
        return dict.fromkeys(part for part in parts if part is not _NONE)

    def refused(self, tape: Tape, among: Container[str]) -> frozenset[str] | None:
        return refused_strings(self, tape)


def refused_strings(guard: NewValue, tape: Tape) -> frozenset[str] | None:
    """Return the strings that `guard` would refuse next, or their rests where one is open; None where it must be
    asked."""
    if tape.mode == 2 or tape.open is None or tape.open.outer is None:
        return None
    try:
        taken = guard.taken(tape, tape.string[0] if tape.mode else len(tape.text), tape.open)
    except ValueError:  # the string that is asked for is not the next thing
        return None
    words = frozenset([each for each in taken if isinstance(each, str)])
    if tape.mode == 0:
        return words
    text = tape.begun_string()
    return None if text is None else rests(text, words)


_NONE = object()


def _last_part(begun: Any, item: Any) -> Any:
    """Return the value that makes `begun`, with null for its last part, equal to `item`, both in `canonical` form; or
    `_NONE`."""
    if begun is None:
        return item
    if not isinstance(item, tuple) or item[0] != ("dict" if isinstance(begun, dict) else "list"):
        return _NONE
    if isinstance(begun, list):
        return _last_part(begun[-1], item[-1]) if canonical(begun[:-1]) == item[:-1] else _NONE
    last, members = next(reversed(begun)), dict(item[1])
    others = frozenset((name, canonical(value)) for name, value in begun.items() if name != last)
    if last not in members or others != item[1] - {(last, members[last])}:
        return _NONE
    return _last_part(begun[last], members[last])


class ValidatorGuard:
    """The object or array just closed passes (or fails, as `expected` says) a whole validator."""

    def __init__(self, validator: Callable[[Any], bool], expected: bool) -> None:
        self.validator = validator
        self.expected = expected
        self._known: dict[bytes, bool] = {}

    def allows(self, tape: Tape, end: int) -> bool:
        begin, close = tape.closed
        text = bytes(tape.text[begin:close])
        known = self._known.get(text)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[text] = self.validator(json.loads(text, parse_float=Decimal)) == self.expected
        return known

    def refused(self, tape: Tape, among: Container[str]) -> None:
        return None


class HasDuplicates:
    """The array just closed holds two equal items."""

    def allows(self, tape: Tape, end: int) -> bool:
        begin, close = tape.closed
        items = json.loads(bytes(tape.text[begin:close]))
        return len({canonical(item) for item in items}) < len(items)

    def refused(self, tape: Tape, among: Container[str]) -> None:
        return None


class AllGuards:
    """All of several guards."""

    def __init__(self, guards: tuple[Guard, ...]) -> None:
        self.guards = guards

    def allows(self, tape: Tape, end: int) -> bool:
        return all(guard.allows(tape, end) for guard in self.guards)

    def refused(self, tape: Tape, among: Container[str]) -> None:
        return None


class _TextNeeded:
    """A guard that allows everything: it marks a step as dependent on the text."""

    def allows(self, tape: Tape, end: int) -> bool:
        return True

    def refused(self, tape: Tape, among: Container[str]) -> None:
        return None


TEXT_NEEDED = _TextNeeded()


def all_of(*guards: Guard | None) -> Guard | None:
    real = tuple(guard for guard in guards if guard is not None)
    if len(real) > 1:
        return AllGuards(real)
    return real[0] if real else None


def rests(begun: str, names: Iterable[str]) -> frozenset[str]:
    """Return the rests of those `names` that begin with `begun`."""
    return frozenset([name[len(begun) :] for name in names if name.startswith(begun)])
