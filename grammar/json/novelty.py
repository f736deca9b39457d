"""Objects and arrays that must differ from others, and of which little is left to write: what would only repeat.

A part may be given a value only where one of the ways to go on behind it makes something that was not given. Asked
where these ways are few; with many there is another one.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Collection, Container, Iterable, Sequence
from decimal import Decimal
from typing import Any

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.guards import AllGuards, NewValue, refused_strings
from sluicegate.grammar.reading.tape import NO_NAMES, OpenBracket, Tape
from sluicegate.grammar.schema.constants import canonical

_BLANKS = b" \t\r\n"
_OF_QUESTION, _ITEMS_A_CHARGE = 8, 4
"""Work charged for a question, for which what is written is read; values that are compared for a charge."""
Members = frozenset[tuple[str, Any]]
_Split = tuple[Any, Any]


def new_value(follow: Continuation) -> NewValue | None:
    """Return the guard that asks whether the object or array before `follow` is new; None where none does."""
    guard = follow.branches[0].guard if len(follow.branches) == 1 else None
    if guard is None:
        return None
    guards = guard.guards if isinstance(guard, AllGuards) else (guard,)
    asking = [each for each in guards if isinstance(each, NewValue)]
    if not asking:
        return None
    return asking[0] if len(asking) == 1 else _NewInAll(asking)


class _NewInAll(NewValue):
    """A value that must differ from those of several sets."""

    def __init__(self, guards: Sequence[NewValue]) -> None:
        self._guards = guards

    def taken(self, tape: Tape, start: int, around: OpenBracket) -> Collection[Any]:
        return dict.fromkeys(value for guard in self._guards for value in guard.taken(tape, start, around))


class Novel(NewValue):
    """The part that ends leaves a way to something that was not given. `rests`: what may come behind it; `whole`: asks
    whether the object or array is new."""

    def __init__(self, rests: frozenset[Any], whole: NewValue) -> None:
        self.rests = rests
        self._whole = whole
        self._last: tuple[Any, Collection[Any]] | None = None
        """The last question and its answer: a mask asks the same of many tokens."""

    def allows(self, tape: Tape, end: int) -> bool:
        bracket = OpenBracket(tape.array_start(end), NO_NAMES, tape.outside(end))
        last, others = self._read(bytes(tape.text[bracket.start : end]))
        return canonical(last) not in self._repeated(tape, bracket, others)

    def refused(self, tape: Tape, among: Container[str]) -> frozenset[str] | None:
        return refused_strings(self, tape)

    def taken(self, tape: Tape, start: int, around: OpenBracket) -> Collection[Any]:
        """Return the values with which the part at `start` leads to nothing but what was given. Raises `ValueError`
        where no part can begin there."""
        return self._repeated(tape, around, self._read(bytes(tape.text[around.start : start]) + b"null")[1])

    def taken_by(self, tape: Tape, end: int, part: bytes) -> Collection[Any]:
        """Return `taken` of the part that comes next, where `part` is its beginning up to its value. The text is
        written up to `end`, a comma at most behind the last part."""
        item = tape.open
        assert item is not None
        head = _written(tape, item, end)
        comma = b"" if len(head) == 1 else b","
        return self._repeated(tape, item, self._read(head + comma + part + b"null")[1])

    def _repeated(self, tape: Tape, bracket: OpenBracket, others: Any) -> Collection[Any]:
        charge(_OF_QUESTION)
        if bracket.outer is None:
            return ()
        question, last = (bytes(tape.text[: bracket.start]), others), self._last
        if last is None or last[0] != question:
            last = self._last = question, self._find(self._given(tape, bracket), others)
        return last[1]

    def _find(self, given: Collection[Any], others: Any) -> Collection[Any]:
        charge(len(given) / _ITEMS_A_CHARGE)
        ways: dict[Any, set[Any]] = {}
        for value, rest in self._split(given, others):
            ways.setdefault(value, set()).add(rest)
        return dict.fromkeys(value for value, some in ways.items() if self.rests <= some)

    def _given(self, tape: Tape, bracket: OpenBracket) -> Collection[Any]:
        assert bracket.outer is not None
        return self._whole.taken(tape, bracket.start, bracket.outer)

    @abstractmethod
    def _read(self, head: bytes) -> _Split:
        """Return the last part of what `head` begins, and the parts before it with the last one's name."""

    @abstractmethod
    def _split(self, given: Collection[Any], others: Any) -> Iterable[_Split]:
        """Yield for each of `given` that has `others`: the value of the part, and the rest."""


def _written(tape: Tape, bracket: OpenBracket, end: int) -> bytes:
    """Return what is written inside `bracket` up to `end`, without a comma that waits for the next part."""
    return bytes(tape.text[bracket.start : end]).rstrip(_BLANKS).removesuffix(b",")


class NovelMember(Novel):
    """Of a member of an object. `rests` are sets of members."""

    def names(self, tape: Tape, end: int) -> list[str]:
        """Return the names that come, in what was given, beside the members written up to `end`."""
        item = tape.open
        if item is None or item.outer is None:
            return []
        head = _written(tape, item, end)
        written = canonical(json.loads(head + b"}", parse_float=Decimal))[1]
        given = [each[1] for each in self._given(tape, item) if isinstance(each, tuple) and each[0] == "dict"]
        charge(len(given) / _ITEMS_A_CHARGE)
        return sorted({name for members in given if written <= members for name, _ in members - written})

    def _read(self, head: bytes) -> tuple[Any, tuple[str, Members]]:
        written = json.loads(head + b"}", parse_float=Decimal)
        last = next(reversed(written))
        others = frozenset([(name, canonical(value)) for name, value in written.items() if name != last])
        return written[last], (last, others)

    def _split(self, given: Collection[Any], others: tuple[str, Members]) -> Iterable[_Split]:
        name, before = others
        for each in given:
            if isinstance(each, tuple) and each[0] == "dict" and before <= each[1]:
                for key, value in each[1]:
                    if key == name:
                        yield value, each[1] - before - {(key, value)}


class NovelItem(Novel):
    """Of an item of an array. `rests` are tuples of items."""

    def _read(self, head: bytes) -> tuple[Any, tuple[Any, ...]]:
        *before, last = json.loads(head + b"]", parse_float=Decimal)
        return last, canonical(before)

    def _split(self, given: Collection[Any], others: tuple[Any, ...]) -> Iterable[_Split]:
        size = len(others)
        for each in given:
            if isinstance(each, tuple) and each[0] == "list" and len(each) > size and each[:size] == others:
                yield each[size], each[size + 1 :]
