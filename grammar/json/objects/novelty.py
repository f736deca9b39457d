"""Objects that are items of an array of unique ones, and of which little is left to write: what would only repeat.

A member may be given a value only where one of the ways to go on behind it makes an object that was not given. Asked
where these ways are few; with many there is another one.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable
from decimal import Decimal
from itertools import chain
from typing import Any

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.json.few_values import MOST_VALUES, FewValue
from sluicegate.grammar.json.objects.plan import ObjectPlan
from sluicegate.grammar.json.objects.progress import ObjectProgress
from sluicegate.grammar.reading.array_items import ArrayItems
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.guards import AllGuards, DistinctItem, rests
from sluicegate.grammar.reading.tape import OpenBracket, Tape
from sluicegate.grammar.schema.constants import canonical
from sluicegate.grammar.schema.containers import Conjunction, Constant, conjunction, negated

BLANKS = b" \t\r\n"
_ITEMS_A_CHARGE = 4
"""Items that are compared for a charge."""
Members = frozenset[tuple[str, Any]]
Rests = frozenset[Members]
"""The members that may still come, in every way."""


def is_unique_item(follow: Continuation) -> bool:
    """Return whether the object before `follow` is an item of an array of unique ones."""
    guard = follow.branches[0].guard if len(follow.branches) == 1 else None
    guards = guard.guards if isinstance(guard, AllGuards) else (guard,)
    return any(isinstance(each, DistinctItem) for each in guards)


def may_lack_values(plan: ObjectPlan, roomy: int) -> bool:
    """Return whether an object of `plan`, an item of an array of unique ones, may come to where little is left to
    write. `roomy`: bit set of the names with many values."""
    if not plan.names or plan.some or plan.check is not None or (plan.free and plan.high is None):
        return False
    if plan.high is not None:
        return True
    last = 1 << len(plan.names) - 1
    return roomy.bit_count() < 2 if plan.any_order else not roomy & last


def left_of(state: ObjectProgress) -> int:
    """Return the bit set of the listed names that have not come and still may."""
    plan = state.plan
    left = plan.left(state.at if plan.any_order else (1 << state.at) - 1)
    return left & plan.required_set if _is_full(state) else left


def _is_full(state: ObjectProgress) -> bool:
    """Return whether only required members may still come."""
    return state.plan.high is not None and state.count + state.missing() >= state.plan.high


def rests_of(state: ObjectProgress) -> Rests | None:
    """Return what may still come in an object; None where that is much, or not known."""
    plan, left = state.plan, left_of(state)
    if plan.some or plan.check is not None or left & state.values.roomy(plan.values):
        return None
    if state.offers_free() and not _is_full(state):
        return None
    found: list[Members] = [frozenset()]
    for index in range(len(plan.names)):
        if not left >> index & 1:
            continue
        values = state.values.few(plan.values[index])
        assert values is not None
        ways = [(plan.names[index], value.key) for value in values]
        found = [
            members
            for given in found
            for members in (*(() if plan.required[index] else (given,)), *(given | {way} for way in ways))
        ]
        charge(len(found))
        if len(found) > MOST_VALUES:
            return None
    sizes = range(plan.low - state.count, len(plan.names) + 1 if plan.high is None else plan.high - state.count + 1)
    return frozenset(members for members in found if not plan.counts or len(members) in sizes)


class Novel:
    """The member that ends leaves a way to an object that was not given. `rests`: what may come behind it."""

    def __init__(self, rests: Rests) -> None:
        self.rests = rests
        self._last: tuple[Any, frozenset[Any]] | None = None
        """The last question and its answer: a mask asks the same of many tokens."""

    def allows(self, tape: Tape, end: int) -> bool:
        begin, array = tape.array_start(end), tape.outside(end)
        assert array is not None
        written = json.loads(bytes(tape.text[begin:end]) + b"}", parse_float=Decimal)
        name = next(reversed(written))
        return canonical(written[name]) not in self.repeated(tape, array, begin, written, name)

    def refused(self, tape: Tape, among: Container[str]) -> frozenset[str] | None:
        item = tape.open
        if tape.mode == 2 or item is None or item.outer is None:
            return None
        head = bytes(tape.text[item.start : tape.string[0] if tape.mode else len(tape.text)])
        try:
            written = json.loads(head + b"null}", parse_float=Decimal)
        except ValueError:  # the string that is asked for is not the next thing
            return None
        repeated = self.repeated(tape, item.outer, item.start, written, next(reversed(written)))
        words = frozenset([each for each in repeated if isinstance(each, str)])
        if tape.mode == 0:
            return words
        text = tape.begun_string()
        return None if text is None else rests(text, words)

    def repeated(
        self, tape: Tape, array: OpenBracket, begin: int, written: dict[str, Any], name: str
    ) -> frozenset[Any]:
        """Return the values of `name` with which the object `written`, that begins at `begin`, can only become one that
        was given."""
        before = bytes(tape.text[array.start : begin])
        others = frozenset([(key, canonical(value)) for key, value in written.items() if key != name])
        question, last = (before, others, name), self._last
        if last is None or last[0] != question:
            items = tape.array_items(array.start)
            items.read(before)
            last = self._last = question, self._repeated(items, others, name)
        return last[1]

    def _repeated(self, items: ArrayItems, others: Members, name: str) -> frozenset[Any]:
        charge(len(items.places) / _ITEMS_A_CHARGE)
        ways: dict[Any, set[Members]] = {}
        for members in _objects(items):
            if others <= members:
                value = next((each for key, each in members if key == name), _NONE)
                if value is not _NONE:
                    ways.setdefault(value, set()).add(members - others - {(name, value)})
        return frozenset([value for value, given in ways.items() if self.rests <= given])


_NONE = object()


def _objects(items: ArrayItems) -> Iterable[Members]:
    return (each[1] for each in items.places if isinstance(each, tuple) and each[0] == "dict")


def without_repeated(
    terms: Conjunction, values: tuple[FewValue, ...], tape: Tape, end: int, name: str, novel: Novel
) -> Conjunction:
    """Return `terms`, of the value of member `name`, without those that only repeat. `values`: all of `terms`; `end`:
    the object is written up to there, a comma at most behind its last member."""
    item = tape.open
    if item is None or item.outer is None:
        return terms
    head = bytes(tape.text[item.start : end]).rstrip(BLANKS).removesuffix(b",")
    comma = b"" if head == b"{" else b","
    written = json.loads(head + comma + json.dumps(name).encode() + b":null}", parse_float=Decimal)
    repeated = novel.repeated(tape, item.outer, item.start, written, name)
    excluded = (negated(Constant(value.text)) for value in values if value.key in repeated)
    return conjunction(chain(terms, excluded))
