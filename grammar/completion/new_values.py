"""Enumerate different values and property names that a schema allows, short ones first.

The texts are proposals for arrays of unique items and for objects that need more members: no guards or checks of whole
values are asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator
from decimal import Decimal
from itertools import islice
from typing import Any

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.completion.new_words import outcome_of, words_of
from sluicegate.grammar.json.arrays.plan import ArrayPlan
from sluicegate.grammar.json.objects.plan import ObjectPlan
from sluicegate.grammar.lexemes.base import QUOTE
from sluicegate.grammar.lexemes.literals import plain
from sluicegate.grammar.reading.readings import ByteChoice, EndOfText, InLexeme
from sluicegate.grammar.schema.constants import canonical
from sluicegate.grammar.schema.containers import Conjunction

_END = EndOfText()
_OF_TEXT, _OF_VALUE, _READ_A_CHARGE = 5, 2, 12
"""Work charged for a proposed text, and for reading one; and the bytes of it that are read per unit charged."""
_DECODER = json.JSONDecoder(parse_float=Decimal)
_DEEPEST = 4
"""Depth of nested values below which they are not varied."""
_ALTERNATIVES, _LONGER, _VARIED = 200, 4, 6
"""Alternatives of each part of a container, items beyond the fewest, and number of last parts that are varied."""
Texts = Callable[[], Iterator[bytes]]


class _Enumerated:
    """Texts enumerated so far, and the iterator of further ones."""

    def __init__(self, more: Iterator[bytes]) -> None:
        self.made: list[bytes] = []
        self.more = more


class NewValues:
    """Enumerates values and caches them. Shared by the matchers of a grammar, under the lock of its `Costs`."""

    def __init__(self) -> None:
        self._known: dict[Conjunction, _Enumerated] = {}

    def texts(self, source: Any, terms: Conjunction, depth: int = 0) -> Iterator[bytes]:
        """Yield texts of values that satisfy `terms`; a value may come twice in different spellings."""
        known = self._known.get(terms)
        if known is None:
            known = self._known[terms] = _Enumerated(self._values(source, terms, depth))
        at = 0
        while True:
            while at < len(known.made):
                yield known.made[at]
                at += 1
            try:
                known.made.append(next(known.more))
            except StopIteration:
                return
            except BaseException:  # the iterator is broken: begin anew next time
                self._known.pop(terms, None)
                raise

    def _values(self, source: Any, terms: Conjunction, depth: int) -> Iterator[bytes]:
        for reading in source.value(terms, _END):
            if isinstance(reading, InLexeme):
                yield from self._scalars(reading, b"")
            elif isinstance(reading, ByteChoice) and QUOTE in reading.moves:
                for below in reading.go(QUOTE):
                    yield from self._scalars(below, b'"')
        if depth < _DEEPEST:
            value_set = source.value_set(terms)
            for spec in value_set.arrays:
                plan = source.array_plan(spec)
                if plan is not None:
                    yield from self._arrays(source, plan, depth)
            for spec in value_set.objects:
                members = source.object_plan(spec)
                if members is not None:
                    yield from self._objects(source, members, depth)

    def _scalars(self, reading: Any, begun: bytes) -> Iterator[bytes]:
        if isinstance(reading, InLexeme):
            for word in words_of(reading.lexeme):
                charge(_OF_TEXT)
                yield begun + word

    # --- containers ---

    def _arrays(self, source: Any, plan: ArrayPlan, depth: int) -> Iterator[bytes]:
        if plan.contains or plan.paired is not None:
            return
        most = plan.low + _LONGER if plan.high is None else min(plan.high, plan.low + _LONGER)
        for size in range(plan.low, most + 1):
            items = [terms for index in range(size) if (terms := plan.at(index)) is not None]
            if len(items) < size:
                return
            for found in _products([self._part(source, terms, depth) for terms in items], plan.unique):
                yield b"[" + b",".join(found) + b"]"

    def _objects(self, source: Any, plan: ObjectPlan, depth: int) -> Iterator[bytes]:
        if plan.some:
            return
        needed = [i for i, required in enumerate(plan.required) if required]
        others = [i for i, required in enumerate(plan.required) if not required]
        extra = max(plan.low - len(needed), 0) if plan.counts else 0
        room = plan.high is None or plan.high > len(needed) + extra
        chosen = [others[:extra], *([*others[:extra], i] for i in others[extra:] if room)]
        for names in (sorted([*needed, *some]) for some in chosen if len(others) >= extra):
            for found in _products([self._part(source, plan.values[i], depth) for i in names]):
                yield _object(zip([plan.names[i] for i in names], found, strict=True))
        if not needed and extra <= 1 and (room or extra):
            for name, terms in self.names(plan, ()):
                yield from (_object([(name, text)]) for text in islice(self.texts(source, terms, depth + 1), 1))

    def _part(self, source: Any, terms: Conjunction, depth: int) -> Texts:
        return lambda: self.texts(source, terms, depth + 1)

    def names(self, plan: ObjectPlan, given: Container[str]) -> Iterator[tuple[str, Conjunction]]:
        """Yield (name, terms of its value) of free names of `plan` that are not in `given`."""
        for kinds, lexeme in plan.free_lexemes:
            for word in words_of(lexeme):
                charge(_OF_TEXT)
                name = json.loads(b'"' + word)
                outcome = 0 if len(kinds) == 1 else outcome_of(lexeme, word)
                if name not in plan.refused and name not in given and outcome is not None:
                    yield name, plan.free[kinds[outcome]]


def _object(members: Iterable[tuple[str, bytes]]) -> bytes:
    return b"{" + b",".join(member(name, value) for name, value in members) + b"}"


def member(name: str, value: bytes) -> bytes:
    return b'"' + plain(name) + b'":' + value


def value_of(text: bytes) -> Any:
    """Return the value of the JSON `text` as a hashable key that is equal exactly for equal values."""
    charge(_OF_VALUE + len(text) / _READ_A_CHARGE)
    return canonical(_DECODER.decode(text.decode()))


def _products(parts: list[Texts], unique: bool = False) -> Iterator[list[bytes]]:
    """Yield combinations of one text for each of `parts`; the last parts change first, and only the last `_VARIED` do.
    `unique`: the texts of a combination spell different values."""
    head: list[bytes] = []
    for part in parts[:-_VARIED]:
        text = _first(part(), set(map(value_of, head)) if unique else set())
        if text is None:
            return
        head.append(text)
    yield from ([*head, *rest] for rest in _ways(parts[-_VARIED:], set(map(value_of, head)) if unique else None))


def _first(texts: Iterator[bytes], given: set[Any]) -> bytes | None:
    for text in islice(texts, _ALTERNATIVES):
        charge(_OF_TEXT)
        if not given or value_of(text) not in given:
            return text
    return None


def _ways(parts: list[Texts], given: set[Any] | None) -> Iterator[list[bytes]]:
    """Yield combinations of texts of `parts`; if values are `given`, without these and without repeated values."""
    if not parts:
        yield []
        return
    for first in islice(parts[0](), _ALTERNATIVES):
        charge(_OF_TEXT)
        below = given
        if given is not None:
            value = value_of(first)
            if value in given:
                continue
            below = given | {value}
        for rest in _ways(parts[1:], below):
            yield [first, *rest]
